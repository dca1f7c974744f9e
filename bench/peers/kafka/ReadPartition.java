// Reads one partition from its start with Kafka's own Java client and says how fast, as one line of JSON. Unlike
// kafka-consumer-perf-test it assigns the partition by itself, so that it needs no group coordinator.
//
//   bench/peers/kafka/run tool bench/peers/kafka/ReadPartition.java BOOTSTRAP TOPIC RECORDS

import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ReadPartition {
    static final Duration PATIENCE = Duration.ofSeconds(20);

    public static void main(String[] arguments) {
        long wanted = Long.parseLong(arguments[2]);
        var partition = new TopicPartition(arguments[1], 0);
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            long began = System.nanoTime();
            long records = 0;
            while (records < wanted) {
                var some = consumer.poll(PATIENCE);
                if (some.isEmpty()) {
                    System.err.println("only " + records + " of " + wanted + " records came");
                    System.exit(1);
                }
                // Touches every record, as any reader does.
                for (ConsumerRecord<byte[], byte[]> record : some) {
                    if (record.offset() != records) {
                        System.err.println("offset " + record.offset() + " came where " + records + " was due");
                        System.exit(1);
                    }
                    records++;
                }
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            System.out.printf("{\"records\": %d, \"seconds\": %.6f, \"records_per_s\": %.2f}%n", records, seconds, records / seconds);
        }
    }
}
