import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * The admin calls of a 4.3 Java client that are not about groups, and client telemetry. Some are meant to be refused: a
 * refusal is a frame too.
 *
 * <p>java -cp 'CLASSES:JARS/*' Administration BOOTSTRAP SASL_BOOTSTRAP TOPIC
 */
public class Administration {
    final String bootstrap;
    final String topic;
    final Admin admin;

    Administration(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.admin = Admin.create(Clients.settings(bootstrap, "golden-admin"));
    }

    public static void main(String[] args) throws Exception {
        Administration work = new Administration(args[0], args[2]);
        work.topics();
        work.records();
        work.configs();
        Clients.step("refused batch", () -> Clients.produce(args[0], args[2], "none", "all")); // a null key, compacted
        work.replicas();
        work.security();
        work.cluster();
        Clients.step("telemetry", work::telemetry);
        Clients.step("hanging transaction", work::transactions);
        work.deletion();
        for (String mechanism : List.of("PLAIN", "SCRAM-SHA-256")) {
            Clients.step("tokens " + mechanism, () -> tokens(args[1], mechanism));
        }
        System.exit(0);
    }

    static void ask(String name, java.util.function.Supplier<KafkaFuture<?>> call) {
        Clients.step(name, () -> call.get().get(10, TimeUnit.SECONDS));
    }

    void topics() {
        var plain = new NewTopic(topic, Optional.of(2), Optional.empty());
        var placed = new NewTopic(topic + "-placed", Map.of(0, List.of(1, 2), 1, List.of(2, 1)))
                .configs(Map.of("cleanup.policy", "compact", "retention.ms", "100000"));
        ask("create", () -> admin.createTopics(List.of(plain, placed)).all());
        ask("create again", () -> admin.createTopics(List.of(plain)).all());
        ask("try", () -> admin.createTopics(
                List.of(new NewTopic(topic + "-try", 1, (short) 1)),
                new CreateTopicsOptions().validateOnly(true)).all());
        ask("list", () -> admin.listTopics().names());
        ask("describe", () -> admin.describeTopics(List.of(topic, topic + "-placed")).allTopicNames());
        ask("describe absent", () -> admin.describeTopics(List.of("absent")).allTopicNames());
        ask("describe ids", () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(topicId()))).allTopicIds());
        ask("partitions", () -> admin.createPartitions(Map.of(
                topic, NewPartitions.increaseTo(3, List.of(List.of(2))))).all());
    }

    Uuid topicId() {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get(10, TimeUnit.SECONDS).get(topic).topicId();
        } catch (Exception problem) {
            return Uuid.ONE_UUID;
        }
    }

    static AlterConfigOp change(String name, String value, AlterConfigOp.OpType type) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    void configs() {
        var onTopic = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var onGroup = new ConfigResource(ConfigResource.Type.GROUP, topic + "-group");
        var onMetrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, topic + "-metrics");
        Map<ConfigResource, Collection<AlterConfigOp>> changes = Map.of(
                onTopic, List.of(
                        change("retention.ms", "86400000", AlterConfigOp.OpType.SET),
                        change("cleanup.policy", "compact", AlterConfigOp.OpType.APPEND),
                        change("segment.bytes", null, AlterConfigOp.OpType.DELETE)),
                onGroup, List.of(change("consumer.session.timeout.ms", "50000", AlterConfigOp.OpType.SET)),
                onMetrics, List.of(
                        change("interval.ms", "500", AlterConfigOp.OpType.SET),
                        change("metrics", "org.apache.kafka.producer.connection.", AlterConfigOp.OpType.SET)));
        ask("alter", () -> admin.incrementalAlterConfigs(changes).all());
        ask("topic", () -> admin.describeConfigs(List.of(onTopic)).all());
        ask("group", () -> admin.describeConfigs(List.of(onGroup, onMetrics)).all());
        ask("group in words", () -> admin.describeConfigs(List.of(onGroup),
                new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all());
        ask("resources", () -> admin.listConfigResources().all());
        ask("some resources", () -> admin.listConfigResources(
                Set.of(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions()).all());
    }

    void records() {
        Clients.step("produce", () -> Clients.produce(bootstrap, topic, "none", "all"));
        var partition = new TopicPartition(topic, 0);
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(),
                OffsetSpec.forTimestamp(Clients.FIRST_TIMESTAMP_MS), OffsetSpec.earliestLocal(),
                OffsetSpec.latestTiered(), OffsetSpec.earliestPendingUpload())) {
            ask(spec.getClass().getSimpleName(), () -> admin.listOffsets(Map.of(partition, spec)).all());
        }
        ask("delete records", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(2))).all());
    }

    void replicas() {
        var placed = new TopicPartition(topic + "-placed", 0);
        ask("elect", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(placed)).all());
        ask("elect all", () -> admin.electLeaders(ElectionType.PREFERRED, null).all());
        var three = new TopicPartition(topic, 2);
        ask("reassign", () -> admin.alterPartitionReassignments(Map.of(
                three, Optional.of(new NewPartitionReassignment(List.of(1))),
                placed, Optional.empty())).all());
        ask("reassigning", () -> admin.listPartitionReassignments().reassignments());
        ask("log dirs", () -> admin.describeLogDirs(List.of(1, 2)).allDescriptions());
        var replica = new TopicPartitionReplica(topic + "-placed", 0, 1);
        ask("replica dirs", () -> admin.describeReplicaLogDirs(List.of(replica)).all());
        Clients.step("move", () -> {
            for (String directory : admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).keySet()) {
                admin.alterReplicaLogDirs(Map.of(replica, directory)).all().get(10, TimeUnit.SECONDS);
            }
        });
    }

    void security() {
        var resource = new ResourcePattern(ResourceType.TOPIC, topic, PatternType.PREFIXED);
        var entry = new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW);
        var binding = new AclBinding(resource, entry);
        ask("create acl", () -> admin.createAcls(List.of(binding)).all());
        Clients.step("let it spread", () -> Thread.sleep(300));
        ask("acls", () -> admin.describeAcls(AclBindingFilter.ANY).values());
        ask("delete acl", () -> admin.deleteAcls(List.of(binding.toFilter())).all());
        var entity = new ClientQuotaEntity(Map.of("user", "alice"));
        ask("quota", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(
                new ClientQuotaAlteration.Op("producer_byte_rate", 1048576.0),
                new ClientQuotaAlteration.Op("consumer_byte_rate", null))))).all());
        ask("quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        ask("some quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(
                ClientQuotaFilterComponent.ofEntity("user", "alice")))).entities());
        for (ScramMechanism mechanism : List.of(ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)) {
            ask("scram", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
                    "golden", new ScramCredentialInfo(mechanism, 4096), "golden-secret"))).all());
        }
        ask("no scram", () -> admin.alterUserScramCredentials(List.of(
                new UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_512))).all());
        ask("scram users", () -> admin.describeUserScramCredentials().all());
    }

    void cluster() {
        ask("cluster", () -> admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true)).nodes());
        ask("features", () -> admin.describeFeatures().featureMetadata());
        ask("try features", () -> admin.updateFeatures(
                Map.of("transaction.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE)),
                new UpdateFeaturesOptions().validateOnly(true)).all());
        ask("quorum", () -> admin.describeMetadataQuorum().quorumInfo());
        ask("forget broker", () -> admin.unregisterBroker(77).all());
    }

    /** The subscription made in configs() matches any producer; its metrics are pushed every half second. */
    void telemetry() throws Exception {
        Properties settings = Clients.settings(bootstrap, "golden-telemetry");
        settings.put("compression.type", "zstd");
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(settings)) {
            producer.send(Clients.record(topic, 0)).get(8, TimeUnit.SECONDS);
            producer.clientInstanceId(Duration.ofSeconds(5));
            Thread.sleep(2500);
        }
    }

    void transactions() throws Exception {
        Properties settings = Clients.settings(bootstrap, "golden-hanging");
        settings.put("transactional.id", topic + "-hanging");
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(Clients.record(topic, 0)).get(8, TimeUnit.SECONDS);
            var partition = new TopicPartition(topic, 0);
            ask("list", () -> admin.listTransactions().all());
            ask("list some", () -> admin.listTransactions(new ListTransactionsOptions()
                    .filterOnDuration(1).filterOnTransactionalIdPattern(".*hanging")).all());
            var state = admin.describeProducers(List.of(partition)).all().get(8, TimeUnit.SECONDS)
                    .get(partition).activeProducers().get(0);
            ask("abort", () -> admin.abortTransaction(new AbortTransactionSpec(
                    partition, state.producerId(), (short) state.producerEpoch(),
                    state.coordinatorEpoch().orElse(0))).all());
            ask("terminate", () -> admin.forceTerminateTransaction(topic + "-hanging").result());
            ask("fence", () -> admin.fenceProducers(List.of(topic + "-hanging")).all());
            producer.close(Duration.ZERO);
        }
    }

    void deletion() {
        Uuid id = topicId();
        ask("delete by id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
        ask("delete by name", () -> admin.deleteTopics(List.of(topic + "-placed", "absent")).all());
    }

    static void tokens(String bootstrap, String mechanism) throws Exception {
        boolean plain = mechanism.equals("PLAIN");
        Properties settings = Clients.settings(bootstrap, "golden-" + mechanism.toLowerCase());
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", mechanism);
        settings.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.%s required username=\"%s\" password=\"golden-secret\";",
                plain ? "plain.PlainLoginModule" : "scram.ScramLoginModule", plain ? "admin" : "golden"));
        try (Admin admin = Admin.create(settings)) {
            var options = new CreateDelegationTokenOptions().maxLifetimeMs(3_600_000);
            var token = admin.createDelegationToken(options).delegationToken().get(10, TimeUnit.SECONDS);
            Thread.sleep(500); // until the other broker knows it too
            ask("tokens", () -> admin.describeDelegationToken().delegationTokens());
            ask("renew", () -> admin.renewDelegationToken(token.hmac()).expiryTimestamp());
            ask("expire", () -> admin.expireDelegationToken(token.hmac()).expiryTimestamp());
        }
    }
}
