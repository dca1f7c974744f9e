import contract.SystemClient;
import org.apache.bookkeeper.client.api.BKException;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;

/** Follows the ledger of one shard: waits for the next entry, then takes all that are confirmed. */
final class TailReader implements SystemClient.Reader {
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
    public void poll(SystemClient.Sink sink) throws Exception {
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

    private void give(LedgerEntry entry, SystemClient.Sink sink) {
        sink.record(shard, entry.getEntryNioBuffer());
        nextEntry = entry.getEntryId() + 1;
    }

    @Override
    public void close() throws Exception {
        handle.close();
    }
}
