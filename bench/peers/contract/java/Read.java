package contract;

/**
 * The command `read`: how much of a log is read from its first record, by how many consumers. Its words are the
 * contract's.
 *
 * @param records how many all consumers have together when it is over
 * @param requestBytes payloads that one request for records may bring
 * @param verify whether payloads are summed and their order is checked
 * @param committed whether records of transactions are had only when those are committed, as by followers of a transactional append
 */
public record Read(String log, int shards, int consumers, int recordBytes, int requestBytes, long records,
        boolean verify, boolean committed) {
    static Read of(Fields fields) {
        return new Read(fields.text("log"), fields.whole("shards", 1, Integer.MAX_VALUE),
                fields.whole("consumers", 1, Integer.MAX_VALUE),
                fields.whole("record_bytes", Payloads.STAMP_BYTES, Payloads.RECORD_BYTES_MAX),
                fields.whole("request_bytes", 1, Integer.MAX_VALUE), fields.records("records"), fields.flag("verify"), false);
    }

    /** How many records one request asks for, where a client asks in records. */
    public int requestRecords() {
        return Math.max(1, requestBytes / recordBytes);
    }

    /** The shards of one consumer: every n-th, or one from the start where there are more consumers than shards. */
    int[] shardsOf(int consumer) {
        if (consumers > shards) {
            return new int[] {consumer % shards};
        }
        int[] own = new int[(shards - consumer + consumers - 1) / consumers];
        for (int i = 0; i < own.length; i++) {
            own[i] = consumer + i * consumers;
        }
        return own;
    }
}
