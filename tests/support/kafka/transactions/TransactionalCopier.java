import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A worker that copies a topic in transactions with Kafka's own client; see work.py and options.py beside this file. */
public final class TransactionalCopier {
    private static final long DEADLINE_NS = 120_000_000_000L;
    private static final int ENDED = 3;
    private static final int READ_MAX = 50;
    private static final double ABORTED_SHARE = 0.15;

    private final Map<String, String> options;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final Random chance;

    private TransactionalCopier(Map<String, String> options) {
        this.options = options;
        this.chance = new Random((options.get("--name") + options.get("--run")).hashCode());
        this.consumer = new KafkaConsumer<>(consumerSettings(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        this.producer = new KafkaProducer<>(producerSettings(), new ByteArraySerializer(), new ByteArraySerializer());
    }

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> options = new HashMap<>();
        for (int index = 0; index < arguments.length; index += 2) {
            options.put(arguments[index], arguments[index + 1]);
        }
        Thread reader = new Thread(TransactionalCopier::endWithStarter);
        reader.setDaemon(true);
        reader.start();
        AtomicBoolean stopping = new AtomicBoolean();
        CountDownLatch stopped = new CountDownLatch(1);
        Thread onSignal = new Thread(() -> {
            stopping.set(true);
            try {
                stopped.await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        });
        Runtime.getRuntime().addShutdownHook(onSignal);
        int code = 0;
        try {
            new TransactionalCopier(options).run(stopping);
        } catch (ProducerFencedException | InvalidProducerEpochException | InvalidTxnStateException fenced) {
            // The last one: a commit after the transaction timed out.
            tell("failed", ",\"what\":\"producer\",\"error\":\"" + text(fenced) + "\"");
            code = ENDED;
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            code = 1;
        }
        if (code != 0) {
            // Its consumer does not leave the group, as that of a program that crashes.
            Runtime.getRuntime().halt(code);
        }
        stopped.countDown();
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

    private void run(AtomicBoolean stopping) {
        repeated(producer::initTransactions);
        consumer.subscribe(List.of(options.get("--source")));
        while (!stopping.get()) {
            Map<TopicPartition, OffsetAndMetadata> after = new HashMap<>();
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                records.add(each);
                after.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
            }
            if (!records.isEmpty()) {
                copy(records, after);
            }
        }
        producer.close();
        consumer.close();
    }

    private void copy(List<ConsumerRecord<byte[], byte[]>> records, Map<TopicPartition, OffsetAndMetadata> after) {
        boolean isDropped = chance.nextDouble() < ABORTED_SHARE;
        try {
            producer.beginTransaction();
            for (ConsumerRecord<byte[], byte[]> each : records) {
                int partition = each.partition() % Integer.parseInt(options.get("--partitions"));
                byte[] key = (each.partition() + ":" + each.offset()).getBytes();
                producer.send(new ProducerRecord<>(options.get("--target"), partition, key, each.value()));
            }
            producer.sendOffsetsToTransaction(after, consumer.groupMetadata());
            if (!isDropped) {
                long began = System.nanoTime();
                repeated(producer::commitTransaction);
                tell("committed", ",\"took_s\":" + (System.nanoTime() - began) / 1e9);
                return;
            }
        } catch (ProducerFencedException | InvalidProducerEpochException | InvalidTxnStateException fenced) {
            throw fenced;
        } catch (KafkaException failed) {
            tell("failed", ",\"what\":\"transaction\",\"error\":\"" + text(failed) + "\"");
        }
        repeated(producer::abortTransaction);
        tell("aborted", "");
        rewind();
    }

    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
        repeated(() -> committed.putAll(consumer.committed(consumer.assignment())));
        for (TopicPartition each : consumer.assignment()) {
            OffsetAndMetadata found = committed.get(each);
            consumer.seek(each, found == null ? 0 : found.offset());
        }
    }

    private static void repeated(Runnable call) {
        long until = System.nanoTime() + DEADLINE_NS;
        while (true) {
            try {
                call.run();
                return;
            } catch (RetriableException again) {
                if (System.nanoTime() - until > 0) {
                    throw again;
                }
            }
        }
    }

    private Properties consumerSettings() {
        Properties settings = commonSettings();
        settings.put("group.id", options.get("--group"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", Integer.toString(READ_MAX));
        settings.put("fetch.max.wait.ms", "100");
        settings.put("default.api.timeout.ms", "5000");
        if (options.get("--protocol").equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
            settings.put("session.timeout.ms", options.get("--session-ms"));
            settings.put("heartbeat.interval.ms", Integer.toString(Integer.parseInt(options.get("--session-ms")) / 6));
        }
        return settings;
    }

    private Properties producerSettings() {
        Properties settings = commonSettings();
        settings.put("transactional.id", options.get("--name"));
        settings.put("transaction.timeout.ms", options.get("--transaction-timeout-ms"));
        settings.put("max.block.ms", "5000");
        settings.put("linger.ms", "0");
        settings.put("delivery.timeout.ms", "60000");
        return settings;
    }

    private Properties commonSettings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("--servers"));
        settings.put("client.id", options.get("--name"));
        settings.put("metadata.max.age.ms", "1000");
        settings.put("request.timeout.ms", "4000");
        return settings;
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
