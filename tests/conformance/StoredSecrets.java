import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Scanner;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.security.PasswordEncoder;

/**
 * Kafka 3.9's encoder of secrets in ZooKeeper, line by line: "encode SECRET FACTORY CIPHER BITS ITERATIONS PASSWORD"
 * and "decode SECRET CIPHER TEXT", all but the numbers in Base64; FACTORY may be "-". Answers a line each. Kafka reads
 * only what was encoded with the kind of cipher that it is set to.
 */
public class StoredSecrets {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            Password secret = new Password(text(words[1]));
            if (words[0].equals("encode")) {
                String factory = words[2].equals("-") ? null : text(words[2]);
                PasswordEncoder encoder = PasswordEncoder.encrypting(
                    secret, factory, text(words[3]), Integer.parseInt(words[4]), Integer.parseInt(words[5]));
                System.out.println(encoder.encode(new Password(text(words[6]))));
            } else {
                PasswordEncoder encoder = PasswordEncoder.encrypting(secret, null, text(words[2]), 128, 4096);
                byte[] found = encoder.decode(text(words[3])).value().getBytes(StandardCharsets.UTF_8);
                System.out.println(Base64.getEncoder().encodeToString(found));
            }
        }
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }
}
