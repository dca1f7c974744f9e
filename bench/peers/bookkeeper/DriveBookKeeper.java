import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

import contract.Append;
import contract.Driver;
import contract.Read;
import contract.SystemClient;
import org.apache.bookkeeper.client.api.BKException;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * The driver with BookKeeper's own Java client. A record is an entry of a ledger. A ledger has one writer in its life,
 * so each append opens a new one for each shard: a shard is its ledgers one after the other, and a note in ZooKeeper
 * says which they are.
 */
public final class DriveBookKeeper implements SystemClient {
    private static final byte[] PASSWORD = new byte[0];
    private static final DigestType DIGEST = DigestType.CRC32C;
    /** A system that stalls shall show as slow before it shows as failed; the client's own value is 5 s. */
    private static final int ENTRY_TIMEOUT_S = 30;
    /** As the bookies' is set: records and answers of many megabytes fit. */
    private static final int FRAME_BYTES_MAX = 32 << 20;
    /** How often a writer that is followed tells the bookies which entries are confirmed if no later entry does. */
    private static final int CONFIRM_INTERVAL_MS = 1;
    /** Ledgers opened, closed or deleted at once. */
    private static final int LEDGERS_AT_ONCE = 64;

    private final String address;
    private final Notes notes;
    /** The compact protocol: what heavy users take. It has no long polls. */
    private final BookKeeper plain;
    /** Its writers confirm entries at once and its readers wait for them; connected when first needed. */
    private BookKeeper following;

    private DriveBookKeeper(String address) throws Exception {
        // Here and not in `main`: by now standard output is kept for events, so that logs cannot get there.
        Configurator.setRootLevel(Level.WARN);
        this.address = address;
        notes = new Notes(address);
        plain = BookKeeper.newBuilder(configuration().setUseV2WireProtocol(true)).build();
    }

    public static void main(String[] arguments) {
        try {
            Driver.run(arguments, DriveBookKeeper::new);
        } catch (Exception failure) {
            // A client that could not connect leaves threads behind that would keep the program alive for ever.
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private ClientConfiguration configuration() {
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setMetadataServiceUri("zk+hierarchical://" + address + "/ledgers");
        configuration.setNettyMaxFrameSizeBytes(FRAME_BYTES_MAX);
        // The client's own value holds each ledger to 5,000 entries a second.
        return configuration.setThrottleValue(0).setAddEntryTimeout(ENTRY_TIMEOUT_S)
                .setReadEntryTimeout(ENTRY_TIMEOUT_S);
    }

    private synchronized BookKeeper following() throws Exception {
        if (following == null) {
            following = BookKeeper.newBuilder(configuration().setExplictLacInterval(CONFIRM_INTERVAL_MS)).build();
        }
        return following;
    }

    @Override
    public Description describe() {
        Map<String, String> settings = new TreeMap<>();
        settings.put("ledgers", "one for each shard and append; ensemble = write quorum = nodes, ack quorum = their majority");
        settings.put("digest", DIGEST.name());
        settings.put("throttle", "0");
        settings.put("addEntryTimeoutSec, readEntryTimeoutSec", String.valueOf(ENTRY_TIMEOUT_S));
        settings.put("nettyMaxFrameSizeBytes", String.valueOf(FRAME_BYTES_MAX));
        settings.put("useV2WireProtocol", "true; with follow false, since long polls need the other");
        settings.put("explicitLacInterval", "0; with follow " + CONFIRM_INTERVAL_MS);
        settings.put("reads", "batchRead, " + LedgerReader.RANGES_AHEAD + " ranges of as many entries as have request_bytes asked for ahead; "
                + "with follow readLastAddConfirmedAndEntry");
        settings.put("connections", "one to each bookie, shared by the producers and consumers of a driver");
        return new Description("bookkeeper-server", BookKeeper.class.getPackage().getImplementationVersion(), settings);
    }

    @Override
    public void create(String log, int shards, int nodes, Map<String, String> settings) throws Exception {
        if (!settings.isEmpty()) {
            throw new IllegalArgumentException("a ledger has no settings, but there are " + settings);
        }
        notes.create(log, shards, nodes);
    }

    @Override
    public void delete(String log) throws Exception {
        for (Notes.Append append : notes.appends(log)) {
            deleteLedgers(append.ledgers());
        }
        notes.delete(log);
    }

    private void deleteLedgers(long[] ledgers) throws Exception {
        inParallel(ledgers.length, i -> plain.newDeleteLedgerOp().withLedgerId(ledgers[i]).execute());
    }

    @Override
    public Appending append(Append append) throws Exception {
        Notes.Log log = notes.log(append.log());
        log.requireShards(append.shards());
        BookKeeper client = append.follow() ? following() : plain;
        WriteHandle[] ledgers = new WriteHandle[append.shards()];
        try {
            inParallel(ledgers.length, shard -> client.newCreateLedgerOp().withEnsembleSize(log.nodes())
                    .withWriteQuorumSize(log.nodes()).withAckQuorumSize(log.nodes() / 2 + 1).withPassword(PASSWORD)
                    .withDigestType(DIGEST).execute().thenAccept(made -> ledgers[shard] = made));
            String writer = notes.addAppend(append.log(), ids(ledgers));
            return new LedgerAppending(append.log(), writer, ledgers);
        } catch (Exception failure) {
            deleteLedgers(ids(ledgers));
            throw failure;
        }
    }

    /** The identities of those that were opened. */
    private static long[] ids(WriteHandle[] ledgers) {
        return Arrays.stream(ledgers).filter(ledger -> ledger != null).mapToLong(WriteHandle::getId).toArray();
    }

    @Override
    public Reader read(String log, int shards, List<Integer> own, Read read, boolean atTail) throws Exception {
        notes.log(log).requireShards(shards);
        List<Notes.Append> appends = notes.appends(log);
        if (atTail) {
            Notes.Append last = appends.get(appends.size() - 1);
            int shard = own.get(0);
            return new TailReader(shard, open(following(), last.ledgers()[shard], false).get());
        }
        Shard[] found = new Shard[own.size()];
        inParallel(found.length, i -> open(plain, appends, own.get(i)).thenAccept(shard -> found[i] = shard));
        return new LedgerReader(log, List.of(found), read);
    }

    /** Opens the ledgers of a shard, without disturbing who may still write to them. */
    private CompletableFuture<Shard> open(BookKeeper client, List<Notes.Append> appends, int shard) {
        Shard opened = new Shard(shard);
        CompletableFuture<Void> all = CompletableFuture.completedFuture(null);
        for (Notes.Append append : appends) {
            all = all.thenCompose(done -> open(client, append.ledgers()[shard], false))
                    .thenAccept(handle -> opened.ledgers.add(new Ledger(append.writer(), handle)));
        }
        return all.thenApply(done -> opened);
    }

    /** With `recovery` its writer is locked out and the ledger is sealed after all that was acknowledged. */
    private static CompletableFuture<ReadHandle> open(BookKeeper client, long ledger, boolean recovery) {
        return client.newOpenLedgerOp().withLedgerId(ledger).withRecovery(recovery).withPassword(PASSWORD)
                .withDigestType(DIGEST).execute();
    }

    /** Makes `calls` calls, some at once, waits until all have ended, and throws what the first that failed threw. */
    private static void inParallel(int calls, IntFunction<CompletableFuture<Void>> call) throws Exception {
        Semaphore room = new Semaphore(LEDGERS_AT_ONCE);
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < calls; i++) {
            room.acquire();
            all.add(call.apply(i).whenComplete((done, failure) -> room.release()));
        }
        CompletableFuture.allOf(all.toArray(CompletableFuture[]::new)).get();
    }

    @Override
    public void close() throws Exception {
        plain.close();
        if (following != null) {
            following.close();
        }
        notes.close();
    }

    /** The ledgers of one append, shared by its producers: a ledger has one writer, but that may have many threads. */
    private final class LedgerAppending implements Appending {
        private final String log;
        private final String writer;
        private final WriteHandle[] ledgers;

        LedgerAppending(String log, String writer, WriteHandle[] ledgers) {
            this.log = log;
            this.writer = writer;
            this.ledgers = ledgers;
        }

        @Override
        public Producer producer(int producer) {
            return new LedgerProducer(ledgers);
        }

        /**
         * Seals the ledgers. What was acknowledged does not depend on that, so a failure fails nothing: a reader seals
         * what it finds open once its writer is gone.
         */
        @Override
        public void close() {
            try {
                seal();
            } catch (Exception failure) {
                System.err.println("the ledgers of log " + log + " are left to their readers to seal: " + failure);
            }
        }

        private void seal() throws Exception {
            try {
                inParallel(ledgers.length, shard -> ledgers[shard].closeAsync());
            } finally {
                notes.endAppend(log, writer);
            }
        }
    }

    /** Hands entries to the ledgers of an append. */
    private static final class LedgerProducer implements Producer {
        private final WriteHandle[] ledgers;

        LedgerProducer(WriteHandle[] ledgers) {
            this.ledgers = ledgers;
        }

        @Override
        public void send(int shard, byte[] payload, Acknowledgement acknowledgement) {
            ledgers[shard].appendAsync(payload).whenComplete((entry, failure) -> acknowledgement.done(failure));
        }

        @Override
        public void sendAndWait(int shard, byte[] payload) throws Exception {
            ledgers[shard].append(payload);
        }

        @Override
        public void close() {
            // The ledgers belong to all producers.
        }
    }

    /** A ledger of a shard: open for reading, with the name of who wrote or writes it. */
    private record Ledger(String writer, ReadHandle handle) {
    }

    /** How far a reader has come in a shard. */
    private static final class Shard {
        private final int number;
        /** What is not read to its end, in order. */
        private final Deque<Ledger> ledgers = new ArrayDeque<>();
        private long nextEntry;

        Shard(int number) {
            this.number = number;
        }
    }

    /** Entries that were asked for and did not come yet. */
    private static final class Range {
        private final int shard;
        private final ReadHandle handle;
        private final long first;
        private final int count;
        private final CompletableFuture<LedgerEntries> answer;
        private final long askedNs = System.nanoTime();
        private volatile long answeredNs;

        Range(int shard, ReadHandle handle, long first, int count) {
            this.shard = shard;
            this.handle = handle;
            this.first = first;
            this.count = count;
            answer = handle.batchReadAsync(first, count, LedgerReader.RANGE_BYTES_MAX)
                    .whenComplete((entries, failure) -> answeredNs = System.nanoTime());
        }
    }

    /** Reads shards from their first entries, one shard after the other, and waits where an append still goes on. */
    private final class LedgerReader implements Reader {
        static final int RANGES_AHEAD = 4;
        /** More no bookie answers (its maxBatchReadSize); what did not fit is asked for again. */
        static final int RANGE_BYTES_MAX = 5 << 20;
        private static final int PAUSE_MS = 5;

        private final String log;
        private final int entriesMax;
        private final Deque<Shard> shards;
        private final Deque<Range> asked = new ArrayDeque<>();

        LedgerReader(String log, List<Shard> shards, Read read) {
            this.log = log;
            this.shards = new ArrayDeque<>(shards);
            entriesMax = read.requestRecords();
        }

        @Override
        public void poll(Sink sink) throws Exception {
            askAhead();
            Range range = asked.poll();
            if (range == null) {
                Thread.sleep(PAUSE_MS);
                return;
            }
            LedgerEntries entries = range.answer.get();
            sink.request(range.answeredNs - range.askedNs);
            int had = give(range, entries, sink);
            if (had < range.count) {
                asked.addFirst(new Range(range.shard, range.handle, range.first + had, range.count - had));
            }
        }

        private int give(Range range, LedgerEntries entries, Sink sink) {
            int had = 0;
            try (entries) {
                for (LedgerEntry entry : entries) {
                    if (entry.getEntryId() != range.first + had) {
                        throw new IllegalStateException("ledger " + entry.getLedgerId() + " gave entry "
                                + entry.getEntryId() + " in place of " + (range.first + had));
                    }
                    sink.record(range.shard, entry.getEntryNioBuffer());
                    had++;
                }
            }
            if (had == 0) {
                throw new IllegalStateException("ledger " + range.handle.getId() + " gave no entry from " + range.first);
            }
            return had;
        }

        /** Keeps some ranges asked for, as far as there are entries; looks at each shard once at most. */
        private void askAhead() throws Exception {
            int idle = 0;
            while (asked.size() < RANGES_AHEAD && idle < shards.size()) {
                Shard shard = shards.peek();
                Ledger ledger = shard.ledgers.peek();
                if (ledger == null) {
                    shards.remove();
                } else if (shard.nextEntry <= ledger.handle().getLastAddConfirmed()) {
                    ask(shard, ledger.handle());
                } else if (ledger.handle().isClosed()) {
                    shard.ledgers.remove();
                    shard.nextEntry = 0;
                } else if (!lookFurther(shard)) {
                    shards.add(shards.remove());
                    idle++;
                }
            }
        }

        private void ask(Shard shard, ReadHandle handle) {
            long left = handle.getLastAddConfirmed() - shard.nextEntry + 1;
            int count = (int) Math.min(entriesMax, left);
            asked.add(new Range(shard.number, handle, shard.nextEntry, count));
            shard.nextEntry += count;
        }

        /** Whether an unsealed ledger has got more; seals it if its writer is gone. */
        private boolean lookFurther(Shard shard) throws Exception {
            Ledger ledger = shard.ledgers.peek();
            if (notes.writes(log, ledger.writer())) {
                return ledger.handle().readLastAddConfirmed() >= shard.nextEntry;
            }
            ReadHandle sealed = open(plain, ledger.handle().getId(), true).get();
            shard.ledgers.remove();
            shard.ledgers.addFirst(new Ledger(ledger.writer(), sealed));
            return true;
        }

        @Override
        public void close() throws Exception {
            for (Range range : asked) {
                range.answer.whenComplete((entries, failure) -> {
                    if (entries != null) {
                        entries.close();
                    }
                });
            }
        }
    }

    /** Follows the ledger of one shard: waits for the next entry, then takes all that are confirmed. */
    private static final class TailReader implements Reader {
        private static final long POLL_MS = 100;

        private final int shard;
        private final ReadHandle handle;
        private long nextEntry;

        TailReader(int shard, ReadHandle handle) {
            this.shard = shard;
            this.handle = handle;
            nextEntry = handle.getLastAddConfirmed() + 1;
        }

        @Override
        public void poll(Sink sink) throws Exception {
            try (LastConfirmedAndEntry next = handle.readLastAddConfirmedAndEntry(nextEntry, POLL_MS, false)) {
                if (next.hasEntry()) {
                    give(next.getEntry(), sink);
                }
            } catch (BKException failure) {
                if (failure.getCode() != BKException.Code.NoSuchLedgerExistsException || nextEntry > 0) {
                    throw failure;
                }
                // A bookie knows a ledger from its first entry on.
                Thread.sleep(1);
            }
            long last = handle.getLastAddConfirmed();
            if (last >= nextEntry) {
                try (LedgerEntries entries = handle.read(nextEntry, last)) {
                    for (LedgerEntry entry : entries) {
                        give(entry, sink);
                    }
                }
            }
        }

        private void give(LedgerEntry entry, Sink sink) {
            sink.record(shard, entry.getEntryNioBuffer());
            nextEntry = entry.getEntryId() + 1;
        }

        @Override
        public void close() throws Exception {
            handle.close();
        }
    }

    /**
     * What ZooKeeper keeps of logs, so that a later process finds their ledgers:
     *
     * <pre>
     * /ropewalk/LOG                    shards and nodes
     * /ropewalk/LOG/append-0000000000  the writer's name and a ledger for each shard; one for each append, in order
     * /ropewalk/LOG/writer-NAME        there while that append goes on; ends with the process
     * </pre>
     */
    private static final class Notes {
        private static final String ROOT = "/ropewalk";
        private static final String APPEND = "append-";
        private static final int SESSION_MS = 10_000;

        record Log(String name, int shards, int nodes) {
            void requireShards(int asked) {
                if (asked != shards) {
                    throw new IllegalArgumentException("log " + name + " has " + shards + " shards, not " + asked);
                }
            }
        }

        record Append(String writer, long[] ledgers) {
        }

        private final String address;
        private ZooKeeper session;

        Notes(String address) {
            this.address = address;
        }

        /** A session ends for good when ZooKeeper was away for too long; the next use begins another. */
        private synchronized ZooKeeper session() throws Exception {
            if (session == null || !session.getState().isAlive()) {
                CompletableFuture<Void> connected = new CompletableFuture<>();
                session = new ZooKeeper(address, SESSION_MS, event -> connected.complete(null));
                try {
                    connected.get(SESSION_MS, TimeUnit.MILLISECONDS);
                } catch (TimeoutException failure) {
                    throw new IllegalStateException("ZooKeeper at " + address + " did not answer within "
                            + SESSION_MS / 1000 + " s; is it running?", failure);
                }
            }
            return session;
        }

        private static String path(String log) {
            return ROOT + "/" + log.replace("%", "%25").replace("/", "%2F");
        }

        void create(String log, int shards, int nodes) throws Exception {
            try {
                make(ROOT, "", CreateMode.PERSISTENT);
            } catch (KeeperException.NodeExistsException present) {
                // As it should be, but for the first log.
            }
            try {
                make(path(log), shards + " " + nodes, CreateMode.PERSISTENT);
            } catch (KeeperException.NodeExistsException present) {
                throw new IllegalArgumentException("log " + log + " exists; delete it or take another name", present);
            }
        }

        private void make(String path, String text, CreateMode mode) throws Exception {
            session().create(path, text.getBytes(StandardCharsets.UTF_8), ZooDefs.Ids.OPEN_ACL_UNSAFE, mode);
        }

        private String text(String path) throws Exception {
            return new String(session().getData(path, false, null), StandardCharsets.UTF_8);
        }

        Log log(String log) throws Exception {
            try {
                String[] words = text(path(log)).split(" ");
                return new Log(log, Integer.parseInt(words[0]), Integer.parseInt(words[1]));
            } catch (KeeperException.NoNodeException missing) {
                throw new IllegalArgumentException("log " + log + " does not exist; create it first", missing);
            }
        }

        /** Notes the ledgers of a new append and returns its writer's name. */
        String addAppend(String log, long[] ledgers) throws Exception {
            String writer = UUID.randomUUID().toString();
            // First the writer: who sees the ledgers must see that someone writes to them.
            make(writerPath(log, writer), "", CreateMode.EPHEMERAL);
            String ids = LongStream.of(ledgers).mapToObj(Long::toString).collect(Collectors.joining(" "));
            make(path(log) + "/" + APPEND, writer + " " + ids, CreateMode.PERSISTENT_SEQUENTIAL);
            return writer;
        }

        void endAppend(String log, String writer) throws Exception {
            try {
                session().delete(writerPath(log, writer), -1);
            } catch (KeeperException.NoNodeException gone) {
                // It went with a session that ended.
            }
        }

        boolean writes(String log, String writer) throws Exception {
            return session().exists(writerPath(log, writer), false) != null;
        }

        private static String writerPath(String log, String writer) {
            return path(log) + "/writer-" + writer;
        }

        List<Append> appends(String log) throws Exception {
            log(log);
            List<Append> appends = new ArrayList<>();
            for (String name : session().getChildren(path(log), false).stream().sorted().toList()) {
                if (name.startsWith(APPEND)) {
                    String[] words = text(path(log) + "/" + name).split(" ");
                    long[] ledgers = Arrays.stream(words, 1, words.length).mapToLong(Long::parseLong).toArray();
                    appends.add(new Append(words[0], ledgers));
                }
            }
            return appends;
        }

        void delete(String log) throws Exception {
            for (String name : session().getChildren(path(log), false)) {
                session().delete(path(log) + "/" + name, -1);
            }
            session().delete(path(log), -1);
        }

        synchronized void close() throws Exception {
            if (session != null) {
                session.close();
            }
        }
    }
}
