import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What every Java client from 2.1 on can do: a few admin calls, produce with each codec, a transaction, consume in a
 * group. Uses only what has been in the API since then, so that one file drives old and new jars.
 *
 * <p>java -cp 'JARS/*' Clients.java BOOTSTRAP TOPIC
 */
public class Clients {
    static final long FIRST_TIMESTAMP_MS = 1_700_000_000_000L;
    static final int RECORDS = 5;

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String topic = args[1];
        step("create", () -> create(bootstrap, topic));
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            step("produce " + codec, () -> produce(bootstrap, topic, codec, "all"));
        }
        step("produce acks=0", () -> produce(bootstrap, topic, "none", "0"));
        step("produce acks=1", () -> produce(bootstrap, topic, "none", "1"));
        step("transaction", () -> transaction(bootstrap, topic));
        step("consume", () -> consume(bootstrap, topic));
        step("administrate", () -> administrate(bootstrap, topic));
        System.exit(0);
    }

    interface Step {
        void run() throws Exception;
    }

    /** A step that a version does not allow must not keep the others from being heard. */
    static void step(String name, Step step) {
        try {
            step.run();
        } catch (Throwable problem) {
            System.out.println(name + ": " + problem);
        }
    }

    static Properties settings(String bootstrap, String clientId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        settings.put("request.timeout.ms", "8000");
        return settings;
    }

    static AdminClient admin(String bootstrap) {
        return AdminClient.create(settings(bootstrap, "golden-admin"));
    }

    static void create(String bootstrap, String topic) throws Exception {
        try (AdminClient admin = admin(bootstrap)) {
            NewTopic wanted = new NewTopic(topic, 2, (short) 1).configs(Map.of("segment.bytes", "1048576"));
            admin.createTopics(List.of(wanted)).all().get(20, TimeUnit.SECONDS);
        }
    }

    /** Record i: key-i (none for i = 3), value-i (none for i = 4), headers on the even ones, one millisecond apart. */
    static ProducerRecord<byte[], byte[]> record(String topic, int i) {
        RecordHeaders headers = new RecordHeaders();
        if (i % 2 == 0) {
            headers.add("number", bytes(Integer.toString(i)));
            headers.add("nothing", null);
        }
        byte[] key = i == 3 ? null : bytes("key-" + i);
        byte[] value = i == 4 ? null : bytes(("value-" + i + " ").repeat(4));
        return new ProducerRecord<>(topic, 0, FIRST_TIMESTAMP_MS + i, key, value, headers);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static KafkaProducer<byte[], byte[]> producer(Properties settings) {
        settings.put("linger.ms", "300");
        settings.put("delivery.timeout.ms", "10000");
        settings.put("max.block.ms", "8000");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static void produce(String bootstrap, String topic, String codec, String acks) throws Exception {
        Properties settings = settings(bootstrap, "golden-" + (acks.equals("all") ? codec : "acks-" + acks));
        settings.put("compression.type", codec);
        settings.put("acks", acks);
        settings.put("enable.idempotence", acks.equals("all") ? "true" : "false");
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            for (int i = 0; i < RECORDS; i++) {
                producer.send(record(topic, i));
            }
            producer.flush();
        }
    }

    static void transaction(String bootstrap, String topic) throws Exception {
        Properties settings = settings(bootstrap, "golden-transactional");
        settings.put("transactional.id", "golden-" + topic);
        settings.put("transaction.timeout.ms", "20000");
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(topic, 0)).get(10, TimeUnit.SECONDS);
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(record(topic, 1)).get(10, TimeUnit.SECONDS);
            producer.abortTransaction();
        }
    }

    static void consume(String bootstrap, String topic) throws Exception {
        Properties settings = settings(bootstrap, "golden-consumer");
        settings.put("group.id", "golden-" + topic);
        settings.put("auto.offset.reset", "earliest");
        settings.put("heartbeat.interval.ms", "300");
        settings.put("isolation.level", "read_committed");
        settings.put("fetch.max.wait.ms", "200");
        settings.put("enable.auto.commit", "false");
        settings.put("default.api.timeout.ms", "8000");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            int seen = 0;
            for (int i = 0; i < 12; i++) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(400));
                seen += records.count();
            }
            System.out.println("consumed " + seen);
            consumer.commitSync();
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.endOffsets(List.of(partition));
            consumer.offsetsForTimes(Collections.singletonMap(partition, FIRST_TIMESTAMP_MS + 2));
        }
    }

    static void administrate(String bootstrap, String topic) {
        String group = "golden-" + topic;
        try (AdminClient admin = admin(bootstrap)) {
            step("topics", () -> admin.listTopics().names().get(8, TimeUnit.SECONDS));
            step("cluster", () -> admin.describeCluster().nodes().get(8, TimeUnit.SECONDS));
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            step("configs", () -> admin.describeConfigs(List.of(resource)).all().get(8, TimeUnit.SECONDS));
            Map<String, NewPartitions> more = new HashMap<>(Map.of(topic, NewPartitions.increaseTo(3)));
            step("partitions", () -> admin.createPartitions(more).all().get(8, TimeUnit.SECONDS));
            step("acls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get(8, TimeUnit.SECONDS));
            step("groups", () -> admin.listConsumerGroups().all().get(8, TimeUnit.SECONDS));
            step("group", () -> admin.describeConsumerGroups(List.of(group)).all().get(8, TimeUnit.SECONDS));
            step("offsets", () -> admin.listConsumerGroupOffsets(group)
                    .partitionsToOffsetAndMetadata().get(8, TimeUnit.SECONDS));
            step("forget", () -> admin.deleteConsumerGroups(List.of(group)).all().get(8, TimeUnit.SECONDS));
            step("delete", () -> admin.deleteTopics(List.of(topic)).all().get(8, TimeUnit.SECONDS));
        }
    }
}
