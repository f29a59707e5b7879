"""A program as people write it for aiokafka. Prints what it sees; arguments: bootstrap servers and a name."""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import (
    IllegalOperation,
    KafkaConnectionError,
    KafkaError,
    TopicAlreadyExistsError,
    for_code,
)
from aiokafka.structs import OffsetAndMetadata

SERVERS, NAME = sys.argv[1:3]


async def admin_part():
    admin = AIOKafkaAdminClient(bootstrap_servers=SERVERS)
    await admin.start()
    made = await admin.create_topics([NewTopic(NAME, 3, 1, topic_configs={"retention.ms": "86400000"})])
    print("created", [tuple(each[:2]) == (NAME, 0) for each in made.topic_errors])
    again = await admin.create_topics([NewTopic(NAME, 3, 1)])
    print("again", [for_code(each[1]) is TopicAlreadyExistsError for each in again.topic_errors])
    print("listed", NAME in await admin.list_topics())
    await admin.create_partitions({NAME: NewPartitions(4)})
    for _ in range(100):
        (topic,) = await admin.describe_topics([NAME])
        if len(topic["partitions"]) == 4:
            break
        await asyncio.sleep(0.05)
    print("partitions", sorted(each["partition"] for each in topic["partitions"]), topic["error_code"])
    cluster = await admin.describe_cluster()
    print("brokers", len(cluster["brokers"]))
    await admin.close()


async def produce_part():
    async with AIOKafkaProducer(
        bootstrap_servers=[SERVERS], value_serializer=lambda value: json.dumps(value).encode(), acks="all"
    ) as producer:
        futures = [
            await producer.send(NAME, {"n": number}, key=b"user-%d" % (number % 10), headers=[("n", b"%d" % number)])
            for number in range(60)
        ]
        found = [await future for future in futures]
        print("places", sorted({(number % 10, each.partition) for number, each in enumerate(found)}))
        first = await producer.send_and_wait(NAME, {"n": "one"}, partition=2)
        print("one", first.topic == NAME, first.partition, first.topic_partition == TopicPartition(NAME, 2))
        print("known", sorted(await producer.partitions_for(NAME)))
        batch = producer.create_batch()
        while batch.record_count() < 3:
            batch.append(timestamp=None, key=None, value={"b": batch.record_count()})
        batch.close()
        print("batch", (await (await producer.send_batch(batch, NAME, partition=2))).offset - first.offset)
    try:
        await producer.send(NAME, "late")
    except KafkaError as error:
        print("closed", type(error).__name__)
    try:
        async with AIOKafkaProducer(bootstrap_servers=SERVERS) as producer:
            await producer.begin_transaction()
    except IllegalOperation as error:
        print("illegal", error)
    try:
        await AIOKafkaProducer(bootstrap_servers="127.0.0.1:1").start()
    except KafkaConnectionError as error:
        print("unreachable", type(error).__name__, error.retriable)


class Listener(ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked):
        print("revoked", sorted(each.partition for each in revoked))

    def on_partitions_assigned(self, assigned):
        print("assigned", sorted(each.partition for each in assigned))


async def consume_part():
    consumer = AIOKafkaConsumer(
        bootstrap_servers=SERVERS,
        group_id=f"group-{NAME}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        value_deserializer=lambda data: json.loads(data),
    )
    consumer.subscribe([NAME], listener=Listener())
    await consumer.start()
    print("subscription", sorted(consumer.subscription()) == [NAME], len(consumer.assignment()))
    first = await consumer.getone()
    print("record", first.topic == NAME, type(first.value).__name__, first.timestamp_type, first.checksum)
    count = 1
    while count < 64:
        for records in (await consumer.getmany(timeout_ms=1000)).values():
            count += len(records)
    print("read", count)
    zero = TopicPartition(NAME, 2)
    end = (await consumer.end_offsets([zero]))[zero]
    print("at end", await consumer.position(zero) == end, (await consumer.beginning_offsets([zero]))[zero])
    await consumer.commit()
    print("committed", await consumer.committed(zero) == end)
    await consumer.commit({zero: OffsetAndMetadata(1, "here")})
    print("again", await consumer.committed(zero))
    await consumer.seek_to_committed(zero)
    print("sought", await consumer.position(zero))
    consumer.seek(zero, end - 1)
    record = await consumer.getone(zero)
    print("last", record.value, record.offset == end - 1, consumer.highwater(zero) == end)
    consumer.pause(zero)
    print("paused", consumer.paused() == {zero}, await consumer.getmany(timeout_ms=100))
    consumer.resume(zero)
    await consumer.stop()


async def transaction_part():
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS, transactional_id=f"tx-{NAME}")
    await producer.start()
    async with producer.transaction():
        await producer.send(NAME, b'"committed"', partition=0)
        await producer.send_offsets_to_transaction({TopicPartition(NAME, 0): 7}, f"offsets-{NAME}")
    try:
        async with producer.transaction():
            await producer.send(NAME, b'"aborted"', partition=0)
            raise ValueError("stop")
    except ValueError as error:
        print("aborted by", error)
    await producer.stop()
    async with AIOKafkaConsumer(
        bootstrap_servers=SERVERS, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        zero = TopicPartition(NAME, 0)
        consumer.assign([zero])
        seen = []
        while b'"committed"' not in seen:
            found = await consumer.getmany(timeout_ms=1000)
            seen += [each.value for records in found.values() for each in records]
        more = await consumer.getmany(timeout_ms=300)
        print("only committed", b'"aborted"' not in seen, more)
    reader = AIOKafkaConsumer(bootstrap_servers=SERVERS, group_id=f"offsets-{NAME}")
    await reader.start()
    print("offsets", await reader.committed(TopicPartition(NAME, 0)))
    await reader.stop()


async def main():
    await admin_part()
    await produce_part()
    await consume_part()
    await transaction_part()


asyncio.run(main())
