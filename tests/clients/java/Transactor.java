// Clients that do random transactions with Kafka's own Java client, each number with a transactional id and a group of its own; as a client it is INCARNATION times 100 and NUMBER. They print what they do as the lines of
// tests/suites_support/transaction_history.py, and what went wrong as `N trouble WHAT`. At the end of its input the program ends its transactions and itself.
//
//   Transactor ADDRESS transact INCARNATION SEED NUMBER …

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;

import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

public class Transactor implements Runnable {
    static final List<TopicPartition> PARTITIONS = List.of(new TopicPartition("left", 0), new TopicPartition("left", 1), new TopicPartition("right", 0), new TopicPartition("right", 1));
    static final int SENDS_MAX = 4, READS_MAX = 5;
    // Shares of the transactions.
    static final double TRANSFORMS = 0.5, ABORTS = 0.2, SLOW = 0.2;
    // Of the commits, those whose answer the client does not wait for: it begins anew while they are under way.
    static final double GIVEN_UP = 0.05;
    static final int REST_MS = 80;
    static final int TRY_MS = 2_000, END_MS = 20_000;

    static volatile boolean isOver = false;

    final String address, group;
    final int id, number;
    final Random chance;
    final Consumer<byte[], String> consumer;
    final Map<TopicPartition, Long> next = new HashMap<>();
    Producer<byte[], String> producer;
    boolean isPlaced = false;
    int count = 0;

    Transactor(String address, int number, String incarnation, String seed) {
        this.address = address;
        id = number;
        this.number = Integer.parseInt(incarnation) * 100 + number;
        chance = new Random(Objects.hash(seed, this.number));
        group = "group-" + number;
        Map<String, Object> reading = settings();
        reading.put("group.id", group);
        reading.put("enable.auto.commit", false);
        reading.put("auto.offset.reset", "none");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", READS_MAX);
        reading.put("fetch.max.wait.ms", 50);
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new StringDeserializer());
    }

    public static void main(String[] arguments) throws Exception {
        // A client that fails ends the program.
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        List<Thread> threads = new ArrayList<>();
        for (int index = 4; index < arguments.length; index++)
            threads.add(new Thread(new Transactor(arguments[0], Integer.parseInt(arguments[index]), arguments[2], arguments[3])));
        for (Thread thread : threads) thread.start();
        while (System.in.read() >= 0) continue;
        isOver = true;
        for (Thread thread : threads) thread.join();
        System.exit(0);
    }

    Map<String, Object> settings() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", address);
        settings.put("reconnect.backoff.ms", 10);
        settings.put("reconnect.backoff.max.ms", 100);
        settings.put("retry.backoff.ms", 20);
        settings.put("retry.backoff.max.ms", 200);
        // Some clients give up a request while a node is stopped, and send it again elsewhere; others wait.
        settings.put("request.timeout.ms", number % 2 == 0 ? 1_500 : 10_000);
        return settings;
    }

    void tell(Object... words) {
        StringJoiner line = new StringJoiner(" ", number + " ", "\n");
        for (Object word : words) line.add(word.toString());
        byte[] bytes = line.toString().getBytes(StandardCharsets.UTF_8);
        synchronized (System.out) {
            System.out.write(bytes, 0, bytes.length);
            System.out.flush();
        }
    }

    void trouble(String what, Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        tell("trouble", what + ":", error.getClass().getSimpleName(), cause == error ? "" : cause.getClass().getSimpleName());
        System.err.println(number + " " + what + ": " + error);
    }

    public void run() {
        while (!isOver) {
            try {
                if (producer == null) beginAnew();
                if (!isPlaced) place();
                transact();
            } catch (KafkaException error) {
                trouble("transaction", error);
                drop();
            }
            rest();
        }
    }

    void rest() {
        try {
            Thread.sleep(chance.nextInt(REST_MS));
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    void drop() {
        if (producer != null) producer.close(Duration.ZERO);
        producer = null;
        isPlaced = false;
    }

    /** Decides about whatever this transactional id has left open. */
    void beginAnew() {
        isPlaced = false;
        Map<String, Object> writing = settings();
        writing.put("transactional.id", "transactor-" + id);
        writing.put("transaction.timeout.ms", 15_000);
        writing.put("delivery.timeout.ms", 12_000);
        writing.put("max.block.ms", TRY_MS);
        writing.put("linger.ms", 0);
        producer = new KafkaProducer<>(writing, new ByteArraySerializer(), new StringSerializer());
        again("init", () -> producer.initTransactions());
    }

    /** What timed out is asked for again, with the same producer, as its documentation says. */
    void again(String what, Runnable deed) {
        long limit = System.nanoTime() + END_MS * 1_000_000L;
        while (true) {
            try {
                deed.run();
                return;
            } catch (TimeoutException error) {
                trouble(what, error);
                if (System.nanoTime() > limit) throw error;
            }
        }
    }

    void place() {
        long call = System.nanoTime();
        var told = consumer.committed(new HashSet<>(PARTITIONS), Duration.ofSeconds(10));
        List<Object> fetched = new ArrayList<>(List.of("fetched", group, call, System.nanoTime())), seek = new ArrayList<>(List.of("seek", "committed"));
        for (var place : PARTITIONS) {
            long offset = told.get(place) == null ? -1 : told.get(place).offset();
            fetched.addAll(List.of(place, offset));
            next.put(place, Math.max(0, offset));
            seek.addAll(List.of(place, next.get(place)));
        }
        tell(fetched.toArray());
        tell(seek.toArray());
        consumer.assign(PARTITIONS);
        next.forEach(consumer::seek);
        isPlaced = true;
    }

    void transact() {
        String name = number + "-" + ++count;
        tell("begin", name, System.nanoTime());
        try {
            producer.beginTransaction();
            fill(name);
        } catch (ProducerFencedException | AuthorizationException | UnsupportedVersionException error) {
            throw error;
        } catch (KafkaException error) {
            trouble("filling", error);
            isPlaced = false;
            end(name, "abort");
            return;
        }
        String how = chance.nextDouble() < ABORTS ? "abort" : "commit";
        if (!end(name, how)) isPlaced = false;
    }

    void fill(String name) {
        Map<TopicPartition, long[]> ranges = chance.nextDouble() < TRANSFORMS ? poll(name) : Map.of();
        boolean isSlow = chance.nextDouble() < SLOW;
        int sends = 1 + chance.nextInt(SENDS_MAX);
        for (int index = 0; index < sends; index++) {
            var place = PARTITIONS.get(chance.nextInt(PARTITIONS.size()));
            String value = name + "." + index;
            tell("send", name, place, value);
            producer.send(new ProducerRecord<>(place.topic(), place.partition(), null, value), (told, error) -> {
                if (error == null) tell("told", name, value, told.hasOffset() ? told.offset() : -1);
                else if (!(error instanceof TransactionAbortedException)) trouble("delivery", error);
            });
            if (isSlow) rest();
        }
        if (ranges.isEmpty()) return;
        List<Object> words = new ArrayList<>(List.of("consumed", name, group));
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        ranges.forEach((place, range) -> {
            words.addAll(List.of(place, range[0], range[1]));
            offsets.put(place, new OffsetAndMetadata(range[1]));
        });
        tell(words.toArray());
        again("offsets", () -> producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata()));
    }

    /** Tells what came; gives how far each partition was read before and after, of those of which something came. */
    Map<TopicPartition, long[]> poll(String name) {
        List<Object> words = new ArrayList<>(List.of("polled", name, System.nanoTime()));
        Map<TopicPartition, long[]> ranges = new HashMap<>();
        var found = consumer.poll(Duration.ofMillis(50));
        if (found.isEmpty()) return ranges;
        words.add(System.nanoTime());
        for (var record : found) {
            var place = new TopicPartition(record.topic(), record.partition());
            words.addAll(List.of(place, record.offset(), record.value()));
            ranges.computeIfAbsent(place, each -> new long[] {next.get(each), 0})[1] = record.offset() + 1;
        }
        tell(words.toArray());
        ranges.forEach((place, range) -> next.put(place, range[1]));
        return ranges;
    }

    /** Whether it was committed. */
    boolean end(String name, String how) {
        tell("ending", name, how, System.nanoTime());
        if (how.equals("commit") && chance.nextDouble() < GIVEN_UP) return giveUp(name);
        try {
            again(how, how.equals("commit") ? () -> producer.commitTransaction() : () -> producer.abortTransaction());
            tell("ended", name, how.equals("commit") ? "committed" : "aborted", System.nanoTime());
            return how.equals("commit");
        } catch (ProducerFencedException | AuthorizationException | UnsupportedVersionException | TimeoutException error) {
            throw error;
        } catch (KafkaException error) {
            trouble(how, error);
            if (how.equals("commit")) return end(name, "abort");
            throw error;
        }
    }
    /** Asks for a commit and waits for no answer, or hardly. */
    boolean giveUp(String name) {
        Thread self = Thread.currentThread();
        int patience = List.of(0, 1, 10).get(chance.nextInt(3));
        Thread alarm = new Thread(() -> {
            try {
                Thread.sleep(patience);
                self.interrupt();
            } catch (InterruptedException error) {
                // It was quick enough.
            }
        });
        alarm.start();
        boolean isCommitted = false;
        try {
            producer.commitTransaction();
            tell("ended", name, "committed", System.nanoTime());
            isCommitted = true;
        } catch (KafkaException error) {
            // Whatever it is: nobody waits for it.
        }
        alarm.interrupt();
        while (alarm.isAlive()) {
            try {
                alarm.join();
            } catch (InterruptedException error) {
                // It was too late.
            }
        }
        Thread.interrupted();
        if (!isCommitted) drop();
        return isCommitted;
    }
}
