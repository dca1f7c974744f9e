import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * What ZooKeeper keeps of logs, so that a later process finds their ledgers:
 *
 * <pre>
 * /ropewalk/LOG                    shards and nodes
 * /ropewalk/LOG/append-0000000000  the writer's name and a ledger for each shard; one for each append, in order
 * /ropewalk/LOG/writer-NAME        there while that append goes on; ends with the process
 * </pre>
 */
final class Notes {
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
