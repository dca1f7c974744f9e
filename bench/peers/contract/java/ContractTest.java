package contract;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;

/** Facts that must hold of this library, the sums of the contract's table first. Run by `./test`; needs no framework. */
public final class ContractTest {
    public static void main(String[] arguments) {
        payloadsHaveTheSumsOfTheTable();
        stampsAreReadBack();
        latenciesAreRoundedUp();
        sharesAndShardsAreAsTheContractSays();
        recordsAreDueInTurns();
        recordsWaitForCompanyInFullBatchesOfTheClosedLoopOnly();
        jsonIsStrict();
        System.out.println("all facts of the contract hold");
    }

    private static void payloadsHaveTheSumsOfTheTable() {
        long[][] table = {
            {0, 1, 16, 2717936484L}, {0, 1, 100, 2735468055L}, {3, 1000, 100, 2102778704282L},
            {7, 500, 4096, 1041618093517L}, {1, 100, 50000, 198908973652L}, {65535, 3, 1000000, 3807115882L}};
        for (long[] row : table) {
            Payloads payloads = new Payloads((int) row[2]);
            byte[] payload = new byte[(int) row[2]];
            CRC32 crc = new CRC32();
            long sum = 0;
            for (long number = 0; number < row[1]; number++) {
                payloads.write((int) row[0], number, payload);
                crc.reset();
                crc.update(payload);
                sum += crc.getValue();
            }
            equal(row[3], sum, "the sum of " + row[1] + " records of " + row[2] + " bytes");
        }
    }

    private static void stampsAreReadBack() {
        byte[] payload = new byte[20];
        new Payloads(20).write(65535, 0xabcdef012345L, payload);
        long stamp = Payloads.stampOf(ByteBuffer.wrap(payload));
        equal(65535, Payloads.producerOf(stamp), "a stamp's producer");
        equal(0xabcdef012345L, Payloads.numberOf(stamp), "a stamp's number");
        payload[3] = 'F';
        refused(() -> Payloads.stampOf(ByteBuffer.wrap(payload)), "an upper-case digit");
    }

    private static void latenciesAreRoundedUp() {
        long[][] shown = {{0, 0}, {999, 999}, {1000, 1000}, {1001, 1010}, {9991, 10000}, {123_456, 124_000},
            {99_900_001, 100_000_000}, {Long.MAX_VALUE, 9_990_000_000_000L}};
        for (long[] pair : shown) {
            Latencies one = new Latencies();
            one.record(pair[0]);
            Latencies all = new Latencies();
            all.merge(one);
            all.merge(one);
            equal(List.of(List.of(pair[1], 2L)), all.pairs(), "latency " + pair[0]);
        }
    }

    private static void sharesAndShardsAreAsTheContractSays() {
        Append append = new Append("log", 5, 3, 16, 10, 1, 8, 100, -1, null, false, false, false);
        equal(List.of(3L, 3L, 2L), List.of(append.warmupOf(0), append.warmupOf(1), append.warmupOf(2)), "shares of 8");
        equal(1, append.shardOf(1, 9), "the shard of a first batch");
        equal((2 + 7 * 3) % 5, append.shardOf(2, 70), "the shard of batch 7");
        Read read = new Read("log", 5, 2, 16, 1, 1, false, false);
        equal(List.of(0, 2, 4), boxed(read.shardsOf(0)), "the shards of a consumer");
        equal(List.of(1, 3), boxed(read.shardsOf(1)), "the shards of a consumer");
        Append transactions = new Append("log", 5, 3, 16, 10, 1, 8, 100, -1, null, false, false, true);
        equal(List.of(1, 4, 2), List.of(transactions.shardOf(1, 0), transactions.shardOf(1, 1), transactions.shardOf(1, 2)),
                "the shards of one transaction");
        equal(false, transactions.mayLinger(), "lingering in a transaction");
        equal(List.of(1), boxed(new Read("log", 5, 7, 16, 1, 1, false, false).shardsOf(6)), "the shard of one too many");
        equal(10, new Read("log", 5, 2, 100, 1099, 1, false, false).requestRecords(), "records of a request");
        equal(1, new Read("log", 5, 2, 100, 99, 1, false, false).requestRecords(), "records of a request of less than one");
    }

    private static void recordsAreDueInTurns() {
        Pacing pacing = new Pacing(5_000, 4, 1_000_000);
        equal(5_000 + 3_000, pacing.dueNs(3, 0), "the first record of producer 3");
        equal(5_000 + 9_000, pacing.dueNs(1, 2), "the third record of producer 1");
        equal(5_000 + 3_600_000_000_000L, new Pacing(5_000, 1, 30_000).dueNs(0, 30_000L * 3600), "a record after an hour");
    }

    private static void recordsWaitForCompanyInFullBatchesOfTheClosedLoopOnly() {
        equal(true, new Append("log", 1, 1, 16, 10, 1, 0, 100, -1, null, false, false, false).mayLinger(), "lingering in the closed loop");
        equal(false, new Append("log", 1, 1, 16, 1, 10, 0, 100, -1, null, false, false, false).mayLinger(), "lingering with single records");
        equal(false, new Append("log", 1, 1, 16, 10, 1, 0, 100, -1, 1000.0, false, false, false).mayLinger(), "lingering at a rate");
    }

    private static void jsonIsStrict() {
        Map<String, Object> read = Json.readObject(" {\"a\": [1, -2.5e1, null, true], \"b\\u0041\\n\": {\"c\": \"\\\"\"}} ");
        equal("{\"a\":[1,-25.0,null,true],\"bA\\u000a\":{\"c\":\"\\\"\"}}", Json.write(read), "what was read");
        for (String wrong : List.of("", "{", "[]", "{\"a\":1,}", "{\"a\":01}", "{\"a\":1} x", "{a:1}", "{\"a\":1,\"a\":2}", "{\"a\":tru}")) {
            refused(() -> Json.readObject(wrong), wrong);
        }
        refused(() -> Append.of(new Fields("{\"log\":\"l\"}")), "an append without its fields");
        String append = "{\"log\":\"l\",\"shards\":1,\"producers\":1,\"record_bytes\":16,\"batch_records\":1,\"in_flight\":1";
        refused(() -> Append.of(new Fields(append + "}")), "an append without an end");
        equal(7, Append.of(new Fields(append + ",\"records\":7,\"seconds\":2.5}")).records(), "an append's records");
        equal(-1, Append.of(new Fields(append + ",\"seconds\":2.5}")).records(), "the records of an append for a time");
    }

    private static List<Integer> boxed(int[] numbers) {
        return java.util.stream.IntStream.of(numbers).boxed().toList();
    }

    private static void equal(Object expected, Object found, String what) {
        boolean same = expected instanceof Number a && found instanceof Number b ? a.longValue() == b.longValue() : expected.equals(found);
        if (!same) {
            throw new AssertionError(what + " should be " + expected + ", not " + found);
        }
    }

    private static void refused(Runnable action, String what) {
        try {
            action.run();
        } catch (IllegalArgumentException expected) {
            return;
        }
        throw new AssertionError("not refused: " + what);
    }
}
