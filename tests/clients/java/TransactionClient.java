// Transactions with Kafka's own Java client, by the contract of tests/clients/README.md.

import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

public class TransactionClient {
    static final int IN_A_TRANSACTION = 20;

    static void follow(Map<String, Object> settings, String topic, String isolation) {
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("isolation.level", "read_" + isolation);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(consumer.partitionsFor(topic).stream().map(told -> new TopicPartition(topic, told.partition())).toList());
            while (true) {
                for (var found : consumer.poll(Duration.ofMillis(200))) {
                    ContractClient.tell("read", found.partition(), found.offset(), found.value());
                }
                ContractClient.OUT.flush();
            }
        }
    }

    static KafkaProducer<String, String> producerOf(Map<String, Object> settings, String id, String timeoutMs) {
        Map<String, Object> writing = new HashMap<>(settings);
        writing.put("transactional.id", id);
        writing.put("transaction.timeout.ms", timeoutMs);
        return new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
    }

    /** Sends them and gives the offset of the first, once all are acknowledged. */
    static long deliver(KafkaProducer<String, String> producer, List<ProducerRecord<String, String>> records) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (var record : records) sent.add(producer.send(record));
        producer.flush();
        long first = -1;
        for (var acknowledged : sent) {
            long offset = acknowledged.get().offset();
            if (first < 0) first = offset;
        }
        return first;
    }

    /** What a member says of itself before it has joined. */
    static ConsumerGroupMetadata memberOf(Map<String, Object> settings, String group) {
        Map<String, Object> reading = new HashMap<>(settings);
        reading.put("group.id", group);
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            return consumer.groupMetadata();
        }
    }

    interface Step {
        void run() throws Exception;
    }

    static ContractClient.Deed done(Step step) {
        return words -> {
            step.run();
            return List.of("ok");
        };
    }

    static void transact(Map<String, Object> settings, String id, String timeoutMs) throws Exception {
        try (var admin = Admin.create(settings); var producer = producerOf(settings, id, timeoutMs)) {
            ContractClient.administer(Map.of(
                "init", done(producer::initTransactions),
                "begin", done(producer::beginTransaction),
                "commit", done(producer::commitTransaction),
                "abort", done(producer::abortTransaction),
                "send", words -> {
                    int partition = Integer.parseInt(words[2]);
                    var values = Arrays.asList(words).subList(3, words.length);
                    var records = values.stream().map(value -> new ProducerRecord<String, String>(words[1], partition, null, value)).toList();
                    return List.of(String.valueOf(deliver(producer, records)));
                },
                "offsets", words -> {
                    var place = new TopicPartition(words[2], Integer.parseInt(words[3]));
                    var next = new OffsetAndMetadata(Long.parseLong(words[4]));
                    producer.sendOffsetsToTransaction(Map.of(place, next), memberOf(settings, words[1]));
                    return List.of("ok");
                },
                "tail", words -> {
                    var place = new TopicPartition(words[1], Integer.parseInt(words[2]));
                    var isolation = words[3].equals("committed") ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
                    var found = ContractClient.get(admin.listOffsets(Map.of(place, OffsetSpec.latest()), new ListOffsetsOptions(isolation)).all());
                    return List.of(String.valueOf(found.get(place).offset()));
                }));
            // An open transaction is not closed in order: the coordinator would be told to abort it.
            Runtime.getRuntime().halt(0);
        }
    }

    static void transform(Map<String, Object> settings, String[] words) throws Exception {
        String id = words[0], timeoutMs = words[1], group = words[2], source = words[3], target = words[4];
        Map<String, Object> reading = new HashMap<>(settings);
        reading.put("group.id", group);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", false);
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", IN_A_TRANSACTION);
        reading.put("session.timeout.ms", ContractClient.SESSION_MS);
        reading.put("heartbeat.interval.ms", ContractClient.HEARTBEAT_MS);
        try (var producer = producerOf(settings, id, timeoutMs);
             var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (true) {
                var handed = consumer.poll(Duration.ofMillis(200));
                while (!handed.isEmpty() && !copy(producer, consumer, handed, target)) {
                    ContractClient.OUT.flush();
                }
            }
        } catch (Exception error) {
            error.printStackTrace();
            ContractClient.OUT.flush();
            Runtime.getRuntime().halt(1);
        }
    }

    /** Makes one transaction, as the lines say; whether it was committed. */
    static boolean copy(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer,
                        ConsumerRecords<String, String> handed, String target) throws Exception {
        producer.beginTransaction();
        List<ProducerRecord<String, String>> copies = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (var record : handed) {
            copies.add(new ProducerRecord<>(target, record.partition(), record.key(), record.value()));
            next.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        deliver(producer, copies);
        ContractClient.tell("sent", copies.size());
        ContractClient.OUT.flush();
        for (String word; (word = ContractClient.IN.readLine()) != null; ) {
            switch (word) {
                case "offsets" -> {
                    producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                    ContractClient.tell("added");
                    ContractClient.OUT.flush();
                }
                case "commit" -> {
                    producer.commitTransaction();
                    ContractClient.tell("committed");
                    ContractClient.OUT.flush();
                    return true;
                }
                default -> {
                    producer.abortTransaction();
                    ContractClient.tell("aborted");
                    ContractClient.OUT.flush();
                    return false;
                }
            }
        }
        throw new IllegalStateException("the input has ended in the middle of a transaction");
    }
}
