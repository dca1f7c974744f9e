import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;

import contract.Read;
import contract.SystemClient;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;

/** Reads shards from their first entries, one shard after the other, and waits where an append still goes on. */
final class LedgerReader implements SystemClient.Reader {
    static final int RANGES_AHEAD = 4;
    /** More no bookie answers (its maxBatchReadSize); what did not fit is asked for again. */
    static final int RANGE_BYTES_MAX = 5 << 20;
    private static final int PAUSE_MS = 5;

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
            answer = handle.batchReadAsync(first, count, RANGE_BYTES_MAX)
                    .whenComplete((entries, failure) -> answeredNs = System.nanoTime());
        }
    }

    private final BookKeeper client;
    private final Notes notes;
    private final String log;
    private final int entriesMax;
    private final Deque<Shard> shards;
    private final Deque<Range> asked = new ArrayDeque<>();

    LedgerReader(BookKeeper client, Notes notes, String log, List<Shard> shards, Read read) {
        this.client = client;
        this.notes = notes;
        this.log = log;
        this.shards = new ArrayDeque<>(shards);
        entriesMax = read.requestRecords();
    }

    @Override
    public void poll(SystemClient.Sink sink) throws Exception {
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

    private int give(Range range, LedgerEntries entries, SystemClient.Sink sink) {
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
            Shard.Ledger ledger = shard.ledgers.peek();
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
        Shard.Ledger ledger = shard.ledgers.peek();
        if (notes.writes(log, ledger.writer())) {
            return ledger.handle().readLastAddConfirmed() >= shard.nextEntry;
        }
        ReadHandle sealed = DriveBookKeeper.open(client, ledger.handle().getId(), true).get();
        shard.ledgers.remove();
        shard.ledgers.addFirst(new Shard.Ledger(ledger.writer(), sealed));
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
