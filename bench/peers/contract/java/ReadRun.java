package contract;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;

/** One `read` command: consumers that start together and read until they have enough records between them. */
final class ReadRun {
    /** Records that did not come for so long will not come. */
    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(20);

    private final SystemClient client;
    private final Read read;
    private final Events events;
    private final Failures failures = new Failures();
    private final CountDownLatch opened;
    private final CountDownLatch start = new CountDownLatch(1);
    /** What all consumers had, brought up to date after each poll. */
    private final AtomicLong records = new AtomicLong();
    private final AtomicLong lastRecordNs = new AtomicLong();

    ReadRun(SystemClient client, Read read, Events events) {
        this.client = client;
        this.read = read;
        this.events = events;
        opened = new CountDownLatch(read.consumers());
    }

    void run() throws Exception {
        List<Consumed> all = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int consumer = 0; consumer < read.consumers(); consumer++) {
            int number = consumer;
            Consumed consumed = new Consumed(read.verify());
            all.add(consumed);
            threads.add(new Thread(() -> consume(number, consumed), "consumer-" + number));
        }
        threads.forEach(Thread::start);
        opened.await();
        boolean ready = failures.count() == 0;
        if (ready) {
            events.say("started");
        }
        long startNs = System.nanoTime();
        lastRecordNs.set(startNs);
        start.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        if (!ready) {
            throw new IllegalStateException("a consumer could not begin: " + failures.first());
        }
        events.say("done", summary(all, startNs));
    }

    private void consume(int number, Consumed consumed) {
        List<Integer> own = IntStream.of(read.shardsOf(number)).boxed().toList();
        boolean counted = false;
        try (SystemClient.Reader reader = client.read(read.log(), read.shards(), own, read, false)) {
            opened.countDown();
            counted = true;
            start.await();
            while (records.get() < read.records() && failures.count() == 0) {
                pollOnce(reader, consumed);
            }
        } catch (Throwable failure) {
            failures.add(failure);
        } finally {
            if (!counted) {
                opened.countDown();
            }
        }
    }

    private void pollOnce(SystemClient.Reader reader, Consumed consumed) throws Exception {
        long had = consumed.records();
        // What the others had before this poll; so one consumer alone takes not one record too many.
        consumed.takeAtMost(read.records() - records.get() + had);
        reader.poll(consumed);
        long now = System.nanoTime();
        if (consumed.records() > had) {
            records.addAndGet(consumed.records() - had);
            lastRecordNs.accumulateAndGet(now, Math::max);
        } else if (now - lastRecordNs.get() > PATIENCE_NS) {
            throw new IllegalStateException("only " + records + " of " + read.records() + " records came");
        }
    }

    private Map<String, Object> summary(List<Consumed> all, long startNs) {
        Latencies latencies = new Latencies();
        all.forEach(consumed -> latencies.merge(consumed.requests()));
        all.forEach(consumed -> failures.add(consumed.damaged(), consumed.firstDamage()));
        Map<String, Object> done = new LinkedHashMap<>();
        done.put("seconds", (lastRecordNs.get() - startNs) / 1e9);
        done.put("records", records.get());
        done.put("bytes", all.stream().mapToLong(Consumed::bytes).sum());
        done.put("errors", failures.count());
        done.put("first_error", failures.first());
        done.put("crc32_sum", read.verify() ? all.stream().mapToLong(Consumed::sum).sum() : null);
        done.put("out_of_order", read.verify() ? all.stream().mapToLong(Consumed::outOfOrder).sum() : null);
        done.put("latency_ns", latencies.pairs());
        return done;
    }
}
