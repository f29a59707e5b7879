"""A program as people write it for confluent-kafka. Prints what it sees; arguments: bootstrap servers and a name."""

import sys
import time

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

SERVERS, NAME = sys.argv[1:3]


def admin_part():
    admin = AdminClient({"bootstrap.servers": SERVERS})
    for topic, future in admin.create_topics([NewTopic(NAME, 4, 1, config={"retention.ms": "86400000"})]).items():
        print("created", topic == NAME, future.result(30))
    again = admin.create_topics([NewTopic(NAME, 4, 1)])[NAME]
    try:
        again.result(30)
    except KafkaException as error:
        print("again", error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS, error.args[0].name())
    resource = ConfigResource("topic", NAME)
    entries = admin.describe_configs([resource])[resource].result(30)
    print("retention", entries["retention.ms"].value, entries["retention.ms"].is_default)
    admin.create_partitions([NewPartitions(NAME, 5)])[NAME].result(30)
    for _ in range(100):
        metadata = admin.list_topics(NAME, timeout=30)
        if len(metadata.topics[NAME].partitions) == 5:
            break
        time.sleep(0.05)
    print("partitions", sorted(metadata.topics[NAME].partitions), len(metadata.brokers))


def produce_part():
    delivered, failed = [], []

    def report(error, message):
        (failed if error else delivered).append(error or (message.key(), message.partition(), message.value()))

    producer = Producer({"bootstrap.servers": SERVERS, "linger.ms": 5, "statistics.interval.ms": 0})
    for number in range(100):
        producer.produce(
            NAME,
            key=f"user-{number % 10}",
            value=f"value-{number}",
            headers=[("n", str(number).encode())],
            on_delivery=report,
        )
        producer.poll(0)
    left = producer.flush(30)
    print("flushed", left, len(delivered), len(failed), len(producer))
    print("places", sorted({(key, partition) for key, partition, _ in delivered}))
    try:
        producer.produce(NAME, b"x" * 2_000_000)
    except KafkaException as error:
        print("too large", error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE)


def consume_part():
    assigned = []

    def on_assign(consumer, partitions):
        for partition in partitions:
            partition.offset = OFFSET_BEGINNING
        assigned.extend(partition.partition for partition in partitions)
        consumer.assign(partitions)

    consumer = Consumer(
        {
            "bootstrap.servers": SERVERS,
            "group.id": NAME,
            "auto.offset.reset": "latest",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
        }
    )
    consumer.subscribe([NAME], on_assign=on_assign)
    seen, kinds = {}, set()
    deadline = time.time() + 60
    while len(seen) < 100 and time.time() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            print("error", message.error())
            continue
        seen[message.value().decode()] = (message.key().decode(), message.headers())
        kinds.add(message.timestamp()[0] == TIMESTAMP_CREATE_TIME)
    print("consumed", len(seen), kinds, seen["value-7"], sorted(assigned))
    committed = consumer.commit(asynchronous=False)
    total = sum(each.offset for each in committed if each.offset >= 0)
    known = consumer.committed([TopicPartition(NAME, number) for number in range(5)], timeout=30)
    print("committed", total, sum(each.offset for each in known if each.offset >= 0))
    low, high = 0, 0
    for number in range(5):
        marks = consumer.get_watermark_offsets(TopicPartition(NAME, number), timeout=30)
        low, high = low + marks[0], high + marks[1]
    print("watermarks", low, high)
    consumer.close()
    try:
        consumer.poll(0)
    except RuntimeError as error:
        print("closed", str(error))


def end_part():
    consumer = Consumer({"bootstrap.servers": SERVERS, "group.id": f"{NAME}-end", "enable.partition.eof": True})
    consumer.assign([TopicPartition(NAME, number, OFFSET_BEGINNING) for number in range(5)])
    ends, count = set(), 0
    deadline = time.time() + 60
    while len(ends) < 5 and time.time() < deadline:
        for message in consumer.consume(10, 1.0):
            if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                ends.add(message.partition())
            elif not message.error():
                count += 1
    print("to the end", count, sorted(ends))
    consumer.close()


def transaction_part():
    producer = Producer({"bootstrap.servers": SERVERS, "transactional.id": NAME})
    producer.init_transactions(30)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        producer.produce(f"{NAME}-txn", f"in-{number}", partition=0)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    consumer = Consumer({"bootstrap.servers": SERVERS, "group.id": f"{NAME}-txn", "auto.offset.reset": "earliest"})
    consumer.subscribe([f"{NAME}-txn"])
    seen = []
    deadline = time.time() + 60
    while len(seen) < 2 and time.time() < deadline:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            seen.append(message.value())
    print("transactions", seen)
    consumer.close()


admin_part()
produce_part()
consume_part()
end_part()
transaction_part()
