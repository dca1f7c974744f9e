package contract;

/**
 * The command `append`: what producers append, how fast, and who follows them. Its words are the contract's.
 *
 * @param records how many in all; -1 if none is given
 * @param seconds for how long; -1 if it is not given. What comes first ends it
 * @param rate records a second that are due, in all; null is the closed loop
 * @param retry whether nodes die meanwhile: what was not acknowledged is sent again until it is, and is there once
 * @param transactional whether each batch is a transaction, with its records in one shard after the other
 */
public record Append(String log, int shards, int producers, int recordBytes, int batchRecords, int inFlight,
        long warmupRecords, long records, double seconds, Double rate, boolean follow, boolean retry,
        boolean transactional) {
    /** The stamp has four hexadecimal digits for the producer. */
    private static final int PRODUCERS_MAX = 1 << 16;

    static Append of(Fields fields) {
        Double seconds = fields.positiveOrNull("seconds");
        Append append = new Append(fields.text("log"), fields.whole("shards", 1, Integer.MAX_VALUE),
                fields.whole("producers", 1, PRODUCERS_MAX),
                fields.whole("record_bytes", Payloads.STAMP_BYTES, Payloads.RECORD_BYTES_MAX),
                fields.whole("batch_records", 1, Integer.MAX_VALUE), fields.whole("in_flight", 1, Integer.MAX_VALUE),
                fields.has("warmup_records") ? fields.records("warmup_records") : 0,
                fields.has("records") ? fields.records("records") : -1, seconds == null ? -1 : seconds,
                fields.positiveOrNull("rate"), fields.flag("follow"), fields.flag("retry"),
                fields.flag("transactional"));
        if (append.records < 0 && append.seconds < 0) {
            throw new IllegalArgumentException("\"records\", \"seconds\" or both must be given");
        }
        if (append.follow && append.rate == null) {
            throw new IllegalArgumentException("\"follow\" needs a \"rate\": without it no record is due");
        }
        if (append.retry && (!append.oneByOne() || append.rate != null)) {
            throw new IllegalArgumentException("with \"retry\" one record is sent after the other (\"batch_records\" and "
                    + "\"in_flight\" 1, no \"rate\")");
        }
        if (append.transactional && (append.inFlight != 1 || append.retry || append.rate != null && append.batchRecords != 1)) {
            throw new IllegalArgumentException("with \"transactional\" one transaction follows the other (\"in_flight\" 1, no "
                    + "\"retry\"; with a \"rate\", \"batch_records\" 1)");
        }
        return append;
    }

    /** Whether records are appended strictly one by one. */
    public boolean oneByOne() {
        return batchRecords == 1 && inFlight == 1;
    }

    /**
     * Whether a client may hold a record back so that its batch fills. Not at a rate: there a record waits for no company,
     * and a client that falls behind batches what is due meanwhile.
     */
    public boolean mayLinger() {
        return rate == null && batchRecords > 1 && !transactional;
    }

    /** How many records of one producer may wait for their acknowledgement at once. */
    public int outstandingMax() {
        return (int) Math.min((long) batchRecords * inFlight, Integer.MAX_VALUE);
    }

    /**
     * Where a producer's record goes: its k-th batch is in shard (producer + k * producers) mod shards. The records of a
     * transaction go as batches of one.
     */
    int shardOf(int producer, long record) {
        long batch = transactional ? record : record / batchRecords;
        return (int) ((producer + batch * producers) % shards);
    }

    long warmupOf(int producer) {
        return share(warmupRecords, producer);
    }

    /** How many measured records it appends, if `records` says how many there are. */
    long measuredOf(int producer) {
        return share(records, producer);
    }

    private long share(long all, int producer) {
        return all / producers + (producer < all % producers ? 1 : 0);
    }
}
