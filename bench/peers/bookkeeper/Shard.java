import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;

import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.ReadHandle;

/** How far a reader has come in a shard. */
final class Shard {
    /** A ledger of a shard: open for reading, with the name of who wrote or writes it. */
    record Ledger(String writer, ReadHandle handle) {
    }

    final int number;
    /** What is not read to its end, in order. */
    final Deque<Ledger> ledgers = new ArrayDeque<>();
    long nextEntry;

    private Shard(int number) {
        this.number = number;
    }

    /** Opens the ledgers of a shard, without disturbing who may still write to them. */
    static CompletableFuture<Shard> open(BookKeeper client, List<Notes.Append> appends, int number) {
        Shard opened = new Shard(number);
        CompletableFuture<Void> all = CompletableFuture.completedFuture(null);
        for (Notes.Append append : appends) {
            all = all.thenCompose(done -> DriveBookKeeper.open(client, append.ledgers()[number], false))
                    .thenAccept(handle -> opened.ledgers.add(new Ledger(append.writer(), handle)));
        }
        return all.thenApply(done -> opened);
    }
}
