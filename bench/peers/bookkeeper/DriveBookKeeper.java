import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.stream.LongStream;

import contract.Append;
import contract.Driver;
import contract.Read;
import contract.SystemClient;
import org.apache.bookkeeper.client.api.BKException;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;

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
    /** How long the bookies may take to remove what was deleted: they read logs of gigabytes before. */
    private static final int REMOVAL_PATIENCE_S = 240;
    /** How long one ledger is asked for until it is gone, before another is. */
    private static final int ASKING_S = 10;
    private static final int ASKING_EVERY_MS = 100;
    /** Ledgers opened, closed or deleted at once. */
    private static final int LEDGERS_AT_ONCE = 64;

    private final String address;
    private final Notes notes;
    /** The compact protocol: what heavy users take. It has no long polls. */
    private final BookKeeper plain;
    /** Its writers confirm entries at once and its readers wait for them; connected when first needed. */
    private BookKeeper following;
    /** Its writers go on with the bookies that are left, as long as an ack quorum is; connected when first needed. */
    private BookKeeper enduring;

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

    /**
     * By default a writer that loses a bookie needs another in its place, and fails where there is none: with as many bookies as
     * replicas it would live through no death.
     */
    private synchronized BookKeeper enduring() throws Exception {
        if (enduring == null) {
            ClientConfiguration configuration = configuration().setUseV2WireProtocol(true).setDelayEnsembleChange(true);
            enduring = BookKeeper.newBuilder(configuration).build();
        }
        return enduring;
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
        settings.put("delayEnsembleChange", "false; with retry true");
        settings.put("delete", "waits until the bookies have removed the ledgers");
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
        long[] all = notes.appends(log).stream().flatMapToLong(append -> LongStream.of(append.ledgers())).toArray();
        ReadHandle last = oneWithEntries(all);
        if (last == null) {
            deleteLedgers(all);
        } else {
            deleteLedgers(LongStream.of(all).filter(ledger -> ledger != last.getId()).toArray());
            deleteLedgers(new long[] {last.getId()});
            awaitRemoval(last, notes.log(log).nodes());
        }
        notes.delete(log);
    }

    /** The first of them that has entries; null if none has. */
    private ReadHandle oneWithEntries(long[] ledgers) throws Exception {
        for (long ledger : ledgers) {
            ReadHandle opened = open(plain, ledger, false).get();
            if (opened.getLastAddConfirmed() >= 0) {
                return opened;
            }
            opened.close();
        }
        return null;
    }

    /**
     * Returns when no bookie has a ledger any more, and closes it. They look for deleted ones once in a while and then remove all,
     * so what was deleted before this one goes with it, and not in the middle of the next measurement.
     *
     * <p>A read that meets the removal can bring a ledger back: the bookie, 4.18, keeps the handle that it had just opened, and answers
     * from what it has not written down yet. So after some seconds another ledger is asked for.
     */
    private void awaitRemoval(ReadHandle deleted, int nodes) throws Exception {
        long endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(REMOVAL_PATIENCE_S);
        ReadHandle asked = deleted;
        while (!goesSoon(asked)) {
            if (System.nanoTime() - endNs > 0) {
                throw new IllegalStateException("the bookies have not removed ledger " + asked.getId() + " within "
                        + REMOVAL_PATIENCE_S + " s; gcWaitTime says how often they look");
            }
            asked.close();
            asked = deletedLedger(nodes);
        }
        asked.close();
    }

    private static boolean goesSoon(ReadHandle deleted) throws Exception {
        long endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(ASKING_S);
        while (hasFirstEntry(deleted)) {
            if (System.nanoTime() - endNs > 0) {
                return false;
            }
            Thread.sleep(ASKING_EVERY_MS);
        }
        return true;
    }

    /** A ledger of one entry that has just been deleted. */
    private ReadHandle deletedLedger(int nodes) throws Exception {
        long id;
        try (WriteHandle made = newLedger(plain, nodes).get()) {
            made.append(new byte[1]);
            id = made.getId();
        }
        ReadHandle opened = open(plain, id, false).get();
        deleteLedgers(new long[] {id});
        return opened;
    }

    private static boolean hasFirstEntry(ReadHandle ledger) throws Exception {
        try (LedgerEntries first = ledger.readUnconfirmed(0, 0)) {
            return true;
        } catch (BKException failure) {
            return switch (failure.getCode()) {
                case BKException.Code.NoSuchLedgerExistsException, BKException.Code.NoSuchEntryException -> false;
                // Its file is going at this very moment.
                case BKException.Code.ReadException -> true;
                default -> throw failure;
            };
        }
    }

    private void deleteLedgers(long[] ledgers) throws Exception {
        inParallel(ledgers.length, i -> plain.newDeleteLedgerOp().withLedgerId(ledgers[i]).execute());
    }

    @Override
    public Appending append(Append append) throws Exception {
        Notes.Log log = notes.log(append.log());
        log.requireShards(append.shards());
        BookKeeper client = append.follow() ? following() : append.retry() ? enduring() : plain;
        WriteHandle[] ledgers = new WriteHandle[append.shards()];
        try {
            inParallel(ledgers.length,
                    shard -> newLedger(client, log.nodes()).thenAccept(made -> ledgers[shard] = made));
            String writer = notes.addAppend(append.log(), ids(ledgers));
            return new LedgerAppending(append.log(), writer, ledgers);
        } catch (Exception failure) {
            deleteLedgers(ids(ledgers));
            throw failure;
        }
    }

    private static CompletableFuture<WriteHandle> newLedger(BookKeeper client, int nodes) {
        return client.newCreateLedgerOp().withEnsembleSize(nodes).withWriteQuorumSize(nodes)
                .withAckQuorumSize(nodes / 2 + 1).withPassword(PASSWORD).withDigestType(DIGEST).execute();
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
        inParallel(found.length, i -> Shard.open(plain, appends, own.get(i)).thenAccept(shard -> found[i] = shard));
        return new LedgerReader(plain, notes, log, List.of(found), read);
    }

    /** With `recovery` its writer is locked out and the ledger is sealed after all that was acknowledged. */
    static CompletableFuture<ReadHandle> open(BookKeeper client, long ledger, boolean recovery) {
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
        if (enduring != null) {
            enduring.close();
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
}
