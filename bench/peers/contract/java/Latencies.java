package contract;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * How often each latency was seen. Three significant digits are kept, rounded up: a latency is never shown shorter than
 * it was. Each thread has its own, and they are merged at the end; recording is safe from several threads all the same,
 * since clients acknowledge on threads of their own.
 */
public final class Latencies {
    /** Below this each nanosecond is told apart; above it, 900 steps for each power of ten. */
    private static final int EXACT = 1000;
    private static final int STEPS = 900;
    /** Up to nearly three hours; longer ones count as that. */
    private static final int POWERS = 10;
    private static final long LONGEST_NS = 9_990_000_000_000L;

    private final AtomicIntegerArray counts = new AtomicIntegerArray(EXACT + STEPS * POWERS);

    /** Adds one latency. */
    public void record(long ns) {
        counts.incrementAndGet(index(Math.min(Math.max(ns, 0), LONGEST_NS)));
    }

    private static int index(long ns) {
        long digits = ns;
        int power = 0;
        while (digits >= EXACT) {
            digits = (digits + 9) / 10;
            power++;
        }
        return power == 0 ? (int) digits : EXACT + STEPS * (power - 1) + (int) digits - EXACT / 10;
    }

    private static long value(int index) {
        if (index < EXACT) {
            return index;
        }
        long value = EXACT / 10 + (index - EXACT) % STEPS;
        for (int power = 0; power <= (index - EXACT) / STEPS; power++) {
            value *= 10;
        }
        return value;
    }

    /** Adds all of another's. */
    void merge(Latencies other) {
        for (int i = 0; i < counts.length(); i++) {
            int count = other.counts.get(i);
            if (count > 0) {
                counts.addAndGet(i, count);
            }
        }
    }

    /** Pairs of a latency in nanoseconds and how many had it, ascending, as events show them. */
    List<List<Long>> pairs() {
        List<List<Long>> pairs = new ArrayList<>();
        for (int i = 0; i < counts.length(); i++) {
            if (counts.get(i) > 0) {
                pairs.add(List.of(value(i), (long) counts.get(i)));
            }
        }
        return pairs;
    }
}
