package contract;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * One `append` command: connects the producers, warms them up, starts them together, says how far they are, and sums up
 * what they did. With `follow`, consumers run beside them.
 */
final class AppendRun {
    private final SystemClient client;
    private final Append append;
    private final Events events;
    private final Failures failures = new Failures();
    private final List<ProducerRun> producers = new ArrayList<>();

    AppendRun(SystemClient client, Append append, Events events) {
        this.client = client;
        this.append = append;
        this.events = events;
    }

    void run() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(append.producers());
        try (SystemClient.Appending appending = client.append(append);
                Followers followers = append.follow() ? new Followers(client, append) : null) {
            connect(appending);
            try {
                warmUp(threads);
                if (failures.count() > 0) {
                    throw new IllegalStateException("the warm-up failed: " + failures.first());
                }
                events.say("done", measure(threads, followers));
            } finally {
                closeProducers();
            }
        } finally {
            threads.shutdownNow();
        }
    }

    private void connect(SystemClient.Appending appending) throws Exception {
        Payloads payloads = new Payloads(append.recordBytes());
        try {
            for (int i = 0; i < append.producers(); i++) {
                producers.add(new ProducerRun(append, i, payloads, appending.producer(i), failures));
            }
        } catch (Exception failure) {
            closeProducers();
            throw failure;
        }
    }

    private void warmUp(ExecutorService threads) throws Exception {
        List<Future<?>> all = new ArrayList<>();
        for (ProducerRun producer : producers) {
            all.add(threads.submit(() -> {
                producer.warmUp();
                return null;
            }));
        }
        // Waits for all before it throws, so that none still sends when they are closed.
        ExecutionException first = null;
        for (Future<?> one : all) {
            try {
                one.get();
            } catch (ExecutionException failure) {
                first = first == null ? failure : first;
            }
        }
        if (first != null) {
            throw first;
        }
    }

    private Map<String, Object> measure(ExecutorService threads, Followers followers) throws Exception {
        events.say("started");
        long startNs = System.nanoTime();
        if (followers != null) {
            followers.measureFrom(startNs);
        }
        for (ProducerRun producer : producers) {
            threads.execute(() -> {
                try {
                    producer.measure(startNs);
                } catch (Throwable failure) {
                    failures.add(failure);
                }
            });
        }
        threads.shutdown();
        while (!threads.awaitTermination(1, TimeUnit.SECONDS)) {
            events.say("progress", Map.of("records", acknowledged()));
        }
        if (followers != null) {
            followers.await(producers.stream().mapToLong(ProducerRun::appended).sum(), failures);
        }
        return summary(startNs, followers);
    }

    private Map<String, Object> summary(long startNs, Followers followers) {
        Latencies latencies = new Latencies();
        long endNs = startNs;
        for (ProducerRun producer : producers) {
            latencies.merge(producer.latencies());
            if (producer.acknowledged() > 0) {
                endNs = Math.max(endNs, producer.lastAcknowledgedNs());
            }
        }
        Map<String, Object> done = new LinkedHashMap<>();
        done.put("seconds", (endNs - startNs) / 1e9);
        done.put("records", acknowledged());
        done.put("bytes", acknowledged() * append.recordBytes());
        done.put("errors", failures.count());
        done.put("first_error", failures.first());
        done.put("appended", producers.stream().map(ProducerRun::appended).toList());
        done.put("latency_ns", latencies.pairs());
        done.put("delivery_ns", followers == null ? null : followers.latencies().pairs());
        return done;
    }

    private long acknowledged() {
        return producers.stream().mapToLong(ProducerRun::acknowledged).sum();
    }

    private void closeProducers() throws Exception {
        for (ProducerRun producer : producers) {
            producer.close();
        }
    }
}
