import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs many commands of Apache Kafka's tools in one virtual machine, each as if it had one of its own.
 *
 * Input: a line for each command: main class, standard input, and the words, with tabs between them; \t, \n and \\ are
 * escaped. Output: for each command its exit code, what it printed and what it printed as errors, with lengths.
 */
public class ToolDriver {
    static final class Ended extends RuntimeException {
        Ended() {
            super("the command has ended", null, false, false);
        }
    }

    static int code;
    static boolean ended;
    static byte[] out, err;
    static final List<Runnable> hooks = new ArrayList<>();
    static ByteArrayOutputStream outBuffer, errBuffer;

    public static void main(String[] arguments) throws Exception {
        DataOutputStream answers = new DataOutputStream(System.out);
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            for (int i = 0; i < words.length; i++) words[i] = unescaped(words[i]);
            String[] rest = new String[words.length - 2];
            System.arraycopy(words, 2, rest, 0, rest.length);
            run(words[0], words[1], rest);
            answers.writeInt(code);
            answers.writeInt(out.length);
            answers.writeInt(err.length);
            answers.write(out);
            answers.write(err);
            answers.flush();
        }
    }

    static void run(String mainClass, String input, String[] words) throws Exception {
        ended = false;
        outBuffer = new ByteArrayOutputStream();
        errBuffer = new ByteArrayOutputStream();
        System.setOut(new PrintStream(outBuffer, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errBuffer, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) words);
            finish(0);
        } catch (InvocationTargetException e) {
            if (!ended) {
                System.err.print("Exception in thread \"main\" ");
                e.getCause().printStackTrace();
                finish(1);
            }
        }
    }

    /** The first end counts: some tools catch everything, this end too, and end once more. */
    static void end(int status) {
        finish(status);
        throw new Ended();
    }

    static void finish(int status) {
        if (!ended) {
            ended = true;
            code = status;
            hooks.forEach(Runnable::run);
            hooks.clear();
            System.out.flush();
            System.err.flush();
            out = outBuffer.toByteArray();
            err = errBuffer.toByteArray();
        }
    }

    static String unescaped(String text) {
        StringBuilder found = new StringBuilder();
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            if (each == '\\' && i + 1 < text.length()) {
                char next = text.charAt(++i);
                found.append(next == 't' ? '\t' : next == 'n' ? '\n' : next);
            } else {
                found.append(each);
            }
        }
        return found.toString();
    }
}
