package contract;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;

/**
 * The loop of a driver: reads commands from standard input, has a system carry them out, writes events to standard
 * output. A driver's `main` is one call of `run`. Nothing else may reach standard output, so that what libraries print
 * goes to standard error.
 */
public final class Driver {
    /** Makes a driver's client. */
    public interface Connect {
        SystemClient to(String address) throws Exception;
    }

    private final SystemClient client;
    private final Events events;

    private Driver(SystemClient client, Events events) {
        this.client = client;
        this.events = events;
    }

    /** Runs until standard input ends, then ends the program with 0, whatever threads a client has left behind. */
    public static void run(String[] arguments, Connect connect) throws Exception {
        if (arguments.length != 1) {
            System.err.println("usage: drive ADDRESS (of the system; several with commas between)");
            System.exit(2);
        }
        Events events = new Events(new PrintStream(System.out, false, StandardCharsets.UTF_8));
        System.setOut(System.err);
        try (SystemClient client = connect.to(arguments[0])) {
            new Driver(client, events).answerAll();
        }
        System.exit(0);
    }

    private void answerAll() throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                answer(new Fields(line));
            } catch (Exception | LinkageError | OutOfMemoryError failure) {
                failure.printStackTrace();
                events.say("failed", Map.of("why", Failures.sentence(failure)));
            }
        }
    }

    private void answer(Fields fields) throws Exception {
        String command = fields.text("command");
        switch (command) {
            case "describe" -> {
                SystemClient.Description found = client.describe();
                events.say("described",
                        Map.of("client", found.client(), "version", found.version(), "settings", found.settings()));
            }
            case "create" -> {
                client.create(fields.text("log"), fields.whole("shards", 1, Integer.MAX_VALUE),
                        fields.whole("nodes", 1, Short.MAX_VALUE), fields.settings("settings"));
                events.say("created");
            }
            case "delete" -> {
                client.delete(fields.text("log"));
                events.say("deleted");
            }
            case "leader" -> events.say("leader", Collections.singletonMap("node", client.leader(fields.text("log"))));
            case "append" -> new AppendRun(client, Append.of(fields), events).run();
            case "read" -> new ReadRun(client, Read.of(fields), events).run();
            default -> throw new IllegalArgumentException("unknown command \"" + command + "\"");
        }
    }
}
