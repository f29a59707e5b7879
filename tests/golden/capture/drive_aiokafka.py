"""aiokafka as a client: python drive_aiokafka.py BOOTSTRAP SASL_BOOTSTRAP TOPIC"""

import asyncio
import sys
from collections.abc import Awaitable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from scenario import SAMPLES, SECRET, tell

BOOTSTRAP, SASL_BOOTSTRAP, TOPIC = sys.argv[1:4]
GROUP = TOPIC + "-group"
PARTITION = TopicPartition(TOPIC, 0)
STEP_LIMIT_S = 20


async def step(name: str, call: Awaitable[object]) -> None:
    try:
        await asyncio.wait_for(call, STEP_LIMIT_S)
    except Exception as problem:
        tell(name, problem)


async def produce(codec: str | None, acks: object = "all") -> None:
    client_id = f"golden-{codec or 'none'}" if acks == "all" else f"golden-acks-{acks}"
    configuration = {"acks": acks, "compression_type": codec, "enable_idempotence": acks == "all", "linger_ms": 200}
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, client_id=client_id, **configuration) as producer:
        sent = []
        for key, value, headers, timestamp_ms in SAMPLES:
            given = {"key": key, "partition": 0, "timestamp_ms": timestamp_ms, "headers": headers}
            sent.append(await producer.send(TOPIC, value, **given))
        await asyncio.gather(*sent)


async def transaction() -> None:
    configuration = {"client_id": "golden-transactional", "transactional_id": TOPIC + "-transaction"}
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, **configuration) as producer:
        for end in (producer.commit_transaction, producer.abort_transaction):
            await producer.begin_transaction()
            await producer.send_and_wait(TOPIC, b"inside", partition=0)
            await producer.send_offsets_to_transaction({PARTITION: 1}, GROUP)
            await end()


async def consume() -> None:
    configuration = {"group_id": GROUP, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300}
    reading = {"isolation_level": "read_committed", "enable_auto_commit": False, "fetch_max_wait_ms": 200}
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=BOOTSTRAP, client_id="golden-consumer", **configuration, **reading
    )
    async with consumer:
        seen = 0
        for _ in range(6):
            seen += sum(map(len, (await consumer.getmany(timeout_ms=300)).values()))
        print("consumed", seen)
        await step("commit", consumer.commit())
        await step("committed", consumer.committed(PARTITION))
        await step("times", consumer.offsets_for_times({PARTITION: SAMPLES[2].timestamp_ms}))
        await step("end", consumer.end_offsets([PARTITION]))


async def administrate(admin: AIOKafkaAdminClient) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "86400000"})
    await step("topics", admin.list_topics())
    await step("describe", admin.describe_topics([TOPIC]))
    await step("cluster", admin.describe_cluster())
    await step("alter", admin.alter_configs([resource]))
    await step("configs", admin.describe_configs([resource], include_synonyms=True))
    await step("partitions", admin.create_partitions({TOPIC: NewPartitions(3)}))
    await step("groups", admin.list_consumer_groups())
    await step("group", admin.describe_consumer_groups([GROUP]))
    await step("offsets", admin.list_consumer_group_offsets(GROUP))
    await step("delete records", admin.delete_records({PARTITION: RecordsToDelete(before_offset=2)}))


async def authenticate(mechanism: str, user: str) -> None:
    login = {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": SECRET}
    where = {"bootstrap_servers": SASL_BOOTSTRAP, "security_protocol": "SASL_PLAINTEXT", "client_id": "golden-sasl"}
    async with AIOKafkaProducer(**where, **login) as producer:
        await producer.partitions_for(TOPIC)


async def main() -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP, client_id="golden-admin")
    await admin.start()
    await step("create", admin.create_topics([NewTopic(TOPIC, 2, 1, topic_configs={"segment.bytes": "1048576"})]))
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        await step(str(codec), produce(codec))
    await step("acks 0", produce(None, 0))
    await step("acks 1", produce(None, 1))
    await step("transaction", transaction())
    await step("consume", consume())
    await administrate(admin)
    await step("plain", authenticate("PLAIN", "admin"))
    await step("scram", authenticate("SCRAM-SHA-256", "golden"))
    await step("delete", admin.delete_topics([TOPIC]))
    await admin.close()


if __name__ == "__main__":
    asyncio.run(main())
