"""kafka-python as a client: python drive_kafka_python.py BOOTSTRAP SASL_BOOTSTRAP TOPIC [RELEASE]

RELEASE, e.g. 2.4, pins the version of every request to what a broker of that release knows.
Codecs: those whose library is installed; snappy needs python-snappy.
"""

import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, codec
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    MemberToRemove,
    OffsetSpec,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.admin._transactions import AbortTransactionSpec
from kafka.structs import OffsetAndMetadata
from scenario import SAMPLES, SECRET, step

BOOTSTRAP, SASL_BOOTSTRAP, TOPIC = sys.argv[1:4]
RELEASE = {"api_version": tuple(map(int, sys.argv[4].split(".")))} if len(sys.argv) > 4 else {}
GROUP = TOPIC + "-group"
PARTITION = TopicPartition(TOPIC, 0)


def settings(client_id: str, **more: object) -> dict[str, object]:
    return {"bootstrap_servers": BOOTSTRAP, "client_id": client_id, **RELEASE, **more}


def produce(codec_name: str | None, acks: object = "all", **more: object) -> None:
    named = f"golden-{codec_name or 'none'}" if acks == "all" else f"golden-acks-{acks}"
    configuration = settings(named, acks=acks, compression_type=codec_name, linger_ms=200, **more)
    producer = KafkaProducer(enable_idempotence=acks == "all", **configuration)
    for key, value, headers, timestamp_ms in SAMPLES:
        kept = [(name, content or b"") for name, content in headers]
        producer.send(TOPIC, value, key, kept, partition=0, timestamp_ms=timestamp_ms)
    producer.flush(8)
    producer.close()


def transaction(consumer: KafkaConsumer, admin: KafkaAdminClient) -> None:
    transactional_id = TOPIC + "-transaction"
    producer = KafkaProducer(**settings("golden-transactional", transactional_id=transactional_id))
    offsets = {PARTITION: OffsetAndMetadata(1, "inside", -1)}
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.send(TOPIC, b"inside", partition=0).get(8)
        offsets = {PARTITION: OffsetAndMetadata(1, "inside", -1)}
        step(
            "offsets", lambda offsets=offsets: producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        )
        step("transactions", admin.list_transactions)
        step("describe", lambda: admin.describe_transactions([transactional_id]))
        step("producers", lambda: admin.describe_producers([PARTITION]))
        end()
    producer.close()
    step("abort", lambda: admin.abort_transaction(AbortTransactionSpec(PARTITION, 123456, 0)))


def consume(admin: KafkaAdminClient) -> None:
    configuration = settings("golden-consumer", group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False)
    timing = {"heartbeat_interval_ms": 300, "fetch_max_wait_ms": 200}
    consumer = KafkaConsumer(TOPIC, **configuration, **timing)
    seen = 0
    for _ in range(8):
        seen += sum(len(records) for records in consumer.poll(300).values())
    print("consumed", seen)
    step("commit", consumer.commit)
    step("committed", lambda: consumer.committed(PARTITION))
    step("times", lambda: consumer.offsets_for_times({PARTITION: SAMPLES[2].timestamp_ms}))
    step("end", lambda: consumer.end_offsets([PARTITION]))
    step("transaction", lambda: transaction(consumer, admin))
    step("groups", admin.list_groups)
    step("group", lambda: admin.describe_groups([GROUP], include_authorized_operations=bool(not RELEASE)))
    step("offsets", lambda: admin.list_group_offsets({GROUP: None}))
    member = MemberToRemove(member_id="nobody", group_instance_id=None)
    step("remove", lambda: admin.remove_group_members(GROUP, [member]))
    consumer.close()


def topics(admin: KafkaAdminClient) -> None:
    wanted = {TOPIC: {"num_partitions": 2, "replication_factor": 1, "configs": {"segment.bytes": "1048576"}}}
    placed = {TOPIC + "-placed": {"assignments": {0: [1, 2]}}}
    step("create", lambda: admin.create_topics(wanted))
    step("create placed", lambda: admin.create_topics(placed))
    step("topics", admin.list_topics)
    step("describe", lambda: admin.describe_topics([TOPIC]))
    step("describe pages", lambda: admin.describe_topic_partitions([TOPIC]))
    step("partitions", lambda: admin.create_partitions({TOPIC: 3}))
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "86400000"})
    step("alter", lambda: admin.alter_configs([resource]))
    step("alter wholly", lambda: admin.alter_configs([resource], incremental=False))
    asked = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": None, "segment.bytes": None})
    step("configs", lambda: admin.describe_configs([asked], include_synonyms=True))
    step("resources", admin.list_config_resources)


def cluster(admin: KafkaAdminClient) -> None:
    step("cluster", admin.describe_cluster)
    step("log dirs", lambda: admin.describe_log_dirs([TOPIC]))
    step("move", lambda: admin.alter_replica_log_dirs({(TOPIC, 0, 1): "/nowhere"}))
    step("quorum", admin.describe_metadata_quorum)
    step("features", lambda: admin.update_features({"transaction.version": ("SAFE_DOWNGRADE", 1)}, validate_only=True))
    step("elect", lambda: admin.elect_leaders(0, {TOPIC: [0]}, raise_errors=False))
    step("reassign", lambda: admin.alter_partition_reassignments({PARTITION: [1], TopicPartition(TOPIC, 1): None}))
    step("reassigning", admin.list_partition_reassignments)


def security(admin: KafkaAdminClient) -> None:
    pattern = ResourcePattern(ResourceType.TOPIC, TOPIC, ACLResourcePatternType.PREFIXED)
    acl = ACL("User:bob", "*", ACLOperation.WRITE, ACLPermissionType.DENY, pattern)
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    every = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
    step("create acl", lambda: admin.create_acls([acl]))
    step("acls", lambda: admin.describe_acls(every))
    step("delete acl", lambda: admin.delete_acls([every]))
    user = UserScramCredentialUpsertion("python", ScramMechanism.SCRAM_SHA_512, SECRET)
    step("scram", lambda: admin.alter_user_scram_credentials([user]))
    step("scram users", admin.describe_user_scram_credentials)
    gone = UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_256)
    step("no scram", lambda: admin.alter_user_scram_credentials([gone]))


def authenticate(mechanism: str, user: str) -> None:
    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    login = {"sasl_plain_username": user, "sasl_plain_password": SECRET, "bootstrap_servers": SASL_BOOTSTRAP}
    KafkaAdminClient(**{**settings("golden-sasl"), **sasl, **login}).close()


def main() -> None:
    admin = KafkaAdminClient(**settings("golden-admin"))
    topics(admin)
    for name, has in (("gzip", codec.has_gzip), ("snappy", codec.has_snappy), ("lz4", codec.has_lz4)):
        if has():
            step(name, lambda name=name: produce(name))
    step("zstd", lambda: produce("zstd"))
    step("none", lambda: produce(None))
    step("acks 0", lambda: produce(None, 0))
    step("acks 1", lambda: produce(None, 1))
    step("consume", lambda: consume(admin))
    offsets = {PARTITION: OffsetAndMetadata(1, "altered", -1)}
    step("alter offsets", lambda: admin.alter_group_offsets(GROUP, offsets))
    step("delete offsets", lambda: admin.delete_group_offsets(GROUP, [PARTITION]))
    step("delete group", lambda: admin.delete_groups([GROUP]))
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP):
        step("list offsets", lambda spec=spec: admin.list_partition_offsets({PARTITION: spec}))
    step("delete records", lambda: admin.delete_records({PARTITION: 2}))
    cluster(admin)
    security(admin)
    step("delete", lambda: admin.delete_topics([TOPIC, TOPIC + "-placed"]))
    admin.close()
    step("plain", lambda: authenticate("PLAIN", "admin"))
    step("scram", lambda: authenticate("SCRAM-SHA-512", "python"))


if __name__ == "__main__":
    main()
