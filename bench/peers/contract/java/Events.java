package contract;

import java.io.PrintStream;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** Writes events, one JSON object a line. Safe from several threads. */
final class Events {
    private final PrintStream out;

    Events(PrintStream out) {
        this.out = out;
    }

    void say(String event) {
        say(event, Collections.emptyMap());
    }

    void say(String event, Map<String, ?> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.putAll(fields);
        synchronized (this) {
            out.print(Json.write(line) + "\n");
            out.flush();
        }
    }
}
