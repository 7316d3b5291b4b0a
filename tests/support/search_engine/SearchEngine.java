import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** A node of OpenSearch with its HTTP interface, from jars alone: OpenSearch is in Maven's repositories in parts. */
public class SearchEngine extends Node {
    private SearchEngine(Settings settings) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "engine"),
            List.of(Netty4Plugin.class),
            false
        );
    }

    /** Arguments: its directory, and the ports of HTTP and of its transport. */
    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", arguments[0])
            .put("http.port", arguments[1])
            .put("transport.port", arguments[2])
            .put("network.host", "127.0.0.1")
            .put("discovery.type", "single-node")
            .put("node.name", "engine")
            .put("cluster.name", "engine")
            .put("transport.type", "netty4")
            .put("http.type", "netty4")
            // The disk of a machine that runs tests may be nearly full.
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        new SearchEngine(settings).start();
        new CountDownLatch(1).await();
    }
}
