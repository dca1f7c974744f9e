package contract;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON as the contract needs it: one line to values and back. Objects are maps, arrays are lists, whole numbers are
 * Long, others Double. Strict: what is not JSON is refused with the place where it ends being so.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads one object, and nothing after it. */
    static Map<String, Object> readObject(String text) {
        Json json = new Json(text);
        json.skipBlanks();
        Map<String, Object> object = json.object();
        json.skipBlanks();
        if (json.at < text.length()) {
            throw json.wrong("the end of the line");
        }
        return object;
    }

    private Object value() {
        skipBlanks();
        return switch (peek()) {
            case '{' -> object();
            case '[' -> array();
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> object() {
        Map<String, Object> fields = new LinkedHashMap<>();
        expect('{');
        skipBlanks();
        if (take('}')) {
            return fields;
        }
        do {
            skipBlanks();
            String name = string();
            skipBlanks();
            expect(':');
            if (fields.containsKey(name)) {
                throw new IllegalArgumentException("field \"" + name + "\" is there twice");
            }
            fields.put(name, value());
            skipBlanks();
        } while (take(','));
        expect('}');
        return fields;
    }

    private List<Object> array() {
        List<Object> values = new ArrayList<>();
        expect('[');
        skipBlanks();
        if (take(']')) {
            return values;
        }
        do {
            values.add(value());
            skipBlanks();
        } while (take(','));
        expect(']');
        return values;
    }

    private String string() {
        expect('"');
        StringBuilder letters = new StringBuilder();
        while (!take('"')) {
            char letter = peek();
            if (letter < ' ') {
                throw wrong("a letter or a closing quote");
            }
            at++;
            letters.append(letter == '\\' ? escaped() : letter);
        }
        return letters.toString();
    }

    private char escaped() {
        char letter = peek();
        at++;
        return switch (letter) {
            case '"', '\\', '/' -> letter;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> hexLetter();
            default -> {
                at--;
                throw wrong("an escape");
            }
        };
    }

    private char hexLetter() {
        int code = 0;
        for (int i = 0; i < 4; i++, at++) {
            int digit = Character.digit(peek(), 16);
            if (digit < 0) {
                throw wrong("a hexadecimal digit");
            }
            code = code * 16 + digit;
        }
        return (char) code;
    }

    private Object number() {
        int first = at;
        while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(first, at);
        if (!digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
            at = first;
            throw wrong("a value");
        }
        boolean whole = digits.indexOf('.') < 0 && digits.indexOf('e') < 0 && digits.indexOf('E') < 0;
        return whole ? (Object) Long.valueOf(digits) : (Object) Double.valueOf(digits);
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong(word);
        }
        at += word.length();
        return value;
    }

    private void skipBlanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char peek() {
        if (at == text.length()) {
            throw new IllegalArgumentException("not JSON: it ends too early");
        }
        return text.charAt(at);
    }

    private boolean take(char letter) {
        if (at < text.length() && text.charAt(at) == letter) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char letter) {
        if (!take(letter)) {
            throw wrong("'" + letter + "'");
        }
    }

    private IllegalArgumentException wrong(String expected) {
        return new IllegalArgumentException("not JSON: " + expected + " should stand at letter " + (at + 1));
    }

    /** Writes maps, lists, strings, numbers, booleans and null, on one line. */
    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> object) {
            String before = "{";
            for (Map.Entry<?, ?> field : object.entrySet()) {
                out.append(before);
                writeString(field.getKey().toString(), out);
                out.append(':');
                write(field.getValue(), out);
                before = ",";
            }
            out.append(object.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> list) {
            String before = "[";
            for (Object element : list) {
                out.append(before);
                write(element, out);
                before = ",";
            }
            out.append(list.isEmpty() ? "[]" : "]");
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            writeString(value.toString(), out);
        }
    }

    private static void writeString(String text, StringBuilder out) {
        out.append('"');
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                out.append('\\').append(letter);
            } else if (letter < ' ') {
                out.append(String.format("\\u%04x", (int) letter));
            } else {
                out.append(letter);
            }
        }
        out.append('"');
    }
}
