package contract;

import java.util.Map;
import java.util.TreeMap;

/** The fields of one command, read strictly: a missing one or one of another kind is named. Null is as left out. */
final class Fields {
    private final Map<String, Object> fields;

    Fields(String line) {
        fields = Json.readObject(line);
    }

    String text(String name) {
        return required(name, String.class);
    }

    /** A whole number from `least` to `most`. */
    int whole(String name, int least, int most) {
        return (int) inBounds(name, required(name, Long.class), least, most);
    }

    long records(String name) {
        return inBounds(name, required(name, Long.class), 0, Long.MAX_VALUE);
    }

    /** A number above zero, or null. */
    Double positiveOrNull(String name) {
        Object value = fields.get(name);
        if (value == null) {
            return null;
        }
        if (!(value instanceof Number number) || !(number.doubleValue() > 0)) {
            throw new IllegalArgumentException("field \"" + name + "\" must be a number above zero, not " + value);
        }
        return number.doubleValue();
    }

    boolean has(String name) {
        return fields.get(name) != null;
    }

    /** False where it is left out. */
    boolean flag(String name) {
        return has(name) && required(name, Boolean.class);
    }

    /** An object of texts; empty where it is left out. */
    Map<String, String> settings(String name) {
        Map<String, String> settings = new TreeMap<>();
        if (has(name)) {
            Map<?, ?> given = required(name, Map.class);
            for (Map.Entry<?, ?> setting : given.entrySet()) {
                if (!(setting.getValue() instanceof String value)) {
                    throw new IllegalArgumentException("setting \"" + setting.getKey() + "\" must be a text");
                }
                settings.put(setting.getKey().toString(), value);
            }
        }
        return settings;
    }

    private <T> T required(String name, Class<T> kind) {
        Object value = fields.get(name);
        if (value == null) {
            throw new IllegalArgumentException("field \"" + name + "\" is missing");
        }
        if (!kind.isInstance(value)) {
            throw new IllegalArgumentException("field \"" + name + "\" must be of kind " + kind.getSimpleName() + ", not " + value);
        }
        return kind.cast(value);
    }

    private static long inBounds(String name, long value, long least, long most) {
        if (value < least || value > most) {
            throw new IllegalArgumentException("field \"" + name + "\" must be from " + least + " to " + most + ", not " + value);
        }
        return value;
    }
}
