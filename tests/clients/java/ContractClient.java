// Kafka's own Java client by the contract of tests/clients/README.md.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

public class ContractClient {
    static final int KEYS = 18;
    static final int SESSION_MS = 3000;
    static final int STATIC_SESSION_MS = 60_000;
    static final int HEARTBEAT_MS = 500;
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final int LETTERS_OF_CODEC = 20;
    // So long that it pays to compress a letter alone: a client may leave what would not get smaller.
    static final String WEAVE = "warp-weft-".repeat(20);
    static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));
    static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false);

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("reconnect.backoff.max.ms", 200);
        switch (arguments[1]) {
            case "produce" -> produce(settings, arguments[2]);
            case "consume" -> {
                String instance = arguments.length > 5 ? arguments[5] : null;
                new Member(settings, arguments[2], arguments[3], arguments[4], instance).consume();
            }
            case "codecs" -> codecs(settings, arguments[2]);
            case "admin" -> admin(settings);
            case "follow" -> TransactionClient.follow(settings, arguments[2], arguments[3]);
            case "transact" -> TransactionClient.transact(settings, arguments[2], arguments[3]);
            case "transform" -> TransactionClient.transform(settings, Arrays.copyOfRange(arguments, 2, arguments.length));
            case "inspect" -> TransactionAdmin.inspect(settings);
            default -> throw new IllegalArgumentException(arguments[1]);
        }
        OUT.flush();
    }

    static void tell(Object... words) {
        OUT.println(Arrays.stream(words).map(String::valueOf).collect(Collectors.joining(" ")));
    }

    /** Sends with the client's own defaults, which are idempotent. */
    static void produce(Map<String, Object> settings, String topic) throws Exception {
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String line; (line = IN.readLine()) != null; ) {
                String[] words = line.split(" ");
                int first = Integer.parseInt(words[0]);
                int end = first + Integer.parseInt(words[1]);
                Map<ProducerRecord<String, String>, Future<RecordMetadata>> sent = new LinkedHashMap<>();
                for (int number = first; number < end; number++) {
                    String key = "k" + number % KEYS;
                    var record = new ProducerRecord<>(topic, key, key + ":" + number);
                    sent.put(record, producer.send(record));
                }
                for (var entry : sent.entrySet()) {
                    RecordMetadata told = entry.getValue().get();
                    tell("acknowledged", told.partition(), told.offset(), entry.getKey().key(), entry.getKey().value());
                }
                OUT.flush();
            }
        }
    }

    /** A member of a group. */
    static class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final String topic;
        final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
        volatile boolean leaving = false;
        volatile boolean left = false;

        Member(Map<String, Object> settings, String topic, String group, String protocol, String instance) {
            this.topic = topic;
            if (instance != null) settings.put("group.instance.id", instance);
            settings.put("group.id", group);
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", false);
            String[] words = protocol.split(":");
            if (words[0].equals("consumer")) {
                settings.put("group.protocol", "consumer");
                if (words.length > 1) settings.put("group.remote.assignor", words[1]);
            } else {
                settings.put("group.protocol", "classic");
                settings.put("session.timeout.ms", instance == null ? SESSION_MS : STATIC_SESSION_MS);
                settings.put("heartbeat.interval.ms", HEARTBEAT_MS);
                var assignor = protocol.equals("range") ? RangeAssignor.class : CooperativeStickyAssignor.class;
                settings.put("partition.assignment.strategy", assignor.getName());
            }
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        }

        void consume() {
            Thread main = Thread.currentThread();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                leaving = true;
                join(main);
                // By itself a machine that is told to end by a signal says so by its exit status.
                Runtime.getRuntime().halt(left ? 0 : 1);
            }));
            if (topic.startsWith("^")) consumer.subscribe(new SubscriptionPattern(topic), this);
            else consumer.subscribe(List.of(topic), this);
            while (!leaving) {
                read();
                // What is committed must have been told: a kill may come in between.
                OUT.flush();
                commit();
                OUT.flush();
            }
            consumer.close();
            OUT.flush();
            left = true;
        }

        void read() {
            try {
                for (var found : consumer.poll(Duration.ofMillis(200))) {
                    tell("read", found.partition(), found.offset(), found.key(), found.value());
                    uncommitted.put(new TopicPartition(found.topic(), found.partition()), new OffsetAndMetadata(found.offset() + 1));
                }
            } catch (RetriableException passing) {
                System.err.println("reading: " + passing + "; to be tried again");
            }
        }

        static void join(Thread thread) {
            try {
                thread.join();
            } catch (InterruptedException impossible) {
                throw new IllegalStateException(impossible);
            }
        }

        void commit() {
            if (uncommitted.isEmpty()) return;
            try {
                consumer.commitSync(uncommitted, Duration.ofSeconds(10));
                uncommitted.forEach((place, next) -> tell("committed", place.partition(), next.offset()));
                uncommitted.clear();
            } catch (CommitFailedException refused) {
                onPartitionsRevoked(List.copyOf(uncommitted.keySet()));
            } catch (RebalanceInProgressException | RetriableException passing) {
                System.err.println("committing: " + passing + "; to be tried again");
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            for (TopicPartition place : places) if (uncommitted.remove(place) != null) tell("uncommitted", place.partition());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {}
    }

    /** Sends letters with each codec and reads them back. */
    static void codecs(Map<String, Object> settings, String topic) throws Exception {
        for (String codec : CODECS) {
            sendLetters(settings, topic, codec);
            tell("sent", codec);
        }
        Map<String, Object> reading = new HashMap<>(settings);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            int left = CODECS.size() * LETTERS_OF_CODEC;
            while (left > 0) {
                for (var found : consumer.poll(Duration.ofMillis(200))) {
                    tellLetter(found);
                    left--;
                }
            }
        }
    }

    static void sendLetters(Map<String, Object> settings, String topic, String codec) throws Exception {
        Map<String, Object> writing = new HashMap<>(settings);
        writing.put("compression.type", codec);
        try (var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < LETTERS_OF_CODEC; number++) {
                String value = number % 5 == 4 ? null : codec + ":" + number;
                var letter = new ProducerRecord<>(topic, codec + "-" + number, value);
                letter.headers().add("codec", codec.getBytes(StandardCharsets.UTF_8));
                letter.headers().add("weave", WEAVE.getBytes(StandardCharsets.UTF_8));
                sent.add(producer.send(letter));
            }
            for (var acknowledged : sent) acknowledged.get();
        }
    }

    static void tellLetter(ConsumerRecord<String, String> found) {
        List<Object> words = new ArrayList<>(List.of("read", found.offset(), found.key()));
        words.add(found.value() == null ? "-" : found.value());
        for (Header header : found.headers()) words.add(header.key() + "=" + new String(header.value(), StandardCharsets.UTF_8));
        tell(words.toArray());
    }

    interface Deed {
        Collection<String> run(String[] words) throws Exception;
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(30, java.util.concurrent.TimeUnit.SECONDS);
    }

    static void admin(Map<String, Object> settings) throws Exception {
        try (var admin = Admin.create(settings)) {
            Map<String, Deed> deeds = new HashMap<>(deeds(admin));
            deeds.put("transaction", words -> transaction(settings, words[1]));
            administer(deeds);
        }
    }

    static void administer(Map<String, Deed> deeds) throws Exception {
        for (String line; (line = IN.readLine()) != null; ) {
            String[] words = line.split(" ");
            try {
                tell(String.join(" ", deeds.get(words[0]).run(words)));
            } catch (Exception error) {
                tell("error", String.valueOf(error.getCause() == null ? error : error.getCause()).replace('\n', ' '));
            }
            OUT.flush();
        }
    }

    static List<String> transaction(Map<String, Object> settings, String topic) {
        Map<String, Object> once = new HashMap<>(settings);
        once.put("transactional.id", "once");
        try (var producer = new KafkaProducer<>(once, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "in a transaction"));
            producer.commitTransaction();
        }
        return List.of("ok");
    }

    static Map<String, Deed> deeds(Admin admin) {
        Map<String, Deed> deeds = new HashMap<>(deedsOnTopics(admin));
        deeds.putAll(deedsOnGroups(admin));
        return deeds;
    }

    static Map<String, Deed> deedsOnTopics(Admin admin) {
        List<String> ok = List.of("ok");
        return Map.of(
            "create", words -> {
                get(admin.createTopics(List.of(new NewTopic(words[1], Optional.of(Integer.parseInt(words[2])), Optional.empty()))).all());
                return ok;
            },
            "delete", words -> {
                get(admin.deleteTopics(List.of(words[1])).all());
                return ok;
            },
            "topics", words -> get(admin.listTopics().names()),
            "describe", words -> {
                var found = get(admin.describeTopics(List.of(words[1])).allTopicNames()).get(words[1]);
                return List.of(String.valueOf(found.partitions().size()));
            },
            "config", words -> {
                var topic = new ConfigResource(ConfigResource.Type.TOPIC, words[1]);
                return List.of(get(admin.describeConfigs(List.of(topic)).all()).get(topic).get(words[2]).value());
            },
            "set", words -> {
                var topic = new ConfigResource(ConfigResource.Type.TOPIC, words[1]);
                var change = new AlterConfigOp(new ConfigEntry(words[2], words[3]), AlterConfigOp.OpType.SET);
                get(admin.incrementalAlterConfigs(Map.of(topic, List.of(change))).all());
                return ok;
            },
            "grow", words -> {
                get(admin.createPartitions(Map.of(words[1], NewPartitions.increaseTo(Integer.parseInt(words[2])))).all());
                return ok;
            },
            "since", words -> {
                var place = new TopicPartition(words[1], Integer.parseInt(words[2]));
                var found = get(admin.listOffsets(Map.of(place, OffsetSpec.forTimestamp(Long.parseLong(words[3])))).all());
                return List.of(String.valueOf(found.get(place).offset()));
            },
            "trim", words -> {
                var place = new TopicPartition(words[1], Integer.parseInt(words[2]));
                get(admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(Long.parseLong(words[3])))).all());
                return ok;
            });
    }

    static Map<String, Deed> deedsOnGroups(Admin admin) {
        return Map.of(
            "state", words -> {
                var found = get(admin.describeConsumerGroups(List.of(words[1])).all()).get(words[1]);
                return List.of(found.groupState().toString().toLowerCase());
            },
            "forget", words -> {
                get(admin.deleteConsumerGroups(List.of(words[1])).all());
                return List.of("ok");
            },
            "groups", words -> get(admin.listGroups().all()).stream().map(GroupListing::groupId).toList(),
            "offsets", words -> {
                var found = get(admin.listConsumerGroupOffsets(words[1]).partitionsToOffsetAndMetadata());
                return found.entrySet().stream().filter(entry -> entry.getKey().topic().equals(words[2]))
                    .map(entry -> entry.getKey().partition() + ":" + entry.getValue().offset()).toList();
            });
    }
}
