package contract;

import java.nio.ByteBuffer;

/**
 * What each record must be, by the rule of the contract: a stamp with its producer and number, then letters from a
 * pool. Immutable after it was made, so all threads share one.
 */
public final class Payloads {
    static final int STAMP_BYTES = 16;
    static final int RECORD_BYTES_MAX = 1 << 30;

    private static final long STARTS_MIN = 1 << 20;
    private static final long STARTS_MAX = 1 << 26;
    private static final long RECORDS_APART = 64;
    private static final long STRIDE_MIN = 4093;
    private static final byte[] LETTERS =
            latin("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    private static final byte[] DIGITS = latin("0123456789abcdef");
    /** Of a stamp's 64 bits, the upper 16 are the producer. */
    private static final int NUMBER_BITS = 48;

    private final int recordBytes;
    private final byte[] pool;
    /** Letters of a record begin below this, a power of two. */
    private final long starts;
    /** So much later begin those of the next record. */
    private final long stride;

    public Payloads(int recordBytes) {
        this.recordBytes = recordBytes;
        long apart = Math.max(STARTS_MIN, Math.min(STARTS_MAX, RECORDS_APART * recordBytes));
        starts = Long.highestOneBit(2 * apart - 1);
        stride = Math.max(STRIDE_MIN, recordBytes | 1);
        pool = new byte[(int) starts + recordBytes];
        long state = 0x9E3779B97F4A7C15L ^ recordBytes;
        for (int i = 0; i < pool.length; i++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
            pool[i] = LETTERS[(int) ((state >>> 32) % LETTERS.length)];
        }
    }

    /** Writes a record into `into`, which is as long as a record. */
    public void write(int producer, long number, byte[] into) {
        long stamp = stamp(producer, number);
        for (int i = STAMP_BYTES - 1; i >= 0; i--) {
            into[i] = DIGITS[(int) (stamp & 15)];
            stamp >>>= 4;
        }
        int from = (int) (number * stride + producer * 65537L & starts - 1);
        System.arraycopy(pool, from, into, STAMP_BYTES, recordBytes - STAMP_BYTES);
    }

    private static long stamp(int producer, long number) {
        return (long) producer << NUMBER_BITS | number;
    }

    /** The stamp of a payload, or an error that shows what stands in its place. Does not move its position. */
    static long stampOf(ByteBuffer payload) {
        if (payload.remaining() < STAMP_BYTES) {
            throw new IllegalArgumentException("a record of " + payload.remaining() + " bytes has no stamp");
        }
        long stamp = 0;
        for (int i = 0; i < STAMP_BYTES; i++) {
            byte letter = payload.get(payload.position() + i);
            int digit = letter >= '0' && letter <= '9' ? letter - '0' : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
            if (digit < 0) {
                throw new IllegalArgumentException("a record has byte " + (letter & 255) + " where a digit of its stamp belongs");
            }
            stamp = stamp << 4 | digit;
        }
        return stamp;
    }

    static int producerOf(long stamp) {
        return (int) (stamp >>> NUMBER_BITS);
    }

    static long numberOf(long stamp) {
        return stamp & (1L << NUMBER_BITS) - 1;
    }

    private static byte[] latin(String letters) {
        return letters.getBytes(java.nio.charset.StandardCharsets.ISO_8859_1);
    }
}
