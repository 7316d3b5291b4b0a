import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's own client, logged in: it creates a topic, produces, commits a transaction, aborts another, and prints what it reads
 * in a group. Its arguments are a file with settings, the topic, the values, and at last those of the two transactions; see
 * clients.py.
 */
public final class LoggedInClient {
    private static final long DEADLINE_NS = 60_000_000_000L;
    private static final String TOKEN_URL = "sasl.oauthbearer.token.endpoint.url";

    private LoggedInClient() {
    }

    public static void main(String[] arguments)
            throws IOException, ExecutionException, InterruptedException, TimeoutException {
        Properties settings = new Properties();
        try (Reader file = new FileReader(arguments[0])) {
            settings.load(file);
        }
        if (settings.containsKey(TOKEN_URL)) {
            // Kafka's client reads a file only if a property of the whole JVM allows it.
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", settings.getProperty(TOKEN_URL));
        }
        String topic = arguments[1];
        List<String> values = List.of(arguments).subList(2, arguments.length);
        int plain = values.size() - 2;
        try (Admin admin = Admin.create(settings)) {
            NewTopic created = new NewTopic(topic, Optional.of(1), Optional.of((short) 1));
            admin.createTopics(List.of(created)).all().get(DEADLINE_NS, TimeUnit.NANOSECONDS);
        }
        try (KafkaProducer<String, String> producer = producer(settings, null)) {
            for (String value : values.subList(0, plain)) {
                producer.send(new ProducerRecord<>(topic, value)).get(DEADLINE_NS, TimeUnit.NANOSECONDS);
            }
        }
        try (KafkaProducer<String, String> producer = producer(settings, topic)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, values.get(plain)));
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, values.get(plain + 1))).get(DEADLINE_NS, TimeUnit.NANOSECONDS);
            producer.abortTransaction();
        }
        read(settings, topic, plain + 1);
    }

    private static KafkaProducer<String, String> producer(Properties settings, String transactionalId) {
        Properties own = new Properties();
        own.putAll(settings);
        if (transactionalId != null) {
            own.put("transactional.id", transactionalId);
        }
        return new KafkaProducer<>(own, new StringSerializer(), new StringSerializer());
    }

    private static void read(Properties settings, String topic, int count) {
        Properties own = new Properties();
        own.putAll(settings);
        own.put("group.id", topic);
        own.put("auto.offset.reset", "earliest");
        own.put("isolation.level", "read_committed");
        long until = System.nanoTime() + DEADLINE_NS;
        StringDeserializer texts = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(own, texts, texts)) {
            consumer.subscribe(List.of(topic));
            int left = count;
            while (left > 0 && System.nanoTime() < until) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(500))) {
                    System.out.println(each.value());
                    left--;
                }
            }
            consumer.commitSync();
        }
    }
}
