package contract;

import java.util.concurrent.locks.LockSupport;

/**
 * When records are due, for runs at a fixed rate. The schedule is fixed before the first is sent: a system that stalls
 * does not slow it down, and what it held up counts from when it was due.
 */
final class Pacing {
    /** A thread that sleeps wakes up about this much late, so the last stretch is waited for awake. */
    private static final long AWAKE_NS = 70_000;

    private final long startNs;
    private final int producers;
    private final double nsPerRecord;

    /** `startNs` is on the clock of System.nanoTime. */
    Pacing(long startNs, int producers, double recordsPerSecond) {
        this.startNs = startNs;
        this.producers = producers;
        nsPerRecord = 1e9 / recordsPerSecond;
    }

    /** When a producer's measured record `index` (from 0) is due. */
    long dueNs(int producer, long index) {
        return startNs + (long) ((index * (double) producers + producer) * nsPerRecord);
    }

    /** Returns when it is `dueNs`, at once if that has passed. */
    static void waitUntil(long dueNs) {
        long left = dueNs - System.nanoTime();
        while (left > 0) {
            if (left > AWAKE_NS) {
                LockSupport.parkNanos(left - AWAKE_NS);
            } else {
                // Lets the measured system have the processor, which may be one of few.
                Thread.yield();
            }
            left = dueNs - System.nanoTime();
        }
    }
}
