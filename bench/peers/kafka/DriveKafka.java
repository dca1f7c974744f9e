import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;

import contract.Append;
import contract.Driver;
import contract.Read;
import contract.SystemClient;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * The driver with Kafka's own Java client: a log is a topic, a shard a partition. Also drives other servers of Kafka's
 * protocol, so it asks for no more than topics, producing and fetching: no consumer groups, and transactions where a command has them.
 */
public final class DriveKafka implements SystemClient {
    /** A controller changes at most 10,000 things at once: larger topics grow in steps. */
    private static final int PARTITIONS_AT_ONCE = 2_000;
    private static final Duration PATIENCE = Duration.ofSeconds(110);
    /** So long a reader waits for records before it says that there are none. */
    private static final Duration POLL = Duration.ofMillis(100);
    /** Kafka's own default, where batches are to fill. */
    private static final int LINGER_MS = 5;
    /** More the client does not allow while it keeps retries in order. */
    private static final int IN_FLIGHT_MAX = 5;
    /** These three are Kafka's own defaults. */
    private static final int BATCH_BYTES = 16 << 10;
    private static final int REQUEST_BYTES_MIN = 1 << 20;
    private static final long BUFFER_BYTES_MIN = 32 << 20;

    private final String address;
    /** Producers' settings that take the place of this driver's own. */
    private final Map<String, String> replaced;
    private final Admin admin;

    private DriveKafka(String address, Map<String, String> replaced) {
        this.address = address;
        this.replaced = replaced;
        admin = Admin.create(Map.of("bootstrap.servers", address));
    }

    /** `[NAME=VALUE ...] ADDRESS`. */
    public static void main(String[] arguments) throws Exception {
        int last = Math.max(0, arguments.length - 1);
        Map<String, String> replaced = new TreeMap<>();
        for (String setting : Arrays.copyOf(arguments, last)) {
            String[] parts = setting.split("=", 2);
            if (parts.length != 2) {
                System.err.println(setting + " is no setting: NAME=VALUE");
                System.exit(2);
            }
            replaced.put(parts[0], parts[1]);
        }
        Driver.run(Arrays.copyOfRange(arguments, last, arguments.length), address -> new DriveKafka(address, replaced));
    }

    @Override
    public Description describe() {
        Map<String, String> settings = new TreeMap<>();
        settings.put("replication factor", "as many as there are nodes");
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true (default)");
        settings.put("max.in.flight.requests.per.connection", "in_flight, at most " + IN_FLIGHT_MAX);
        settings.put("batch.size", "the size of batch_records records; at a rate at least " + BATCH_BYTES
                + " (default), for what falls due while requests are under way");
        settings.put("linger.ms", "0; " + LINGER_MS + " (default) in the closed loop with batch_records above 1");
        settings.put("max.request.size", "twice batch.size, at least " + REQUEST_BYTES_MIN + " (default)");
        settings.put("buffer.memory", "twice batch.size * (in_flight + 1), at least " + BUFFER_BYTES_MIN + " (default)");
        settings.put("request.timeout.ms", "20000; with retry default");
        settings.put("delivery.timeout.ms", "30000; with retry default");
        settings.put("retries", "default; without retry each one counts as an error, and so does each batch that is split");
        settings.put("fetch.max.bytes, max.partition.fetch.bytes", "request_bytes");
        settings.put("transactional.id, with transactional", "one for each producer; transaction.timeout.ms and the rest as by default");
        settings.put("isolation.level", "read_committed where a transactional log is followed; else read_uncommitted (default)");
        settings.put("java", System.getProperty("java.version"));
        settings.putAll(replaced);
        return new Description("kafka-clients", AppInfoParser.getVersion(), settings);
    }

    @Override
    public void create(String log, int shards, int nodes, Map<String, String> settings) throws Exception {
        int made = Math.min(shards, PARTITIONS_AT_ONCE);
        NewTopic topic = new NewTopic(log, made, (short) nodes).configs(settings);
        admin.createTopics(List.of(topic)).all().get();
        while (made < shards) {
            made = Math.min(shards, made + PARTITIONS_AT_ONCE);
            admin.createPartitions(Map.of(log, NewPartitions.increaseTo(made))).all().get();
        }
        await("the leaders of topic " + log + " were not known", () -> leaders(log) == shards);
        // A leader is named before it knows of it. Records that it refuses until then are sent again, out of their order.
        await("the leaders of topic " + log + " did not answer", () -> answers(log, shards));
    }

    @Override
    public void delete(String log) throws Exception {
        admin.deleteTopics(List.of(log)).all().get();
        await("topic " + log + " was still there", () -> leaders(log) < 0);
    }

    /** How many partitions of a topic have a leader; -1 if there is no such topic. */
    private int leaders(String log) throws Exception {
        try {
            int leaders = 0;
            for (TopicPartitionInfo partition : admin.describeTopics(List.of(log)).allTopicNames().get().get(log).partitions()) {
                leaders += partition.leader() == null || partition.leader().isEmpty() ? 0 : 1;
            }
            return leaders;
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof UnknownTopicOrPartitionException) {
                return -1;
            }
            throw failure;
        }
    }

    @Override
    public Integer leader(String log) throws Exception {
        TopicPartitionInfo first = admin.describeTopics(List.of(log)).allTopicNames().get().get(log).partitions().get(0);
        int place = List.of(address.split(",")).indexOf(first.leader().host() + ":" + first.leader().port());
        if (place < 0) {
            throw new IllegalStateException(first.leader() + " leads topic " + log + " and is none of " + address);
        }
        return place + 1;
    }

    /** Whether every partition's leader says where it ends. */
    private boolean answers(String log, int shards) throws Exception {
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        for (int shard = 0; shard < shards; shard++) {
            ends.put(new TopicPartition(log, shard), OffsetSpec.latest());
        }
        try {
            admin.listOffsets(ends).all().get();
            return true;
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof RetriableException) {
                return false;
            }
            throw failure;
        }
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void await(String otherwise, Condition condition) throws Exception {
        long endNs = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.holds()) {
            if (System.nanoTime() - endNs > 0) {
                throw new IllegalStateException(otherwise + " after " + PATIENCE.toSeconds() + " s");
            }
            Thread.sleep(20);
        }
    }

    @Override
    public Appending append(Append append) {
        return producer -> {
            Properties settings = producerSettings(append);
            if (append.transactional()) {
                settings.put("transactional.id", append.log() + "-" + producer);
            }
            KafkaProducer<byte[], byte[]> client =
                    new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            // Asks for the leaders now: else the first record would wait for them.
            return ready(new TopicProducer(client, append.log()), () -> {
                client.partitionsFor(append.log());
                if (append.transactional()) {
                    client.initTransactions();
                }
            });
        };
    }

    /** Closes what was made if it cannot be made ready. */
    private static <T extends AutoCloseable> T ready(T made, Runnable prepare) throws Exception {
        try {
            prepare.run();
            return made;
        } catch (RuntimeException failure) {
            made.close();
            throw failure;
        }
    }

    private Properties producerSettings(Append append) {
        int batchBytes = append.rate() == null ? batchBytes(append) : Math.max(BATCH_BYTES, batchBytes(append));
        long outstandingBytes = (long) batchBytes * (append.inFlight() + 1L);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("acks", "all");
        settings.put("max.in.flight.requests.per.connection", Math.min(append.inFlight(), IN_FLIGHT_MAX));
        settings.put("batch.size", batchBytes);
        settings.put("linger.ms", append.mayLinger() ? LINGER_MS : 0);
        settings.put("max.request.size", Math.max(REQUEST_BYTES_MIN, batchBytes * 2));
        settings.put("buffer.memory", Math.max(BUFFER_BYTES_MIN, outstandingBytes * 2));
        if (!append.retry()) {
            settings.put("request.timeout.ms", 20_000);
            settings.put("delivery.timeout.ms", 30_000);
        }
        settings.putAll(replaced);
        return settings;
    }

    /**
     * What `batch_records` records take in a batch, exactly: then a batch is full, and is sent, with its last record. If
     * a batch is one record, what the client sets aside for it, in which no second one fits. At a rate this bounds no batch:
     * who falls behind there must be able to put what is due into few requests.
     */
    static int batchBytes(Append append) {
        int header = 61;
        if (append.batchRecords() == 1) {
            return header + 21 + 2 + variableBytes(append.recordBytes()) + append.recordBytes();
        }
        long bytes = header;
        for (int i = 0; i < append.batchRecords(); i++) {
            // Attributes, time since the first, place in the batch, no key, the value, no headers.
            int record = 1 + 1 + variableBytes(i) + 1 + variableBytes(append.recordBytes()) + append.recordBytes() + 1;
            bytes += variableBytes(record) + record;
        }
        if (bytes > 32 << 20) {
            throw new IllegalArgumentException("batches of " + bytes + " bytes: at most 32 MiB; lower batch_records");
        }
        return (int) bytes;
    }

    /** How long a number above zero is as a signed one of variable length, 7 bits a byte. */
    private static int variableBytes(int number) {
        return (64 - Long.numberOfLeadingZeros(2L * number | 1) + 6) / 7;
    }

    private record TopicProducer(KafkaProducer<byte[], byte[]> client, String topic) implements Producer {
        @Override
        public void send(int shard, byte[] payload, Acknowledgement acknowledgement) {
            client.send(new ProducerRecord<>(topic, shard, null, payload), (where, failure) -> acknowledgement.done(failure));
        }

        @Override
        public void sendAndWait(int shard, byte[] payload) throws Exception {
            client.send(new ProducerRecord<>(topic, shard, null, payload)).get();
        }

        @Override
        public void begin() {
            client.beginTransaction();
        }

        @Override
        public void commit() {
            client.commitTransaction();
        }

        @Override
        public void flush() {
            client.flush();
        }

        /** The client serializes a record into its batch before `send` returns. */
        @Override
        public boolean copiesPayload() {
            return true;
        }

        /** A batch that the server found too large counts too: the client splits it and sends the parts. */
        @Override
        public long retries() {
            return counted("record-retry-total") + counted("batch-split-total");
        }

        private long counted(String name) {
            for (Metric metric : client.metrics().values()) {
                if (metric.metricName().name().equals(name) && metric.metricName().group().equals("producer-metrics")) {
                    return ((Number) metric.metricValue()).longValue();
                }
            }
            throw new IllegalStateException("the client does not count " + name);
        }

        @Override
        public void close() {
            client.close(PATIENCE);
        }
    }

    @Override
    public Reader read(String log, int shards, List<Integer> own, Read read, boolean atTail)
            throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", address);
        settings.put("enable.auto.commit", false);
        settings.put("max.partition.fetch.bytes", read.requestBytes());
        settings.put("fetch.max.bytes", read.requestBytes());
        settings.put("isolation.level", read.committed() ? "read_committed" : "read_uncommitted");
        KafkaConsumer<byte[], byte[]> client =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> partitions = own.stream().map(shard -> new TopicPartition(log, shard)).toList();
        return ready(new TopicReader(client), () -> {
            client.assign(partitions);
            if (atTail) {
                client.seekToEnd(partitions);
            } else {
                client.seekToBeginning(partitions);
            }
            // Seeking is put off until a position is asked for, and followers must stand at the tail before an append.
            partitions.forEach(partition -> client.position(partition, PATIENCE));
        });
    }

    private record TopicReader(KafkaConsumer<byte[], byte[]> client) implements Reader {
        @Override
        public void poll(Sink sink) {
            for (ConsumerRecord<byte[], byte[]> record : client.poll(POLL)) {
                sink.record(record.partition(), ByteBuffer.wrap(record.value()));
            }
        }

        @Override
        public void close() {
            // A fetch that waits at the tail would be waited for. What was to be read has been.
            client.close(CloseOptions.timeout(Duration.ZERO));
        }
    }

    @Override
    public void close() {
        admin.close(PATIENCE);
    }
}
