package contract;

import java.util.List;
import java.util.Map;

/**
 * What a driver must be able to do with its system; the rest of the contract (threads, warm-up, schedules, latencies,
 * events) is done here. Any method may throw: the message becomes the event `failed`.
 */
public interface SystemClient extends AutoCloseable {
    /** Name and version of the client, and its settings where they matter. */
    record Description(String client, String version, Map<String, String> settings) {
    }

    Description describe() throws Exception;

    /** Makes a log; returns when it can be appended to. */
    void create(String log, int shards, int nodes, Map<String, String> settings) throws Exception;

    /** Removes a log and its data. */
    void delete(String log) throws Exception;

    /** The node that leads a log's first shard, from 1 on; null where no node leads. */
    default Integer leader(String log) throws Exception {
        return null;
    }

    /** Makes ready what the producers of one command share. */
    Appending append(Append append) throws Exception;

    /**
     * Opens a reader of some shards: from their first records, or with `atTail` of what is appended after this returns.
     * Called on the thread that will read, and closed on it.
     */
    Reader read(String log, int shards, List<Integer> own, Read read, boolean atTail) throws Exception;

    /** One `append` command. Closed after its producers. */
    interface Appending extends AutoCloseable {
        /** Connects a producer. Called for each from 0 on, before the warm-up. */
        Producer producer(int producer) throws Exception;

        @Override
        default void close() throws Exception {
        }
    }

    /** One producer's way into the system. Its methods are called by one thread at a time. */
    interface Producer extends AutoCloseable {
        /**
         * Hands a record over without waiting for its acknowledgement. What is thrown has failed; otherwise
         * `acknowledgement` is told exactly once, on any thread.
         */
        void send(int shard, byte[] payload, Acknowledgement acknowledgement) throws Exception;

        /** Appends a record and returns when it is acknowledged: the way of a client that appends one by one. */
        void sendAndWait(int shard, byte[] payload) throws Exception;

        /** Begins a transaction, to which the records belong that are sent next. */
        default void begin() throws Exception {
            throw new UnsupportedOperationException("this driver makes no transactions");
        }

        /** Commits it, with all that was sent since; returns when that is acknowledged. */
        default void commit() throws Exception {
            throw new UnsupportedOperationException("this driver makes no transactions");
        }

        /** Sends what the client holds back. Called when no more records follow for now. */
        default void flush() throws Exception {
        }

        /** Whether `send` has copied the payload when it returns, so that one array serves all records. */
        default boolean copiesPayload() {
            return false;
        }

        /** How often the client has sent a record again by itself so far; each time counts as a failure, but with `retry`. */
        default long retries() {
            return 0;
        }

        @Override
        void close() throws Exception;
    }

    /** Is told that a record was acknowledged (null), or why not. */
    interface Acknowledgement {
        void done(Throwable failure);
    }

    /** One consumer's way into the system. */
    interface Reader extends AutoCloseable {
        /** Gives the next records to `sink`, each shard's in order. Returns after some, or after about 100 ms without any. */
        void poll(Sink sink) throws Exception;

        @Override
        void close() throws Exception;
    }

    /** Takes what a reader has. */
    interface Sink {
        /** The payload is only looked at before this returns. */
        void record(int shard, java.nio.ByteBuffer payload);

        /** How long one request for records took, where the client shows that. */
        void request(long ns);
    }

    @Override
    void close() throws Exception;
}
