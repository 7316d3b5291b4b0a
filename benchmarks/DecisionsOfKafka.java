import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's StandardAuthorizer with many ACLs, alone in a JVM. Its arguments are a file of ACLs and one of questions, with a
 * line for each; see kafka_acls.py. It prints the time of a load in s, the memory in bytes, the time of a decision in us at
 * first and once it is compiled, and then a letter for each question: A if it is allowed, D if not.
 */
public final class DecisionsOfKafka {
    private static final int ROUNDS_OF_WARM_UP = 10;

    private DecisionsOfKafka() {
    }

    public static void main(String[] arguments) throws IOException {
        Map<Uuid, StandardAcl> acls = acls(Files.readAllLines(Path.of(arguments[0])));
        long began = cpuNs();
        StandardAuthorizer authorizer = new StandardAuthorizer();
        Plugin.wrapInstance(authorizer, new Metrics(), "authorizer.class.name");
        authorizer.configure(Map.of());
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        double loadSeconds = (cpuNs() - began) / 1e9;
        List<Asked> questions = questions(Files.readAllLines(Path.of(arguments[1])));
        StringBuilder decided = new StringBuilder();
        double first = decide(authorizer, questions, decided);
        for (int round = 0; round < ROUNDS_OF_WARM_UP; round++) {
            decide(authorizer, questions, new StringBuilder());
        }
        double compiled = decide(authorizer, questions, new StringBuilder());
        acls = null;
        long held = used();
        authorizer = null;
        held -= used();
        System.out.printf("%.3f %d %.3f %.3f %s%n", loadSeconds, held, first, compiled, decided);
    }

    private static double decide(StandardAuthorizer authorizer, List<Asked> questions, StringBuilder decided) {
        long began = cpuNs();
        for (Asked each : questions) {
            AuthorizationResult result = authorizer.authorize(each, each.actions).get(0);
            decided.append(result == AuthorizationResult.ALLOWED ? 'A' : 'D');
        }
        return (cpuNs() - began) / 1e3 / questions.size();
    }

    private static Map<Uuid, StandardAcl> acls(List<String> lines) {
        Map<Uuid, StandardAcl> found = new LinkedHashMap<>();
        for (String line : lines) {
            String[] field = line.split("\t");
            found.put(Uuid.randomUuid(), new StandardAcl(ResourceType.fromString(field[0]), field[1],
                    PatternType.fromString(field[2]), field[3], field[4], AclOperation.fromString(field[5]),
                    AclPermissionType.fromString(field[6])));
        }
        return found;
    }

    private static List<Asked> questions(List<String> lines) throws UnknownHostException {
        List<Asked> found = new ArrayList<>();
        for (String line : lines) {
            String[] field = line.split("\t");
            ResourcePattern resource =
                    new ResourcePattern(ResourceType.fromString(field[3]), field[4], PatternType.LITERAL);
            found.add(new Asked(new KafkaPrincipal("User", field[0].substring("User:".length())),
                    InetAddress.getByName(field[1]),
                    List.of(new Action(AclOperation.fromString(field[2]), resource, 1, true, true))));
        }
        return found;
    }

    private static long cpuNs() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    private static long used() {
        for (int round = 0; round < 3; round++) {
            System.gc();
        }
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private record Asked(KafkaPrincipal principal, InetAddress clientAddress, List<Action> actions)
            implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "client";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
