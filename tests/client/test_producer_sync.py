"""The sync producer against a real broker, read back by another client."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.patience import HANG_S, wait_until

from ottla.client.loop import ForkedClient
from ottla.client.producer.producer import Producer
from ottla.client.producer.transactions.states import TransactionMisuse
from ottla.client.producer.values import (
    BufferExhausted,
    ProducerClosed,
    ProducerRecord,
    RecordTooLargeToSend,
    SendFailed,
)
from ottla.client.serializers import SerializationFailed
from ottla.errors import InvalidTopicException, OttlaError, ProducerFenced, RequestTimedOut
from ottla.testing.broker import KafkaBroker


def read(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[Any]:
    """The first `count` records of all partitions, each partition in its order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=HANG_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
        found: list[Any] = []
        until = time.monotonic() + HANG_S
        while len(found) < count and time.monotonic() < until:
            found += [message for message in consumer.consume(1000, 0.2) if message.error() is None]
        found += [message for message in consumer.consume(10, 0.1) if message.error() is None]
        return found
    finally:
        consumer.close()


def create(bootstrap: str, topic: str, partitions: int, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, partitions, config=config)]).values():
        made.result(HANG_S)


@pytest.fixture
def producer(kafka_broker):
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=1) as made:
        yield made


def test_a_record_comes_back_as_it_was_sent(kafka_broker, producer, unique_topic):
    future = producer.send(
        unique_topic, b"value", key=b"key", headers=[("a", b"1"), ("b", None)], timestamp_ms=1_700_000_000_000
    )
    metadata = future.result(HANG_S)
    assert (metadata.topic, metadata.offset, metadata.timestamp_ms) == (unique_topic, 0, 1_700_000_000_000)
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (3, 5)
    (message,) = read(kafka_broker.bootstrap_servers, unique_topic, 1)
    assert (message.key(), message.value(), message.headers()) == (b"key", b"value", [("a", b"1"), ("b", None)])
    assert message.timestamp()[1] == 1_700_000_000_000


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_many_records_arrive_in_order_with_every_codec_and_acks(kafka_broker, unique_topic, compression, acks):
    count = 3000
    settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "compression.type": compression, "acks": acks}
    if acks == "1":
        # Without sequence numbers a batch that is tried again, because a new topic has no leader yet, is overtaken.
        settings["max.in.flight.requests.per.connection"] = 1
    with Producer(settings) as producer:
        futures = [producer.send(unique_topic, b"%05d" % number + b"x" * 50) for number in range(count)]
        producer.flush(HANG_S)
        offsets = [future.result(0).offset for future in futures]
    assert offsets == ([-1] * count if acks == "0" else list(range(count)))
    values = [message.value()[:5] for message in read(kafka_broker.bootstrap_servers, unique_topic, count)]
    assert values == [b"%05d" % number for number in range(count)]


def test_lists_keys_and_partitions(kafka_broker, unique_topic):
    create(kafka_broker.bootstrap_servers, unique_topic, 3)
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
        assert len(producer.partitions_for(unique_topic)) == 3
        pairs = [(b"%d" % (number % 7), b"%04d" % number) for number in range(1000)]
        many = producer.send_many(unique_topic, pairs)
        plain = producer.send_many(unique_topic, [b"p%04d" % number for number in range(500)], partition=2)
        metadata = many.result(HANG_S)
        assert len(metadata) == 1000
        assert [each.partition for each in plain.result(HANG_S)] == [2] * 500
    by_place = {
        (message.partition(), message.offset()): message
        for message in read(kafka_broker.bootstrap_servers, unique_topic, 1500)
    }
    assert len(by_place) == 1500
    for (key, value), each in zip(pairs, metadata, strict=True):
        message = by_place[each.partition, each.offset]
        assert (message.key(), message.value()) == (key, value)


def test_callbacks_serializers_interceptors_and_a_partitioner(kafka_broker, unique_topic):
    heard: list[Any] = []

    class Stamp:
        def on_send(self, record):
            return ProducerRecord(record.topic, record.value | {"seen": True}, record.key)

        def on_acknowledgement(self, metadata, error):
            heard.append(("interceptor", metadata.offset, error))

    with Producer(
        bootstrap_servers=kafka_broker.bootstrap_servers,
        value_serializer="json",
        key_serializer=str.encode,
        interceptor_classes=[Stamp],
        partitioner_class=lambda key, everything, available: everything[0],
    ) as producer:
        producer.send(unique_topic, {"a": 1}, key="k", on_delivery=lambda *told: heard.append(told)).result(HANG_S)
        with pytest.raises(SerializationFailed):
            producer.send(unique_topic, object(), key="k")
    assert heard[0] == ("interceptor", 0, None)
    assert heard[1][0].offset == 0
    assert heard[1][1] is None
    (message,) = read(kafka_broker.bootstrap_servers, unique_topic, 1)
    assert message.value() == b'{"a":1,"seen":true}'


def test_a_record_that_is_too_large_is_refused_before_it_is_sent(producer, unique_topic):
    with pytest.raises(RecordTooLargeToSend, match=r"max\.request\.size"):
        producer.send(unique_topic, b"x" * 2_000_000)
    with pytest.raises(RecordTooLargeToSend):
        producer.send_many(unique_topic, [b"small", b"x" * 2_000_000])


def test_a_batch_that_the_topic_does_not_take_is_split(kafka_broker, unique_topic):
    create(kafka_broker.bootstrap_servers, unique_topic, 1, **{"max.message.bytes": "2000"})
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=50) as producer:
        futures = [producer.send(unique_topic, b"%04d" % number + b"x" * 100) for number in range(300)]
        producer.flush(HANG_S)
        assert [future.result(0).offset for future in futures] == list(range(300))
        with pytest.raises(OttlaError, match="max"):
            producer.send(unique_topic, b"x" * 5000).result(HANG_S)
    values = [message.value()[:4] for message in read(kafka_broker.bootstrap_servers, unique_topic, 300)]
    assert values == [b"%04d" % number for number in range(300)]


def test_failures_are_raised_by_flush_when_nobody_was_told(kafka_broker, unique_topic):
    create(kafka_broker.bootstrap_servers, unique_topic, 1, **{"max.message.bytes": "500"})
    producer = Producer(bootstrap_servers=kafka_broker.bootstrap_servers)
    producer.produce(unique_topic, b"x" * 1000)
    producer.produce(unique_topic, b"fine")
    with pytest.raises(SendFailed) as failed:
        producer.flush(HANG_S)
    assert failed.value.count == 1
    assert failed.value.records[0].value == b"x" * 1000
    producer.flush(HANG_S)
    told = []
    producer.produce(unique_topic, b"x" * 1000, on_delivery=lambda metadata, error: told.append(error))
    producer.flush(HANG_S)
    assert len(told) == 1
    producer.produce(unique_topic, b"x" * 1000)
    with pytest.raises(SendFailed):
        producer.close()
    producer.close()


def test_after_close_nothing_is_taken(kafka_broker, unique_topic):
    producer = Producer(bootstrap_servers=kafka_broker.bootstrap_servers)
    future = producer.send(unique_topic, b"last")
    producer.close()
    assert future.result(0).offset == 0
    with pytest.raises(ProducerClosed):
        producer.send(unique_topic, b"too late")


def test_a_topic_name_that_cannot_be_is_said_at_once(producer):
    with pytest.raises(InvalidTopicException):
        producer.send("no/slashes", b"v")


def test_without_a_broker_send_ends_after_max_block_and_says_why():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    producer = Producer(bootstrap_servers=f"127.0.0.1:{port}", max_block_ms=300)
    with pytest.raises(RequestTimedOut, match="refused the connection"):
        producer.send("t", b"v")
    producer.close()


def send_times(producer: Producer, count: int) -> None:
    for _ in range(count):
        producer.produce("t", b"x" * 1000)


def test_memory_that_never_comes_back_is_waited_for_no_longer_than_max_block(kafka_broker_fresh):
    producer = Producer(
        bootstrap_servers=kafka_broker_fresh.bootstrap_servers,
        buffer_memory=40_000,
        max_block_ms=200,
        request_timeout_ms=500,
        delivery_timeout_ms=600,
        default_api_timeout_ms=500,
    )

    def is_known():
        try:  # a busy machine may need longer than these settings allow
            producer.send("t", b"v").result(HANG_S)
        except OttlaError:
            return False
        return True

    wait_until(is_known)
    kafka_broker_fresh.stop()
    with pytest.raises(BufferExhausted, match=r"buffer\.memory is 40000"):
        send_times(producer, 100)
    assert "t-0" in str(producer.inspect())
    with pytest.raises(SendFailed) as failed:
        producer.close(5)
    assert failed.value.count == len(failed.value.records) > 10


def test_a_broker_that_restarts_gets_every_record_once_and_in_order(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "ottla.durability": "replicated"}
    broker = KafkaBroker(settings, directory=tmp_path).start()
    producer = Producer(bootstrap_servers=f"127.0.0.1:{port}", linger_ms=0, reconnect_backoff_max_ms=100)
    futures = []

    def send() -> None:
        for number in range(20_000):
            futures.append(producer.send("t", b"%06d" % number))
            if number % 100 == 0:
                time.sleep(0.002)

    producer.send("t", b"first").result(HANG_S)
    sending = threading.Thread(target=send)
    sending.start()
    time.sleep(0.1)
    broker.stop()
    broker = KafkaBroker(settings, directory=tmp_path).start()
    sending.join()
    producer.flush(HANG_S)
    assert [future.result(0).offset for future in futures] == list(range(1, 20_001))
    producer.close()
    values = [message.value() for message in read(f"127.0.0.1:{port}", "t", 20_001)]
    assert values == [b"first"] + [b"%06d" % number for number in range(20_000)]
    broker.stop()


def test_several_threads_may_send(kafka_broker, producer, unique_topic):
    def send(who: int) -> None:
        for number in range(2000):
            producer.produce(unique_topic, b"%d-%05d" % (who, number), key=b"%d" % who)

    threads = [threading.Thread(target=send, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(HANG_S)
    values = [message.value() for message in read(kafka_broker.bootstrap_servers, unique_topic, 8000)]
    assert len(values) == 8000
    for who in range(4):
        mine = [value for value in values if value.startswith(b"%d-" % who)]
        assert mine == [b"%d-%05d" % (who, number) for number in range(2000)]


# --- transactions ---


def send_and_fail(producer: Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"lost")
        raise ZeroDivisionError


def test_only_committed_records_count(kafka_broker, unique_topic):
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, transactional_id=unique_topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(unique_topic, b"one")
        with pytest.raises(ZeroDivisionError):
            send_and_fail(producer, unique_topic)
        with producer.transaction():
            producer.produce(unique_topic, b"two")
        with pytest.raises(TransactionMisuse):
            producer.send(unique_topic, b"outside")
    values = [message.value() for message in read(kafka_broker.bootstrap_servers, unique_topic, 2)]
    assert values == [b"one", b"two"]


def test_offsets_are_committed_with_the_transaction(kafka_broker, unique_topic):
    from ottla.values import TopicPartition as Name

    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, transactional_id=unique_topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(unique_topic, b"one")
            producer.send_offsets_to_transaction({Name(unique_topic, 0): 7}, f"{unique_topic}-group")
    consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": f"{unique_topic}-group"})
    (committed,) = consumer.committed([TopicPartition(unique_topic, 0)], timeout=HANG_S)
    consumer.close()
    assert committed.offset == 7


def test_a_newer_producer_fences_the_older(kafka_broker, unique_topic):
    settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": unique_topic}
    older, newer = Producer(settings), Producer(settings)
    older.init_transactions()
    older.begin_transaction()
    older.send(unique_topic, b"old").result(HANG_S)
    newer.init_transactions()
    with pytest.raises(ProducerFenced):
        older.commit_transaction()
    with pytest.raises(ProducerFenced):
        older.send(unique_topic, b"old")
    with newer.transaction():
        newer.send(unique_topic, b"new")
    newer.close()
    older.close()
    values = [message.value() for message in read(kafka_broker.bootstrap_servers, unique_topic, 1)]
    assert values == [b"new"]


# --- processes ---


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_told_at_once(kafka_broker, unique_topic):
    """Also when a batch is open, into which the hot path would write without asking anybody."""
    producer = Producer(bootstrap_servers=kafka_broker.bootstrap_servers, linger_ms=60_000)
    producer.send(unique_topic, b"v")
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            producer.send(unique_topic, b"v")
            os.write(write_end, b"sent")
        except ForkedClient:
            os.write(write_end, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read_end, 20) == b"refused"
    os.close(read_end)
    os.close(write_end)
    parents = producer.send(unique_topic, b"parent")
    producer.close()
    assert parents.result(0).offset == 1


def test_a_program_that_forgets_to_close_still_sends_and_is_told(kafka_broker, unique_topic):
    program = f"""
        import ottla
        producer = ottla.Producer(bootstrap_servers="{kafka_broker.bootstrap_servers}", linger_ms=60_000)
        for number in range(5):
            producer.produce("{unique_topic}", b"forgotten")
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "5 records" in ended.stderr
    assert len(read(kafka_broker.bootstrap_servers, unique_topic, 5)) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_ctrl_c_interrupts_a_wait(kafka_broker_fresh):
    """A caller who waits for memory that does not come can be interrupted, and close() still ends."""
    program = f"""
        import signal, sys, ottla
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        producer = ottla.Producer(
            bootstrap_servers="{kafka_broker_fresh.bootstrap_servers}", buffer_memory=20_000, linger_ms=60_000
        )
        producer.partitions_for("t")
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            print("producing", flush=True)
            while True:
                producer.produce("t", b"x" * 5000)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        try:
            producer.close(0.2)
        except ottla.errors.OttlaError as error:
            print(type(error).__name__, flush=True)
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], text=True, **pipes) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            kafka_broker_fresh.stop()
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "producing\n"
            time.sleep(0.3)  # so that the buffer is full; the test passes without it, too
            child.send_signal(signal.SIGINT)
            out, complained = child.communicate(timeout=HANG_S)
        finally:
            child.kill()
    assert out.split() == ["interrupted", "SendFailed"], complained


# --- tables ---


def test_the_rows_of_a_table_come_back_as_they_were_sent(kafka_broker, producer, unique_topic):
    create(kafka_broker.bootstrap_servers, unique_topic, 3)
    count = 20_000
    table = pa.table(
        {
            "key": pa.array([f"k{n % 17}" if n % 5 else None for n in range(count)]),
            "value": pa.array([b"v%d" % n if n % 7 else None for n in range(count)]),
            "timestamp": pa.array([1_700_000_000_000 + n for n in range(count)]).cast(pa.timestamp("ms")),
            "headers": pa.array([[("n", b"%d" % n)] for n in range(count)], pa.map_(pa.string(), pa.binary())),
        }
    )
    future = producer.send_arrow(unique_topic, table, wants_future=True)
    sent = future.result(HANG_S)
    assert (len(sent), sent[7].timestamp_ms) == (count, 1_700_000_000_007)
    found = read(kafka_broker.bootstrap_servers, unique_topic, count)
    numbers = [int(message.headers()[0][1]) for message in found]
    assert sorted(numbers) == list(range(count))
    for number, message in zip(numbers, found, strict=True):
        assert message.key() == (f"k{number % 17}".encode() if number % 5 else None)
        assert message.value() == (b"v%d" % number if number % 7 else None)
        assert message.timestamp()[1] == 1_700_000_000_000 + number
        assert (message.partition(), message.offset()) == (sent[number].partition, sent[number].offset)


def test_a_table_larger_than_all_memory_waits_for_room_and_nothing_is_dropped(kafka_broker, unique_topic):
    settings = {"buffer.memory": 200_000, "batch.size": 20_000, "compression.type": "lz4", "linger.ms": 1}
    count = 30_000
    table = pa.table({"value": pa.array([b"%050d" % n for n in range(count)])})
    with Producer(settings, bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
        assert producer.send_arrow(unique_topic, table) is None
        producer.flush(HANG_S)
    found = read(kafka_broker.bootstrap_servers, unique_topic, count)
    assert sorted(int(message.value()) for message in found) == list(range(count))


def test_rows_of_an_aborted_transaction_do_not_count_and_committed_ones_do(kafka_broker, unique_topic):
    other = f"{unique_topic}-other"
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, transactional_id=unique_topic) as producer:
        with pytest.raises(TransactionMisuse):
            producer.send_arrow(unique_topic, pa.table({"value": [b"too early"]}))
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_arrow(unique_topic, pa.table({"value": [b"aborted"] * 500}))
        producer.abort_transaction()
        with producer.transaction():
            table = pa.table({"value": [b"1", b"2", b"3"], "topic": [unique_topic, other, unique_topic]})
            producer.send_arrow(None, table)
    assert [m.value() for m in read(kafka_broker.bootstrap_servers, unique_topic, 2)] == [b"1", b"3"]
    assert [m.value() for m in read(kafka_broker.bootstrap_servers, other, 1)] == [b"2"]


def test_a_table_that_finds_no_memory_in_time_says_how_many_rows_were_taken(unique_topic):
    settings = {"buffer.memory": 50_000, "batch.size": 16_000, "max.block.ms": 2_000, "linger.ms": 1}
    with KafkaBroker() as broker:
        producer = Producer(settings, bootstrap_servers=broker.bootstrap_servers)
        producer.send(unique_topic, b"first").result(HANG_S)
        broker.stop()
        with pytest.raises(BufferExhausted, match=r"the first \d+ rows were taken"):
            producer.send_arrow(unique_topic, pa.table({"value": [b"x" * 1000] * 500}))
        with pytest.raises(SendFailed):
            producer.close(0)
