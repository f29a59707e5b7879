"""librdkafka through confluent-kafka as a client: python drive_confluent.py BOOTSTRAP SASL_BOOTSTRAP TOPIC

User "golden" must have been made by another driver (Administration) for the SCRAM step.
"""

import sys
import time

import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, ElectionType, Producer, TopicCollection
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from scenario import SAMPLES, SECRET, step

BOOTSTRAP, SASL_BOOTSTRAP, TOPIC = sys.argv[1:4]
LIMIT_S = 10


def settings(client_id: str, **more: object) -> dict[str, object]:
    dotted = {name.replace("_", "."): value for name, value in more.items()}
    return {"bootstrap.servers": BOOTSTRAP, "client.id": client_id, "log_level": 0, **dotted}


def send(producer: Producer) -> None:
    for key, value, headers, timestamp_ms in SAMPLES:
        producer.produce(TOPIC, value, key, 0, timestamp=timestamp_ms, headers=headers)
    producer.flush(LIMIT_S)


def produce(codec: str, acks: str = "all") -> None:
    client_id = f"golden-{codec}" if acks == "all" else f"golden-acks-{acks}"
    send(Producer(settings(client_id, acks=acks, compression_type=codec, linger_ms=200)))


def idempotent(codec: str) -> None:
    send(
        Producer(settings(f"golden-idempotent-{codec}", enable_idempotence=True, compression_type=codec, linger_ms=200))
    )


def poll(consumer: Consumer, seconds: float) -> int:
    seen, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        message = consumer.poll(0.2)
        seen += message is not None and message.error() is None
    return seen


def transaction(consumer: Consumer) -> None:
    producer = Producer(settings("golden-transactional", transactional_id=f"{TOPIC}-transaction"))
    producer.init_transactions(LIMIT_S)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(TOPIC, b"inside", partition=0)
        offsets = [Position(TOPIC, 0, 1, metadata="inside")]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), LIMIT_S)
        end(LIMIT_S)


def consume(admin: AdminClient, protocol: str) -> None:
    group = f"{TOPIC}-{protocol}"
    joining = {"group_id": group, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    if protocol == "classic":
        joining |= {"heartbeat_interval_ms": 300, "group_instance_id": "static-1"}
    configuration = settings(f"golden-{protocol}", **joining, enable_auto_commit=False, fetch_wait_max_ms=200)
    consumer = Consumer(configuration)
    consumer.subscribe([TOPIC])
    print(protocol, "consumed", poll(consumer, 5))
    step("commit", lambda: consumer.commit(asynchronous=False))
    step("committed", lambda: consumer.committed([Position(TOPIC, 0)], LIMIT_S))
    step("times", lambda: consumer.offsets_for_times([Position(TOPIC, 0, SAMPLES[2].timestamp_ms)], LIMIT_S))
    step("epoch", lambda: consumer.seek(Position(TOPIC, 0, 0, leader_epoch=0)))
    poll(consumer, 1)
    step("transaction", lambda: transaction(consumer))
    step("groups", lambda: admin.list_consumer_groups().result(LIMIT_S))
    step("group", lambda: wait(admin.describe_consumer_groups([group], include_authorized_operations=True)))
    step("offsets", lambda: wait(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])))
    consumer.close()
    altered = ConsumerGroupTopicPartitions(group, [Position(TOPIC, 0, 1)])
    step("alter offsets", lambda: wait(admin.alter_consumer_group_offsets([altered])))
    step("delete group", lambda: wait(admin.delete_consumer_groups([group])))


def share() -> None:
    consumer = confluent_kafka.ShareConsumer(settings("golden-share", group_id=f"{TOPIC}-share"))
    consumer.subscribe([TOPIC])
    for _ in range(6):
        step("poll", lambda: consumer.poll(0.5))
        step("produce", lambda: produce("none", "1"))
    consumer.close()


def wait(futures: dict[object, object]) -> None:
    for future in futures.values():
        future.result(LIMIT_S)


def administrate(admin: AdminClient) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, {"retention.ms": "86400000"})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    some = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
    step("topics", lambda: admin.list_topics(timeout=LIMIT_S))
    step("describe", lambda: wait(admin.describe_topics(TopicCollection([TOPIC]), include_authorized_operations=True)))
    step("cluster", lambda: admin.describe_cluster(include_authorized_operations=True).result(LIMIT_S))
    step("alter", lambda: wait(admin.alter_configs([resource])))
    step("alter some", lambda: wait(admin.incremental_alter_configs([some])))
    step("configs", lambda: wait(admin.describe_configs([resource])))
    step("partitions", lambda: wait(admin.create_partitions([NewPartitions(TOPIC, 3)])))
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp()):
        step("list offsets", lambda spec=spec: wait(admin.list_offsets({Position(TOPIC, 0): spec})))
    step("elect", lambda: admin.elect_leaders(ElectionType.PREFERRED, [Position(TOPIC, 0)]).result(LIMIT_S))
    step("delete records", lambda: wait(admin.delete_records([Position(TOPIC, 0, 2)])))


def security(admin: AdminClient) -> None:
    where = (ResourceType.TOPIC, TOPIC, ResourcePatternType.PREFIXED, "User:carol", "*")
    acl = AclBinding(*where, AclOperation.READ, AclPermissionType.ALLOW)
    anything = (ResourceType.ANY, None, ResourcePatternType.ANY, None, None)
    every = AclBindingFilter(*anything, AclOperation.ANY, AclPermissionType.ANY)
    step("create acl", lambda: wait(admin.create_acls([acl])))
    step("acls", lambda: admin.describe_acls(every).result(LIMIT_S))
    step("delete acl", lambda: wait(admin.delete_acls([every])))
    user = UserScramCredentialUpsertion(
        "librdkafka", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), SECRET.encode()
    )
    step("scram", lambda: wait(admin.alter_user_scram_credentials([user])))
    step("scram users", lambda: admin.describe_user_scram_credentials().result(LIMIT_S))


def authenticate(mechanism: str, user: str) -> None:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "bootstrap_servers": SASL_BOOTSTRAP}
    AdminClient(settings("golden-sasl", **login, sasl_username=user, sasl_password=SECRET)).list_topics(timeout=LIMIT_S)


def main() -> None:
    admin = AdminClient(settings("golden-admin"))
    wait(admin.create_topics([NewTopic(TOPIC, 2, 1, config={"segment.bytes": "1048576"})]))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        step(codec, lambda codec=codec: produce(codec))
    step("idempotent", lambda: idempotent("lz4"))
    step("acks 0", lambda: produce("none", "0"))
    step("acks 1", lambda: produce("none", "1"))
    for protocol in ("classic", "consumer"):
        step(protocol, lambda protocol=protocol: consume(admin, protocol))
    step("share", share)
    administrate(admin)
    security(admin)
    step("plain", lambda: authenticate("PLAIN", "admin"))
    step("scram", lambda: authenticate("SCRAM-SHA-256", "golden"))
    step("delete", lambda: wait(admin.delete_topics([TOPIC])))


if __name__ == "__main__":
    main()
