import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What only a 4.3 Java client does: all three group protocols with two members each, offsets inside a transaction,
 * fetching from a stated leader epoch, and the admin calls about groups while the groups live.
 *
 * <p>java -cp 'CLASSES:JARS/*' Groups BOOTSTRAP TOPIC [dynamic] [classic|consumer|share]...
 * With "dynamic" no member is static, for versions that do not know static members.
 */
public class Groups {
    final String bootstrap;
    final String topic;
    final boolean staticMembers;

    Groups(String bootstrap, String topic, boolean staticMembers) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.staticMembers = staticMembers;
    }

    public static void main(String[] args) throws Exception {
        Groups groups = new Groups(args[0], args[1], !List.of(args).contains("dynamic"));
        Clients.step("create", () -> Clients.create(args[0], args[1]));
        Clients.step("produce", () -> Clients.produce(args[0], args[1], "none", "all"));
        for (String protocol : List.of(args).subList(2, args.length)) {
            if (protocol.equals("dynamic")) {
                continue;
            }
            if (protocol.equals("share")) {
                Clients.step("share", groups::share);
            } else {
                Clients.step(protocol, () -> groups.consume(protocol));
                Clients.step("transaction", () -> groups.transaction(protocol));
            }
        }
        System.exit(0);
    }

    Admin admin() {
        return Admin.create(Clients.settings(bootstrap, "golden-admin"));
    }

    Properties consumerSettings(String protocol, String name) {
        Properties settings = Clients.settings(bootstrap, "golden-" + protocol + "-" + name);
        settings.put("group.id", topic + "-" + protocol);
        settings.put("fetch.max.wait.ms", "200");
        settings.put("default.api.timeout.ms", "8000");
        if (protocol.equals("share")) {
            settings.put("share.acknowledgement.mode", "explicit");
            return settings;
        }
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("client.rack", "rack-a");
        settings.put("enable.auto.commit", "false");
        settings.put("metadata.max.age.ms", "2000");
        if (protocol.equals("classic")) {
            settings.put("heartbeat.interval.ms", "200");
        }
        if (name.equals("static") && staticMembers) {
            settings.put("group.instance.id", "static-1");
        }
        return settings;
    }

    KafkaConsumer<byte[], byte[]> consumer(String protocol, String name) {
        return new KafkaConsumer<>(
                consumerSettings(protocol, name), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    void consume(String protocol) throws Exception {
        var first = consumer(protocol, "member");
        var second = consumer(protocol, "static");
        first.subscribe(List.of(topic));
        if (protocol.equals("consumer")) {
            second.subscribe(new SubscriptionPattern(topic + ".*"));
        } else {
            second.subscribe(List.of(topic));
        }
        for (int i = 0; i < 30; i++) {
            first.poll(Duration.ofMillis(100));
            second.poll(Duration.ofMillis(100));
        }
        var partition = new TopicPartition(topic, 0);
        Clients.step("commit", () -> first.commitSync());
        Clients.step("commit with metadata", () -> second.commitSync(Map.of(
                partition, new OffsetAndMetadata(2, Optional.of(0), "noted"))));
        Clients.step("committed", () -> first.committed(Set.of(partition)));
        Clients.step("times", () -> first.offsetsForTimes(Map.of(partition, Clients.FIRST_TIMESTAMP_MS)));
        Clients.step("epoch", () -> seekWithEpoch(first, second));
        Clients.step("admin", () -> describe(protocol));
        first.close();
        second.close();
        Clients.step("admin after", () -> change(protocol));
    }

    /** A position with a leader epoch makes the client ask OffsetForLeaderEpoch before it fetches on. */
    void seekWithEpoch(KafkaConsumer<byte[], byte[]> first, KafkaConsumer<byte[], byte[]> second) {
        for (var consumer : List.of(first, second)) {
            for (var partition : consumer.assignment()) {
                consumer.seek(partition, new OffsetAndMetadata(0, Optional.of(0), ""));
            }
            consumer.poll(Duration.ofMillis(600));
        }
    }

    void describe(String protocol) throws Exception {
        String group = topic + "-" + protocol;
        try (Admin admin = admin()) {
            Clients.step("groups", () -> admin.listGroups().all().get(8, TimeUnit.SECONDS));
            Clients.step("describe", () -> admin.describeConsumerGroups(List.of(group)).all().get(8, TimeUnit.SECONDS));
            Clients.step("describe classic", () ->
                    admin.describeClassicGroups(List.of(group)).all().get(8, TimeUnit.SECONDS));
            Clients.step("offsets", () -> admin.listConsumerGroupOffsets(Map.of(
                    group, new ListConsumerGroupOffsetsSpec(),
                    "nobody",
                            new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(new TopicPartition(topic, 1)))))
                    .all().get(8, TimeUnit.SECONDS));
            Clients.step("remove member", () -> admin.removeMembersFromConsumerGroup(
                    group, new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("static-1"))))
                    .all().get(8, TimeUnit.SECONDS));
        }
    }

    void change(String protocol) throws Exception {
        String group = topic + "-" + protocol;
        var partition = new TopicPartition(topic, 0);
        try (Admin admin = admin()) {
            Clients.step("alter offsets", () -> admin.alterConsumerGroupOffsets(
                    group, Map.of(partition, new OffsetAndMetadata(1))).all().get(8, TimeUnit.SECONDS));
            Clients.step("delete offsets", () ->
                    admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get(8, TimeUnit.SECONDS));
            Clients.step("delete group", () ->
                    admin.deleteConsumerGroups(List.of(group)).all().get(8, TimeUnit.SECONDS));
        }
    }

    void transaction(String protocol) throws Exception {
        Properties settings = Clients.settings(bootstrap, "golden-transactional");
        settings.put("transactional.id", topic + "-" + protocol);
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(settings);
                KafkaConsumer<byte[], byte[]> consumer = consumer(protocol, "exactly-once")) {
            consumer.subscribe(List.of(topic));
            for (int i = 0; i < 15; i++) {
                consumer.poll(Duration.ofMillis(100));
            }
            producer.initTransactions();
            for (boolean commit : List.of(true, false)) {
                producer.beginTransaction();
                producer.send(Clients.record(topic, 0)).get(8, TimeUnit.SECONDS);
                Map<TopicPartition, OffsetAndMetadata> offsets =
                        Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1, "inside"));
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                Clients.step("transactions", this::describeTransactions);
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    void describeTransactions() throws Exception {
        try (Admin admin = admin()) {
            admin.listTransactions().all().get(8, TimeUnit.SECONDS);
            admin.describeProducers(List.of(new TopicPartition(topic, 0))).all().get(8, TimeUnit.SECONDS);
            for (String id : List.of(topic + "-classic", topic + "-consumer")) {
                Clients.step("describe", () -> admin.describeTransactions(List.of(id)).all().get(8, TimeUnit.SECONDS));
            }
        }
    }

    void share() throws Exception {
        String group = topic + "-share";
        try (Admin admin = admin()) {
            var reset =
                    new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            Map<ConfigResource, Collection<AlterConfigOp>> change =
                    Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(reset));
            admin.incrementalAlterConfigs(change).all().get(8, TimeUnit.SECONDS);
            try (var consumer = new KafkaShareConsumer<>(
                    consumerSettings("share", "member"), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(List.of(topic));
                acknowledgeInEveryWay(consumer);
                Clients.step("describe", () ->
                        admin.describeShareGroups(List.of(group)).all().get(8, TimeUnit.SECONDS));
                Clients.step("groups", () -> admin.listGroups().all().get(8, TimeUnit.SECONDS));
            }
            var partition = new TopicPartition(topic, 0);
            Clients.step("offsets", () -> admin.listShareGroupOffsets(
                    Map.of(group, new ListShareGroupOffsetsSpec())).all().get(8, TimeUnit.SECONDS));
            Clients.step("alter", () ->
                    admin.alterShareGroupOffsets(group, Map.of(partition, 1L)).all().get(8, TimeUnit.SECONDS));
            Clients.step("forget", () ->
                    admin.deleteShareGroupOffsets(group, Set.of(topic)).all().get(8, TimeUnit.SECONDS));
            Clients.step("delete", () -> admin.deleteShareGroups(List.of(group)).all().get(8, TimeUnit.SECONDS));
        }
    }

    /** Accept, release (comes back), renew (held longer, then accepted), reject: every type is on the wire. */
    void acknowledgeInEveryWay(KafkaShareConsumer<byte[], byte[]> consumer) {
        Map<Long, Integer> times = new HashMap<>();
        for (int i = 0; i < 14; i++) {
            for (var record : consumer.poll(Duration.ofMillis(400))) {
                int seen = times.merge(record.offset(), 1, Integer::sum);
                consumer.acknowledge(record, seen > 1 ? AcknowledgeType.ACCEPT : choice(record.offset()));
            }
            consumer.commitSync();
        }
        System.out.println("share offsets seen " + times);
    }

    AcknowledgeType choice(long offset) {
        return switch ((int) offset) {
            case 0 -> AcknowledgeType.ACCEPT;
            case 1 -> AcknowledgeType.REJECT;
            case 2 -> AcknowledgeType.RENEW;
            default -> AcknowledgeType.RELEASE;
        };
    }
}
