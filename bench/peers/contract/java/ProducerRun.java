package contract;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One producer of an `append`: sends its records in order, at most so many at once, and notes what was acknowledged.
 * Stops at the first failure, so that what was acknowledged before it is without a gap.
 */
final class ProducerRun implements AutoCloseable {
    /** With no acknowledgement for so long the system has stopped; its client should have said so before. */
    private static final long PATIENCE_S = 120;

    private final Append append;
    private final int number;
    private final Payloads payloads;
    private final SystemClient.Producer producer;
    private final Failures failures;
    private final byte[] sharedPayload;
    private final Semaphore room;
    private final Latencies latencies = new Latencies();
    private final AtomicLong acknowledged = new AtomicLong();
    private final AtomicLong firstFailed = new AtomicLong(Long.MAX_VALUE);
    private volatile long lastAcknowledgedNs;
    private long sent;
    private long retriesBefore;

    ProducerRun(Append append, int number, Payloads payloads, SystemClient.Producer producer, Failures failures) {
        this.append = append;
        this.number = number;
        this.payloads = payloads;
        this.producer = producer;
        this.failures = failures;
        sharedPayload = producer.copiesPayload() ? new byte[append.recordBytes()] : null;
        room = new Semaphore(append.outstandingMax());
    }

    /** Appends its share of the warm-up, as fast as that is acknowledged, and keeps no latency of it. */
    void warmUp() throws Exception {
        long end = append.warmupOf(number);
        while (sent < end && goesOn()) {
            sendNext(end, null, false);
        }
        drain();
        retriesBefore = producer.retries();
    }

    /** Appends the measured records; returns after the last acknowledgement. */
    void measure(long startNs) throws Exception {
        if (append.rate() == null) {
            sendClosed(startNs);
        } else {
            sendPaced(new Pacing(startNs, append.producers(), append.rate()), startNs);
        }
        drain();
        if (append.retry() || append.transactional()) {
            return;
        }
        failures.add(producer.retries() - retriesBefore, "the client of producer " + number + " sent records again by itself (refused, lost or too large at first: see standard error)");
    }

    private void sendClosed(long startNs) throws Exception {
        long end = append.records() < 0 ? Long.MAX_VALUE : sent + append.measuredOf(number);
        long endNs = endNs(startNs);
        while (sent < end && goesOn()) {
            awaitRoom(1);
            room.release();
            if (System.nanoTime() - endNs >= 0) {
                return;
            }
            sendNext(end, null, true);
        }
    }

    private void sendPaced(Pacing pacing, long startNs) throws Exception {
        long all = append.records() < 0 ? Long.MAX_VALUE : append.measuredOf(number);
        long endNs = endNs(startNs);
        for (long index = 0; index < all && goesOn(); index++) {
            long dueNs = pacing.dueNs(number, index);
            if (dueNs - endNs >= 0) {
                return;
            }
            Pacing.waitUntil(dueNs);
            sendNext(Long.MAX_VALUE, dueNs, true);
        }
    }

    /** Sends the next record, or a transaction of those before `end`, as soon as there is room. */
    private void sendNext(long end, Long dueNs, boolean measured) throws Exception {
        if (append.transactional()) {
            sendTransaction(end, dueNs, measured);
        } else {
            awaitRoom(1);
            sendWithRoom(dueNs, measured);
        }
    }

    /** The client is told of a record's failure by the commit as well, which is what counts for all of them. */
    private void sendTransaction(long end, Long dueNs, boolean measured) throws Exception {
        int count = (int) Math.min(append.batchRecords(), end - sent);
        long first = sent;
        sent += count;
        long[] sinceNs = new long[count];
        Throwable failure = null;
        awaitRoom(count);
        try {
            long begunNs = System.nanoTime();
            producer.begin();
            for (int i = 0; i < count; i++) {
                byte[] payload = payload();
                payloads.write(number, first + i, payload);
                sinceNs[i] = dueNs != null ? dueNs : i == 0 ? begunNs : System.nanoTime();
                producer.send(append.shardOf(number, first + i), payload, ignored -> { });
            }
            producer.commit();
        } catch (Exception thrown) {
            failure = thrown;
        }
        for (int i = 0; i < count; i++) {
            settle(first + i, sinceNs[i], measured, failure);
        }
    }

    private byte[] payload() {
        return sharedPayload == null ? new byte[append.recordBytes()] : sharedPayload;
    }

    private long endNs(long startNs) {
        return startNs + (append.seconds() < 0 ? Long.MAX_VALUE / 2 : (long) (append.seconds() * 1e9));
    }

    /** Sends the next record, for which room was had. Its latency counts from when it was due, else from the call. */
    private void sendWithRoom(Long dueNs, boolean measured) {
        long record = sent++;
        int shard = append.shardOf(number, record);
        byte[] payload = payload();
        payloads.write(number, record, payload);
        long sinceNs = dueNs == null ? System.nanoTime() : dueNs;
        try {
            if (append.oneByOne()) {
                producer.sendAndWait(shard, payload);
                settle(record, sinceNs, measured, null);
            } else {
                producer.send(shard, payload, failure -> settle(record, sinceNs, measured, failure));
            }
        } catch (Exception failure) {
            settle(record, sinceNs, measured, failure);
        }
    }

    private void settle(long record, long sinceNs, boolean measured, Throwable failure) {
        if (failure == null) {
            long now = System.nanoTime();
            if (measured) {
                latencies.record(now - sinceNs);
                lastAcknowledgedNs = now;
                acknowledged.incrementAndGet();
            }
        } else {
            failures.add(failure);
            firstFailed.accumulateAndGet(record, Math::min);
        }
        room.release();
    }

    private boolean goesOn() {
        return firstFailed.get() == Long.MAX_VALUE;
    }

    private void awaitRoom(int records) throws Exception {
        if (!room.tryAcquire(records) && !room.tryAcquire(records, PATIENCE_S, TimeUnit.SECONDS)) {
            // Which records are outstanding is not known: none counts as appended.
            firstFailed.set(0);
            throw new IllegalStateException(
                    "producer " + number + " had no acknowledgement for " + PATIENCE_S + " s; is the system alive?");
        }
    }

    /** Returns when nothing is outstanding. */
    private void drain() throws Exception {
        producer.flush();
        awaitRoom(append.outstandingMax());
        room.release(append.outstandingMax());
    }

    Latencies latencies() {
        return latencies;
    }

    /** Measured records that were acknowledged so far. */
    long acknowledged() {
        return acknowledged.get();
    }

    /** On the clock of System.nanoTime; 0 if nothing was acknowledged. */
    long lastAcknowledgedNs() {
        return lastAcknowledgedNs;
    }

    /** How many of its first records were acknowledged without a gap, warm-up included. */
    long appended() {
        return Math.min(sent, firstFailed.get());
    }

    @Override
    public void close() throws Exception {
        producer.close();
    }
}
