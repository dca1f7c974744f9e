// Kafka's own Java client: producing (idempotent by default), reading by assignment, offsets by time,
// and the administration of topics. The clients live on while nodes are killed and restarted in the middle: this program prints
// "DISTURB" and goes on when a line comes back. Every record is compared with what was sent.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

public class JavaClient {
    static final String TOPIC = "java";
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final int RECORDS = 400;
    static final int COMPACTED = 4000;
    static final int COMPACTED_KEYS = 60;
    static final long BEGAN_MS = 1_700_000_000_000L;

    final Admin admin;
    final Consumer<byte[], byte[]> consumer;
    final Map<String, Producer<byte[], byte[]>> producers = new LinkedHashMap<>();
    final Map<String, Long> latest = new HashMap<>();
    long compared = 0;

    JavaClient(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("reconnect.backoff.ms", 20);
        settings.put("reconnect.backoff.max.ms", 200);
        admin = Admin.create(settings);
        Map<String, Object> reading = new HashMap<>(settings);
        reading.put("enable.auto.commit", false);
        reading.put("auto.offset.reset", "none");
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        for (String codec : CODECS) {
            Map<String, Object> writing = new HashMap<>(settings);
            writing.put("compression.type", codec);
            writing.put("linger.ms", 2);
            producers.put(codec, new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer()));
        }
    }

    public static void main(String[] arguments) throws Exception {
        JavaClient client = new JavaClient(arguments[0]);
        // The records' own times lie years back: retention by age would give them up.
        client.create(TOPIC, CODECS.size(), Map.of("segment.bytes", "1048576", "retention.ms", "-1"));
        client.create("trimmed", 1, Map.of());
        client.create("compacted", 1, Map.of("cleanup.policy", "compact", "segment.bytes", "1048576"));
        for (int round = 0; round < 2; round++) {
            int count = (round + 1) * RECORDS;
            client.produce(round * RECORDS, count);
            client.readBack(count);
            client.offsets(count);
            client.topics("passing-" + round);
            client.trim();
            client.compacted(round);
            System.out.println("DISTURB");
            if (System.in.read() < 0) throw new IllegalStateException("nobody disturbs the nodes");
        }
        client.readBack(2 * RECORDS);
        client.offsets(2 * RECORDS);
        client.close();
        System.out.println("DONE " + client.compared + " records compared field by field, over a kill and a restart");
    }

    void close() {
        producers.values().forEach(Producer::close);
        consumer.close();
        admin.close();
    }

    static void demand(boolean fact, String message) {
        if (!fact) throw new AssertionError(message);
    }

    /** Waits for an answer of the administration. What a restart makes of it is tried again by the client itself. */
    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(60, java.util.concurrent.TimeUnit.SECONDS);
    }

    static void refused(KafkaFuture<?> future, Class<? extends Exception> wanted) throws Exception {
        try {
            get(future);
        } catch (ExecutionException error) {
            demand(wanted.isInstance(error.getCause()), "expected " + wanted + ", got " + error.getCause());
            return;
        }
        throw new AssertionError("not refused with " + wanted);
    }

    void create(String name, int partitions, Map<String, String> config) throws Exception {
        get(admin.createTopics(List.of(new NewTopic(name, Optional.of(partitions), Optional.empty()).configs(config))).all());
    }

    static ProducerRecord<byte[], byte[]> record(String codec, int number) {
        byte[] key = number % 5 == 0 ? null : (codec + number).getBytes(StandardCharsets.UTF_8);
        byte[] value = number % 7 == 0 ? null : (codec + " " + number + " ").repeat(number % 90).getBytes(StandardCharsets.UTF_8);
        var record = new ProducerRecord<>(TOPIC, CODECS.indexOf(codec), BEGAN_MS + number, key, value);
        if (number % 3 == 0) record.headers().add("codec", codec.getBytes(StandardCharsets.UTF_8)).add("none", null).add("codec", new byte[0]);
        return record;
    }

    void produce(int begin, int end) throws Exception {
        for (var entry : producers.entrySet()) {
            List<Future<RecordMetadata>> answers = new ArrayList<>();
            for (int number = begin; number < end; number++) answers.add(entry.getValue().send(record(entry.getKey(), number)));
            for (int number = begin; number < end; number++) {
                RecordMetadata told = answers.get(number - begin).get();
                demand(told.offset() == number, entry.getKey() + ": record " + number + " acknowledged at " + told.offset());
            }
            var extra = entry.getValue().send(new ProducerRecord<>("trimmed", entry.getKey().getBytes(StandardCharsets.UTF_8)));
            extra.get();
        }
    }

    void readBack(int count) {
        for (String codec : CODECS) {
            TopicPartition place = new TopicPartition(TOPIC, CODECS.indexOf(codec));
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            int next = 0;
            long limit = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (next < count) {
                demand(System.nanoTime() < limit, place + ": " + next + " of " + count + " records came in 60 s");
                for (var found : consumer.poll(Duration.ofMillis(500)).records(place)) compare(codec, next++, found);
            }
            demand(next == count, place + ": " + next + " records instead of " + count);
            consumer.seek(place, count / 2);
            demand(pollOne(place).offset() == count / 2, place + ": seek");
        }
    }

    ConsumerRecord<byte[], byte[]> pollOne(TopicPartition place) {
        long limit = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (true) {
            var found = consumer.poll(Duration.ofMillis(500)).records(place);
            if (!found.isEmpty()) return found.get(0);
            demand(System.nanoTime() < limit, place + ": no record in 60 s");
        }
    }

    void compare(String codec, int number, ConsumerRecord<byte[], byte[]> found) {
        var sent = record(codec, number);
        String what = codec + " record " + number;
        demand(found.offset() == number, what + " stands at " + found.offset());
        demand(Arrays.equals(found.key(), sent.key()), what + ": key");
        demand(Arrays.equals(found.value(), sent.value()), what + ": value");
        demand(found.timestamp() == sent.timestamp(), what + ": timestamp " + found.timestamp());
        Header[] headers = found.headers().toArray();
        demand(Arrays.equals(headers, sent.headers().toArray()), what + ": headers " + Arrays.toString(headers));
        compared++;
    }

    void offsets(int count) throws Exception {
        Map<TopicPartition, Long> times = new HashMap<>();
        List<TopicPartition> places = new ArrayList<>();
        for (int index = 0; index < CODECS.size(); index++) places.add(new TopicPartition(TOPIC, index));
        for (var place : places) times.put(place, BEGAN_MS + count / 2);
        var begins = consumer.beginningOffsets(places);
        var ends = consumer.endOffsets(places);
        var found = consumer.offsetsForTimes(times);
        for (var place : places) {
            demand(begins.get(place) == 0, place + " begins at " + begins.get(place));
            demand(ends.get(place) == count, place + " ends at " + ends.get(place));
            demand(found.get(place).offset() == count / 2, place + ": offset by time " + found.get(place));
            demand(found.get(place).timestamp() == BEGAN_MS + count / 2, place + ": time by time " + found.get(place));
        }
        var late = new TopicPartition(TOPIC, 0);
        demand(consumer.offsetsForTimes(Map.of(late, BEGAN_MS + count)).get(late) == null, "a time after the last record");
        var newest = get(admin.listOffsets(Map.of(late, OffsetSpec.maxTimestamp())).partitionResult(late));
        demand(newest.offset() == count - 1, "the newest record is at " + newest.offset());
    }

    void topics(String name) throws Exception {
        create(name, 2, Map.of());
        refused(admin.createTopics(List.of(new NewTopic(name, 2, (short) 1))).all(), TopicExistsException.class);
        refused(admin.createTopics(List.of(new NewTopic("a b", 2, (short) 1))).all(), InvalidTopicException.class);
        refused(admin.createTopics(List.of(new NewTopic("many", 1, (short) 4))).all(), InvalidReplicationFactorException.class);
        get(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all());
        var described = get(admin.describeTopics(List.of(name)).allTopicNames()).get(name);
        demand(described.partitions().size() == 5, name + " has " + described.partitions().size() + " partitions");
        demand(described.partitions().get(4).leader() != null, name + " has no leader");
        refused(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all(), InvalidPartitionsException.class);
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        var config = get(admin.describeConfigs(List.of(resource)).all()).get(resource);
        demand(config.get("segment.bytes").value().equals("1048576"), "segment.bytes: " + config.get("segment.bytes"));
        demand(!config.get("segment.bytes").isDefault(), "segment.bytes is the topic's own");
        demand(config.get("retention.bytes").isDefault(), "retention.bytes is a default");
        get(admin.deleteTopics(List.of(name)).all());
        refused(admin.describeTopics(List.of(name)).allTopicNames(), UnknownTopicOrPartitionException.class);
        demand(!get(admin.listTopics().names()).contains(name), name + " is listed after its end");
    }

    /** Of each key the last record stays where it was, and reading comes to the end over all that is missing. */
    void compacted(int round) throws Exception {
        var place = new TopicPartition("compacted", 0);
        var producer = producers.get(CODECS.get(round));
        var random = new Random(round);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int number = 0; number < COMPACTED; number++) {
            byte[] value = new byte[2000];
            random.nextBytes(value);
            byte[] key = ("key " + number % COMPACTED_KEYS).getBytes(StandardCharsets.UTF_8);
            sent.add(producer.send(new ProducerRecord<>("compacted", 0, key, number % 9 == 0 ? null : value)));
        }
        for (int number = 0; number < COMPACTED; number++)
            latest.put("key " + number % COMPACTED_KEYS, sent.get(number).get().offset());
        long limit = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (readCompacted(place) >= (round + 1) * COMPACTED / 2) {
            demand(System.nanoTime() < limit, "half of what was superseded is still there after 60 s");
            Thread.sleep(100);
        }
    }

    /** Reads all of it; how many records that were. */
    int readCompacted(TopicPartition place) {
        Map<String, Long> found = new HashMap<>();
        consumer.assign(List.of(place));
        consumer.seekToBeginning(List.of(place));
        long end = consumer.endOffsets(List.of(place)).get(place), before = -1;
        long limit = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        int count = 0;
        while (consumer.position(place) < end) {
            demand(System.nanoTime() < limit, place + ": at " + consumer.position(place) + " of " + end + " after 60 s");
            for (var record : consumer.poll(Duration.ofMillis(500)).records(place)) {
                demand(record.offset() > before, place + ": " + record.offset() + " after " + before);
                before = record.offset();
                found.put(new String(record.key(), StandardCharsets.UTF_8), record.offset());
                count++;
            }
        }
        demand(found.equals(latest), place + ": the latest records are at " + found + " instead of " + latest);
        compared += count;
        return count;
    }

    void trim() throws Exception {
        var place = new TopicPartition("trimmed", 0);
        long tail = consumer.endOffsets(List.of(place)).get(place);
        long wanted = tail - 2;
        var low = get(admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(wanted))).lowWatermarks().get(place));
        demand(low.lowWatermark() == wanted, "after deleteRecords the first offset is " + low.lowWatermark());
        demand(consumer.beginningOffsets(List.of(place)).get(place) == wanted, "beginningOffsets after deleteRecords");
        consumer.assign(List.of(place));
        consumer.seek(place, 0);
        try {
            pollOne(place);
            throw new AssertionError("a trimmed offset can be read");
        } catch (org.apache.kafka.clients.consumer.OffsetOutOfRangeException expected) {
            consumer.seekToBeginning(List.of(place));
            demand(pollOne(place).offset() == wanted, "the first record left");
        }
        refused(admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(tail + 5))).all(),
                org.apache.kafka.common.errors.OffsetOutOfRangeException.class);
    }
}
