// The administration of transactions with Kafka's own Java client, for tests/suites/transactions_tools.

import java.util.*;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.TopicPartition;

public class TransactionAdmin {
    /** Answers lines, as `admin` of tests/clients/README.md does. */
    static void inspect(Map<String, Object> settings) throws Exception {
        try (var admin = Admin.create(settings)) {
            ContractClient.administer(Map.of(
                // ID=STATE of all transactions, or of those in the state that is named.
                "list", words -> {
                    var options = new ListTransactionsOptions();
                    if (words.length > 1) options.filterStates(List.of(TransactionState.parse(words[1])));
                    return told(ContractClient.get(admin.listTransactions(options).all()));
                },
                // Those that have been open for so many ms.
                "older", words -> told(ContractClient.get(
                    admin.listTransactions(new ListTransactionsOptions().filterOnDuration(Long.parseLong(words[1]))).all())),
                // Those whose id matches a regular expression.
                "like", words -> told(ContractClient.get(
                    admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern(words[1])).all())),
                // STATE PRODUCER EPOCH TIMEOUT_MS STARTED TOPIC-PARTITION…
                "describe", words -> {
                    var found = ContractClient.get(admin.describeTransactions(List.of(words[1])).description(words[1]));
                    List<String> answer = new ArrayList<>(List.of(
                        found.state().toString(), String.valueOf(found.producerId()), String.valueOf(found.producerEpoch()),
                        String.valueOf(found.transactionTimeoutMs()), String.valueOf(found.transactionStartTimeMs().isPresent())));
                    found.topicPartitions().stream().map(TopicPartition::toString).sorted().forEach(answer::add);
                    return answer;
                },
                // PRODUCER:EPOCH:FIRST of each producer of a partition; FIRST is the first offset of what it has open there, or `-`.
                "producers", words -> {
                    var place = new TopicPartition(words[1], Integer.parseInt(words[2]));
                    return ContractClient.get(admin.describeProducers(List.of(place)).partitionResult(place)).activeProducers().stream()
                        .map(told -> told.producerId() + ":" + told.producerEpoch() + ":" + first(told)).toList();
                },
                // Aborts what a producer has open in a partition, by a marker of one's own.
                "abort", words -> {
                    var place = new TopicPartition(words[1], Integer.parseInt(words[2]));
                    var producer = ContractClient.get(admin.describeProducers(List.of(place)).partitionResult(place)).activeProducers().stream()
                        .filter(told -> first(told).equals(words[3])).findFirst().orElseThrow();
                    ContractClient.get(admin.abortTransaction(new AbortTransactionSpec(place, producer.producerId(),
                        (short) producer.producerEpoch(), producer.coordinatorEpoch().orElse(0))).all());
                    return List.of("ok");
                },
                "fence", words -> {
                    ContractClient.get(admin.fenceProducers(List.of(words[1])).all());
                    return List.of("ok");
                },
                "version", words -> {
                    var found = ContractClient.get(admin.describeFeatures().featureMetadata()).finalizedFeatures().get("transaction.version");
                    return List.of(found == null ? "0" : String.valueOf(found.maxVersionLevel()));
                },
                // Has the cluster use another version of transactions from now on.
                "change", words -> {
                    short version = Short.parseShort(words[1]);
                    var kind = words[2].equals("up") ? FeatureUpdate.UpgradeType.UPGRADE : FeatureUpdate.UpgradeType.SAFE_DOWNGRADE;
                    ContractClient.get(admin.updateFeatures(Map.of("transaction.version", new FeatureUpdate(version, kind)),
                        new UpdateFeaturesOptions()).all());
                    return List.of("ok");
                }));
        }
    }

    static String first(ProducerState producer) {
        var first = producer.currentTransactionStartOffset();
        return first.isPresent() ? String.valueOf(first.getAsLong()) : "-";
    }

    static Collection<String> told(Collection<TransactionListing> found) {
        return found.stream().map(told -> told.transactionalId() + "=" + told.state()).sorted().toList();
    }
}
