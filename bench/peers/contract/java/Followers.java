package contract;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The consumers of an `append` with `follow`: one thread for each shard, which reads at the tail and notes how long
 * after it was due each measured record came.
 */
final class Followers implements AutoCloseable {
    /** Records that did not come for so long will not come. */
    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(20);

    /** What one request at the tail may bring: more than ever waits there. */
    private static final int REQUEST_BYTES = 4 << 20;

    private final Append append;
    private final List<Follower> followers = new ArrayList<>();
    private final Failures failures = new Failures();
    private volatile boolean over;
    /** Set before the first measured record is sent. */
    private volatile Pacing pacing;

    /** Returns when all of them stand at the tail. */
    Followers(SystemClient client, Append append) throws Exception {
        this.append = append;
        Read read = new Read(append.log(), append.shards(), append.shards(), append.recordBytes(), REQUEST_BYTES,
                Long.MAX_VALUE, false, append.transactional());
        for (int shard = 0; shard < append.shards(); shard++) {
            Follower follower = new Follower(client, read, shard);
            followers.add(follower);
            follower.thread.start();
        }
        for (Follower follower : followers) {
            follower.ready.await();
        }
        if (failures.count() > 0) {
            close();
            throw new IllegalStateException("a consumer could not follow the log: " + failures.first());
        }
    }

    void measureFrom(long startNs) {
        pacing = new Pacing(startNs, append.producers(), append.rate());
    }

    /** Waits until all `records` (warm-up included) came; what did not counts as failed. */
    void await(long records, Failures all) throws InterruptedException {
        long before = -1;
        long sinceNs = System.nanoTime();
        while (delivered() < records && System.nanoTime() - sinceNs < PATIENCE_NS && failures.count() == 0) {
            if (delivered() != before) {
                before = delivered();
                sinceNs = System.nanoTime();
            }
            Thread.sleep(1);
        }
        all.add(failures.count(), failures.first());
        long missing = records - delivered();
        if (missing > 0) {
            all.add(missing, missing + " of " + records + " appended records were not delivered");
        }
    }

    private long delivered() {
        return followers.stream().mapToLong(follower -> follower.delivered.get()).sum();
    }

    Latencies latencies() {
        Latencies all = new Latencies();
        followers.forEach(follower -> all.merge(follower.latencies));
        return all;
    }

    @Override
    public void close() throws InterruptedException {
        over = true;
        for (Follower follower : followers) {
            follower.thread.join();
        }
    }

    private final class Follower implements SystemClient.Sink {
        private final Thread thread;
        private final CountDownLatch ready = new CountDownLatch(1);
        private final AtomicLong delivered = new AtomicLong();
        private final Latencies latencies = new Latencies();

        Follower(SystemClient client, Read read, int shard) {
            thread = new Thread(() -> follow(client, read, shard), "follower-" + shard);
        }

        private void follow(SystemClient client, Read read, int shard) {
            try (SystemClient.Reader reader = client.read(read.log(), read.shards(), List.of(shard), read, true)) {
                ready.countDown();
                while (!over) {
                    reader.poll(this);
                }
            } catch (Throwable failure) {
                failures.add(failure);
            } finally {
                ready.countDown();
            }
        }

        @Override
        public void record(int shard, ByteBuffer payload) {
            long now = System.nanoTime();
            long stamp = Payloads.stampOf(payload);
            int producer = Payloads.producerOf(stamp);
            long index = Payloads.numberOf(stamp) - append.warmupOf(producer);
            if (index >= 0) {
                latencies.record(now - pacing.dueNs(producer, index));
            }
            delivered.incrementAndGet();
        }

        @Override
        public void request(long ns) {
            // Only deliveries are asked for here.
        }
    }
}
