import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Scanner;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Lines in, lines out: "name HEX" is a DER name, "rule BASE64 BASE64" are mapping rules and a subject. */
public class SslNames {
    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in, StandardCharsets.UTF_8);
        while (in.hasNextLine()) {
            String[] words = in.nextLine().split(" ", -1);
            String answer;
            try {
                answer = words[0].equals("name")
                    ? new X500Principal(HexFormat.of().parseHex(words[1])).getName()
                    : SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
                answer = "=" + Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8));
            } catch (Exception problem) {
                answer = "!" + problem.getClass().getSimpleName();
            }
            System.out.println(answer);
        }
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }
}
