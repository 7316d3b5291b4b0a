import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.internals.DefaultKafkaClientSupplier;
import org.apache.kafka.streams.state.Stores;

/**
 * One instance of an application of Kafka Streams that counts words exactly once; see instances.py beside this file.
 *
 * <p>Each record of the source is a word. Its count so far goes to the target, for every record: nothing is cached. The
 * words are grouped by themselves, so they pass through a repartition topic, and the counts are in a changelog topic.
 */
public final class WordCounter {
    private static final Duration REPORT_PERIOD = Duration.ofMillis(200);
    private static final Duration CLOSE_DEADLINE = Duration.ofSeconds(30);
    private static final String COUNTS = "counts";

    private final Map<String, String> options;
    private final AtomicInteger handled = new AtomicInteger();
    private final KafkaStreams streams;
    private final CountDownLatch failed = new CountDownLatch(1);

    private WordCounter(Map<String, String> options) {
        this.options = options;
        this.streams = new KafkaStreams(topology(), settings(), new Clients());
        streams.setStateListener((now, before) -> tell("state", ",\"state\":\"" + now + "\""));
        streams.setUncaughtExceptionHandler(thrown -> {
            thrown.printStackTrace();
            tell("failed", ",\"error\":\"" + text(thrown) + "\"");
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    }

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> options = new HashMap<>();
        for (int index = 0; index < arguments.length; index += 2) {
            options.put(arguments[index], arguments[index + 1]);
        }
        Thread reader = new Thread(WordCounter::endWithStarter);
        reader.setDaemon(true);
        reader.start();
        new WordCounter(options).run();
    }

    /** Ends when the input does: it is open as long as the process that started this one runs. */
    private static void endWithStarter() {
        try {
            System.in.readAllBytes();
        } catch (IOException failed) {
            failed.printStackTrace();
        }
        Runtime.getRuntime().halt(1);
    }

    private void run() throws InterruptedException {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (!streams.close(CLOSE_DEADLINE)) {
                Runtime.getRuntime().halt(1);
            }
        }));
        streams.start();
        String reported = "";
        while (!failed.await(REPORT_PERIOD.toMillis(), TimeUnit.MILLISECONDS)) {
            String facts = ",\"words\":" + handled.get() + ",\"tasks\":" + activeTasks();
            if (!facts.equals(reported)) {
                tell("handled", facts);
            }
            reported = facts;
        }
        Runtime.getRuntime().halt(1);
    }

    private int activeTasks() {
        int found = 0;
        for (ThreadMetadata each : streams.metadataForLocalThreads()) {
            found += each.activeTasks().size();
        }
        return found;
    }

    private Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(options.get("--source"), Consumed.with(Serdes.Bytes(), Serdes.String()))
                .peek((key, word) -> handled.incrementAndGet())
                .groupBy((key, word) -> word, Grouped.with("by-word", Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore(COUNTS))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .peek((word, count) -> handled.incrementAndGet())
                .to(options.get("--target"), Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("application.id", options.get("--application"));
        settings.put("bootstrap.servers", options.get("--servers"));
        settings.put("client.id", options.get("--name"));
        settings.put("state.dir", options.get("--state"));
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("num.standby.replicas", options.get("--standbys"));
        settings.put("auto.offset.reset", "earliest");
        // Streams waits as long as 30 s otherwise until it deletes the records of a repartition topic that it has read.
        settings.put("repartition.purge.interval.ms", "1000");
        settings.put("transaction.timeout.ms", options.get("--transaction-timeout-ms"));
        String protocol = options.get("--protocol");
        if (protocol.isEmpty()) {
            settings.put("session.timeout.ms", options.get("--session-ms"));
            settings.put("heartbeat.interval.ms", Integer.toString(Integer.parseInt(options.get("--session-ms")) / 6));
        } else {
            settings.put("group.protocol", protocol);
        }
        return settings;
    }

    /** Kafka's clients, as Streams makes them itself. */
    private static final class Clients extends DefaultKafkaClientSupplier {
        @Override
        public Producer<byte[], byte[]> getProducer(Map<String, Object> settings) {
            tell("producer", ",\"transactional_id\":\"" + settings.get("transactional.id") + "\"");
            return super.getProducer(settings);
        }
    }

    private static String text(Throwable thrown) {
        return thrown.toString().replaceAll("[^ -~]", " ").replace("\\", "/").replace('"', '\'');
    }

    private static void tell(String event, String facts) {
        // Linux: the clock of Python's time.monotonic().
        System.out.println("{\"at_s\":" + System.nanoTime() / 1e9 + ",\"event\":\"" + event + "\"" + facts + "}");
        System.out.flush();
    }
}
