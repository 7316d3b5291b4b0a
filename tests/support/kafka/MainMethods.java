import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs main methods of Kafka's tools one after the other, each with its own standard streams and exit code. See one_jvm.py.
 *
 * A request is the number of its texts, each text (the class, the arguments, the standard input) after its length; the
 * response is the exit code, and the output and the errors, each after its length.
 */
public final class MainMethods {
    /** Thrown where a tool would have ended its process. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    private Integer code;
    private final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] arguments) throws IOException {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream responses = new DataOutputStream(System.out);
        while (true) {
            List<byte[]> texts = new ArrayList<>();
            try {
                for (int left = requests.readInt(); left > 0; left--) {
                    texts.add(requests.readNBytes(requests.readInt()));
                }
            } catch (EOFException ended) {
                // Threads that a tool left behind would keep the process.
                System.exit(0);
            }
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            InputStream given = new ByteArrayInputStream(texts.remove(texts.size() - 1));
            String[] words = texts.stream().map(String::new).toArray(String[]::new);
            responses.writeInt(new MainMethods().run(words, given, new PrintStream(output), new PrintStream(errors)));
            for (ByteArrayOutputStream each : List.of(output, errors)) {
                responses.writeInt(each.size());
                each.writeTo(responses);
            }
            responses.flush();
        }
    }

    private int run(String[] words, InputStream given, PrintStream output, PrintStream errors) {
        System.setIn(given);
        System.setOut(output);
        System.setErr(errors);
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        try {
            String[] arguments = Arrays.copyOfRange(words, 1, words.length);
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
                code = code == null ? 1 : code;
            }
        } catch (ReflectiveOperationException unknown) {
            unknown.printStackTrace();
            code = 1;
        }
        System.setOut(output);
        System.setErr(errors);
        hooks.forEach(Runnable::run);
        output.flush();
        errors.flush();
        return code == null ? 0 : code;
    }

    private void end(int status) {
        // The first call would have ended the process, and a tool may catch what is thrown in its place.
        code = code == null ? status : code;
        System.setOut(new PrintStream(PrintStream.nullOutputStream()));
        System.setErr(System.out);
        throw new Ended();
    }
}
