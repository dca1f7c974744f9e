// Reads lines "Message version hex" and prints those that Kafka's own classes read and write again byte for byte.
// Anything else is reported and ends the run. See README.md beside this file.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public class SeenByKafka {
    public static void main(String[] arguments) throws Exception {
        System.out.println("# Message, version, bytes: read and written again by Kafka's own classes without a difference.");
        System.out.println("# Made by generate/SeenByKafka.java.");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        int seen = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            if (words.length != 3 || !words[0].matches("\\w+(Request|Response)")) {
                continue; // what the test runner itself prints
            }
            check(words[0], Short.parseShort(words[1]), words[2]);
            System.out.println(line);
            seen++;
        }
        if (seen == 0) {
            throw new IllegalStateException("no samples on standard input");
        }
    }

    private static void check(String name, short version, String hex) throws Exception {
        Message message = (Message) Class.forName("org.apache.kafka.common.message." + name + "Data")
            .getDeclaredConstructor().newInstance();
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        message.read(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining()) {
            throw new IllegalStateException(name + " " + version + ": " + bytes.remaining() + " bytes left over");
        }
        ByteBuffer again = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] rewritten = new byte[again.remaining()];
        again.get(rewritten);
        String rewrittenHex = HexFormat.of().formatHex(rewritten);
        if (!rewrittenHex.equals(hex)) {
            throw new IllegalStateException(name + " " + version + ": read " + hex + " wrote " + rewrittenHex);
        }
    }
}
