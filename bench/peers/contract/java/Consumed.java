package contract;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.CRC32;

/** What one consumer had. Checks each record if that is asked for. Used by one thread. */
final class Consumed implements SystemClient.Sink {
    private final boolean verify;
    private final CRC32 crc = new CRC32();
    /** The number of the record before, by shard and then by producer. */
    private final Map<Integer, Map<Integer, Long>> before = new HashMap<>();
    private final Latencies requests = new Latencies();
    private long most;
    private long records;
    private long bytes;
    private long sum;
    private long outOfOrder;
    private long damaged;
    private String firstDamage;

    Consumed(boolean verify) {
        this.verify = verify;
    }

    /** From now on, records that come after `most` in all are left alone. */
    void takeAtMost(long most) {
        this.most = most;
    }

    @Override
    public void record(int shard, ByteBuffer payload) {
        if (records >= most) {
            return;
        }
        records++;
        bytes += payload.remaining();
        if (verify) {
            check(shard, payload);
        }
    }

    private void check(int shard, ByteBuffer payload) {
        crc.reset();
        crc.update(payload.duplicate());
        sum += crc.getValue();
        try {
            long stamp = Payloads.stampOf(payload);
            long number = Payloads.numberOf(stamp);
            Long last = before.computeIfAbsent(shard, any -> new HashMap<>()).put(Payloads.producerOf(stamp), number);
            if (last != null && number <= last) {
                outOfOrder++;
            }
        } catch (IllegalArgumentException damage) {
            damaged++;
            firstDamage = firstDamage == null ? damage.getMessage() : firstDamage;
        }
    }

    @Override
    public void request(long ns) {
        requests.record(ns);
    }

    Latencies requests() {
        return requests;
    }

    long records() {
        return records;
    }

    long bytes() {
        return bytes;
    }

    long sum() {
        return sum;
    }

    long outOfOrder() {
        return outOfOrder;
    }

    /** Records without a readable stamp. */
    long damaged() {
        return damaged;
    }

    String firstDamage() {
        return firstDamage;
    }
}
