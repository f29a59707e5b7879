"""A program as people write it for kafka-python. Prints what it sees; arguments: bootstrap servers and a name."""

import json
import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

SERVERS, NAME = sys.argv[1:3]


def admin_part():
    admin = KafkaAdminClient(bootstrap_servers=SERVERS)
    admin.create_topics([NewTopic(name=NAME, num_partitions=3, replication_factor=1)])
    try:
        admin.create_topics([NewTopic(name=NAME, num_partitions=3, replication_factor=1)])
    except TopicAlreadyExistsError as error:
        print("again", isinstance(error, KafkaError))
    print("listed", NAME in admin.list_topics())
    admin.close()


def produce_part():
    called, failed = [], []
    producer = KafkaProducer(
        bootstrap_servers=[SERVERS],
        key_serializer=str.encode,
        value_serializer=lambda value: json.dumps(value).encode(),
        acks="all",
        retries=5,
    )
    futures = []
    for number in range(100):
        future = producer.send(NAME, {"number": number}, key=f"user-{number % 10}", headers=[("n", b"%d" % number)])
        future.add_callback(lambda metadata: called.append(metadata.partition)).add_errback(failed.append)
        futures.append(future)
    producer.flush()
    found = [future.get(timeout=30) for future in futures]
    print("sent", len(called), failed, {each.topic == NAME for each in found}, futures[0].succeeded())
    print("places", sorted({(number % 10, each.partition) for number, each in enumerate(found)}))
    print("partitions", producer.partitions_for(NAME))
    producer.close()


def consume_part():
    consumer = KafkaConsumer(
        NAME,
        bootstrap_servers=SERVERS,
        group_id=NAME,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        value_deserializer=lambda data: json.loads(data),
        consumer_timeout_ms=15000,
    )
    seen = {}
    for record in consumer:
        seen[record.value["number"]] = (record.key, record.headers[0][1], record.timestamp > 0)
        if len(seen) == 100:
            break
    print("consumed", len(seen), seen[7], sorted(consumer.assignment()) == [(NAME, number) for number in range(3)])
    partition = TopicPartition(NAME, 0)
    consumer.commit({partition: OffsetAndMetadata(3, "by hand", -1)})
    print("committed", consumer.committed(partition))
    ends = consumer.end_offsets([TopicPartition(NAME, number) for number in range(3)])
    begins = consumer.beginning_offsets([partition])
    print("ends", sum(ends.values()), begins[partition])
    consumer.seek(partition, 1)
    print("position", consumer.position(partition))
    consumer.close()


def assign_part():
    consumer = KafkaConsumer(bootstrap_servers=SERVERS, auto_offset_reset="earliest", consumer_timeout_ms=3000)
    partitions = [TopicPartition(NAME, number) for number in range(3)]
    consumer.assign(partitions)
    count = 0
    for _ in range(100):
        batches = consumer.poll(timeout_ms=500, max_records=40)
        for partition, records in batches.items():
            assert partition in partitions, partition
            assert len({record.partition for record in records}) == 1, records
            count += len(records)
        if count >= 100:
            break
    print("polled", count)
    times = consumer.offsets_for_times({partitions[0]: 0})
    print("times", times[partitions[0]].offset)
    consumer.seek_to_end(partitions[0])
    print("at the end", consumer.position(partitions[0]) == consumer.end_offsets([partitions[0]])[partitions[0]])
    consumer.close()


def alone_part():
    consumer = KafkaConsumer(NAME, bootstrap_servers=SERVERS, auto_offset_reset="earliest", consumer_timeout_ms=10000)
    count = 0
    for _ in consumer:
        count += 1
        if count == 100:
            break
    print("without a group", count, consumer.subscription() == {NAME})
    consumer.close()


admin_part()
produce_part()
consume_part()
assign_part()
alone_part()
