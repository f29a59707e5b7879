import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills the topics of the golden logs, and says what consumers read from them. Every flush makes one batch.
 *
 * <p>java -cp 'JARS/*' Logs.java BOOTSTRAP create SEGMENT_KEY | write | epochs ROUND | read | dump
 */
public class Logs {
    static final int BATCH_RECORDS = 10;
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final long FIRST_TIMESTAMP_MS = System.currentTimeMillis() - 3_600_000;
    static String bootstrap;
    static int written = 0;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        switch (args[1]) {
            case "create" -> create(args[2]);
            case "write" -> write();
            case "epochs" -> epochs(Integer.parseInt(args[2]));
            case "read" -> dump(false);
            case "dump" -> dump(true);
            default -> throw new IllegalArgumentException(args[1]);
        }
        System.exit(0); // the producer of the open transaction must not end it
    }

    static Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    // --- topics ------------------------------------------------------------------------------------------------------

    static void create(String segmentKey) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        topics.add(topic(segmentKey, "codecs", 1, Map.of()));
        topics.add(topic(segmentKey, "times", 1,
                Map.of("message.timestamp.type", "LogAppendTime", "compression.type", "zstd")));
        topics.add(topic(segmentKey, "transactions", 1, Map.of()));
        topics.add(topic(segmentKey, "open", 1, Map.of()));
        topics.add(topic(segmentKey, "trimmed", 1, Map.of()));
        topics.add(topic(segmentKey, "epochs", 2, Map.of()));
        // Tombstones stay in one compacted topic and go from the other.
        topics.add(topic(segmentKey, "compacted", 1, compacted("1000000000")));
        topics.add(topic(segmentKey, "forgotten", 1, compacted("0")));
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(topics).all().get();
        }
    }

    static Map<String, String> compacted(String deleteRetentionMs) {
        return Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01",
                "delete.retention.ms", deleteRetentionMs);
    }

    static NewTopic topic(String segmentKey, String name, int partitions, Map<String, String> own) {
        Map<String, String> configs = new HashMap<>(own);
        configs.put(segmentKey, "8192");
        configs.put("segment.index.bytes", "1200");
        configs.put("index.interval.bytes", "300");
        configs.put("retention.ms", "-1");
        return new NewTopic(name, partitions, (short) 1).configs(configs);
    }

    // --- records -----------------------------------------------------------------------------------------------------

    static KafkaProducer<byte[], byte[]> producer(Map<String, String> own) {
        Properties settings = settings();
        settings.put("linger.ms", "10000");
        settings.putAll(own);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaProducer<byte[], byte[]> transactional(String id, String codec) {
        KafkaProducer<byte[], byte[]> made = producer(Map.of(
                "transactional.id", id, "compression.type", codec, "transaction.timeout.ms", "900000000"));
        made.initTransactions();
        return made;
    }

    /** The i-th: some keys and values are null, some records have headers, and timestamps go back now and then. */
    static ProducerRecord<byte[], byte[]> record(String topic, int partition, int i) {
        RecordHeaders headers = new RecordHeaders();
        if (i % 3 == 0) {
            headers.add("number", bytes(Integer.toString(i)));
            headers.add("nothing", null);
        }
        byte[] key = i % 7 == 3 ? null : bytes("key-" + i);
        byte[] value = i % 11 == 4 ? null : bytes(("value-" + i + " ").repeat(3 + i % 9));
        return new ProducerRecord<>(topic, partition, timestamp(i), key, value, headers);
    }

    static long timestamp(int i) {
        return FIRST_TIMESTAMP_MS + 20L * i - 130L * (i % 5);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void batch(KafkaProducer<byte[], byte[]> producer, String topic, int partition) {
        for (int i = 0; i < BATCH_RECORDS; i++) {
            producer.send(record(topic, partition, written++));
        }
        producer.flush();
    }

    // --- what is written ---------------------------------------------------------------------------------------------

    static void write() throws Exception {
        codecs();
        times();
        transactions();
        for (String topic : List.of("compacted", "forgotten")) {
            keyed(topic);
        }
        trimmed();
        groups();
        open();
    }

    static void codecs() {
        for (int round = 0; round < 3; round++) {
            for (String codec : CODECS) {
                try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", codec))) {
                    batch(producer, "codecs", 0);
                    batch(producer, "codecs", 0);
                }
            }
        }
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("enable.idempotence", "false", "acks", "1"))) {
            batch(producer, "codecs", 0);
        }
    }

    static void times() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", "lz4"))) {
            for (int i = 0; i < 40; i++) {
                batch(producer, "times", 0);
                Thread.sleep(5);
            }
        }
    }

    /** Two producers with transactions and one without, in each other's way; every third transaction is aborted. */
    static void transactions() {
        try (KafkaProducer<byte[], byte[]> slow = transactional("slow", "none");
                KafkaProducer<byte[], byte[]> quick = transactional("quick", "snappy");
                KafkaProducer<byte[], byte[]> plain = producer(Map.of())) {
            for (int round = 0; round < 6; round++) {
                slow.beginTransaction();
                batch(slow, "transactions", 0);
                for (int inner = 0; inner < 3; inner++) {
                    quick.beginTransaction();
                    batch(quick, "transactions", 0);
                    end(quick, (round + inner) % 3 != 0);
                    batch(plain, "transactions", 0);
                }
                batch(slow, "transactions", 0);
                end(slow, round % 3 != 1);
            }
        }
    }

    static void end(KafkaProducer<byte[], byte[]> producer, boolean commit) {
        if (commit) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    /** Few keys written again and again, some deleted, some in transactions that are given up. */
    static void keyed(String topic) {
        try (KafkaProducer<byte[], byte[]> producer = transactional("keyed-" + topic, "zstd");
                KafkaProducer<byte[], byte[]> plain = producer(Map.of())) {
            for (int round = 0; round < 24; round++) {
                producer.beginTransaction();
                update(producer, topic, round);
                end(producer, round % 4 != 2);
                update(plain, topic, round + 100);
            }
        }
    }

    static void update(KafkaProducer<byte[], byte[]> producer, String topic, int round) {
        for (int i = 0; i < BATCH_RECORDS; i++) {
            byte[] key = bytes("key-" + (round * 7 + i * 13) % 60);
            byte[] value = (round + i) % 6 == 0 ? null : bytes(("round-" + round + " ").repeat(8));
            producer.send(new ProducerRecord<>(topic, 0, timestamp(written++), key, value));
        }
        producer.flush();
    }

    static void trimmed() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of()); Admin admin = Admin.create(settings())) {
            for (int i = 0; i < 30; i++) {
                batch(producer, "trimmed", 0);
            }
            TopicPartition partition = new TopicPartition("trimmed", 0);
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(137))).all().get();
        }
    }

    /** Offsets committed plainly and in transactions, for the content of the two internal topics. */
    static void groups() {
        TopicPartition partition = new TopicPartition("codecs", 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("group.id", "golden-group"))) {
            consumer.subscribe(List.of("codecs"));
            for (int i = 0; i < 20 && consumer.poll(Duration.ofMillis(500)).isEmpty(); i++) { }
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(5, "five")));
            try (KafkaProducer<byte[], byte[]> producer = transactional("offsets", "none")) {
                for (int i = 6; i < 9; i++) {
                    producer.beginTransaction();
                    batch(producer, "transactions", 0);
                    producer.sendOffsetsToTransaction(
                            Map.of(partition, new OffsetAndMetadata(i)), consumer.groupMetadata());
                    end(producer, i != 7);
                }
            }
        }
    }

    /** One transaction stays open; what others commit after its start is not yet for readers of committed records. */
    static void open() {
        try (KafkaProducer<byte[], byte[]> producer = transactional("ended", "none")) {
            producer.beginTransaction();
            batch(producer, "open", 0);
            producer.commitTransaction();
            KafkaProducer<byte[], byte[]> left = transactional("left-open", "gzip");
            left.beginTransaction();
            batch(left, "open", 0);
            for (int i = 0; i < 12; i++) {
                producer.beginTransaction();
                batch(producer, "open", 0);
                end(producer, i % 2 == 0);
            }
            batch(left, "open", 0);
        }
    }

    /** After every restart of the broker the same, so that each leader has records. */
    static void epochs(int round) {
        written = 1000 * (round + 1);
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (int i = 0; i < 5; i++) {
                batch(producer, "epochs", 0);
                batch(producer, "epochs", 1);
            }
            batch(producer, "codecs", 0);
            for (int i = 0; i < 12; i++) {
                update(producer, "forgotten", 200 + 10 * round + i);
            }
        }
    }

    // --- what is read ------------------------------------------------------------------------------------------------

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, String> own) {
        Properties settings = settings();
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", "20");
        settings.putAll(own);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Every record at both isolation levels, and if wanted the answers to questions by time. */
    static void dump(boolean withTimes) throws Exception {
        Collection<TopicPartition> partitions = partitions();
        for (String isolation : List.of("read_uncommitted", "read_committed")) {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("isolation.level", isolation))) {
                for (TopicPartition partition : partitions) {
                    dump(consumer, partition, isolation, withTimes && isolation.equals("read_uncommitted"));
                }
            }
        }
    }

    static Collection<TopicPartition> partitions() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            var names = new TreeSet<>(admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get());
            return admin.describeTopics(names).allTopicNames().get().values().stream()
                    .flatMap(each -> each.partitions().stream().map(one -> new TopicPartition(each.name(), one.partition())))
                    .collect(Collectors.toList());
        }
    }

    static void dump(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, String isolation,
            boolean withTimes) throws Exception {
        consumer.assign(List.of(partition));
        consumer.seekToBeginning(List.of(partition));
        long start = consumer.position(partition);
        long end = consumer.endOffsets(List.of(partition)).get(partition);
        say(partition, isolation, "bounds", start + ", " + end);
        List<Long> times = new ArrayList<>();
        while (consumer.position(partition) < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                say(partition, isolation, "record", record(record));
                if (record.offset() % 25 == 0) {
                    times.add(record.timestamp());
                }
            }
        }
        if (withTimes) {
            for (long time : times) {
                for (long asked = time - 1; asked <= time + 1; asked++) {
                    say(partition, isolation, "time", time(consumer, partition, asked));
                }
            }
            say(partition, isolation, "latest", latest(partition));
        }
    }

    static String record(ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add("[\"" + header.key() + "\", " + quoted(header.value()) + "]");
        }
        return record.offset() + ", " + record.timestamp() + ", " + quoted(record.key()) + ", "
                + quoted(record.value()) + ", [" + String.join(", ", headers) + "], " + record.leaderEpoch().orElse(-1);
    }

    static String time(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long asked) {
        var found = consumer.offsetsForTimes(Map.of(partition, asked)).get(partition);
        return asked + ", " + (found == null ? "null" : "[" + found.timestamp() + ", " + found.offset() + ", "
                + found.leaderEpoch().orElse(-1) + "]");
    }

    static String latest(TopicPartition partition) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            var found = admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get();
            return found.timestamp() + ", " + found.offset() + ", " + found.leaderEpoch().orElse(-1);
        }
    }

    static String quoted(byte[] content) {
        return content == null ? "null" : '"' + Base64.getEncoder().encodeToString(content) + '"';
    }

    /** One line of JSON: [partition, isolation, kind, facts...]. */
    static void say(TopicPartition partition, String isolation, String kind, String facts) {
        System.out.println("[\"" + partition + "\", \"" + isolation + "\", \"" + kind + "\", " + facts + "]");
    }
}
