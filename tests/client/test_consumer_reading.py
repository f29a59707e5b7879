"""Consumer against a real broker in this process: reading without a group."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.patience import FAR_MS, HANG_S, bounded

from ottla.client.consumer.consumer import ConcurrentUse, Consumer, WokenUp
from ottla.client.consumer.record_errors import DeserializationFailed
from ottla.client.consumer.subscription import NoOffsetForPartition, NotAssigned, NotSubscribed
from ottla.client.loop import ClientClosed, ForkedClient
from ottla.errors import InvalidGroupId, OffsetOutOfRange, RequestTimedOut
from ottla.testing.broker import KafkaBroker
from ottla.values import Header, TopicPartition

WHILE_MS = 1_000  # without records; long enough that the first ones come in time on a busy machine


def produce(broker, topic, values, *, partition=0, settings=None, **fields):
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, **(settings or {})})
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=partition, timestamp=1_000 * (index + 1), **fields)
    assert producer.flush(HANG_S) == 0


def create_topic(broker, topic, partitions=1, **config):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(HANG_S)


def consumer_of(broker, *partitions, **settings):
    settings = {"auto_offset_reset": "earliest", **settings}
    consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, **settings)
    if partitions:
        consumer.assign(partitions)
    return consumer


def read(consumer, count, limit_s=HANG_S):
    found = []
    deadline = time.monotonic() + limit_s
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(0.5)
    return found


@pytest.fixture
def topic(kafka_broker, unique_topic):
    create_topic(kafka_broker, unique_topic, 2)
    return unique_topic


def test_assigned_partitions_are_read_with_everything_in_their_records(kafka_broker, topic):
    produce(kafka_broker, topic, [b"a", None], key=b"k", headers=[("h", b"1"), ("h", None)])
    with consumer_of(kafka_broker, TopicPartition(topic, 0)) as consumer:
        first, second = read(consumer, 2)
        assert (first.topic, first.partition, first.offset, first.key, first.value) == (topic, 0, 0, b"k", b"a")
        assert (first.timestamp_ms, first.leader_epoch) == (1_000, 0)
        assert second.headers == (Header("h", b"1"), Header("h", None))
        assert second.value is None
        assert consumer.position(TopicPartition(topic, 0)) == 2
        assert consumer.lag(TopicPartition(topic, 0)) == 0


def test_a_poll_gives_at_most_what_was_asked_for_and_nothing_twice(kafka_broker, topic):
    produce(kafka_broker, topic, [b"%d" % number for number in range(1000)])
    produce(kafka_broker, topic, [b"%d" % number for number in range(500)], partition=1)
    with consumer_of(kafka_broker, TopicPartition(topic, 0), TopicPartition(topic, 1)) as consumer:
        found = []
        while len(found) < 1500:
            part = consumer.poll(5, max_records=7)
            assert 0 < len(part) <= 7
            found += part
        assert consumer.poll(0) == []
        for partition, count in ((0, 1000), (1, 500)):
            mine = [record for record in found if record.partition == partition]
            assert [record.offset for record in mine] == list(range(count))
            assert [record.value for record in mine] == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(kafka_broker, topic, codec):
    values = [b"value %d " % number * 10 for number in range(300)]
    produce(kafka_broker, topic, values, settings={"compression.type": codec, "linger.ms": 20})
    with consumer_of(kafka_broker, TopicPartition(topic, 0)) as consumer:
        assert [record.value for record in read(consumer, 300)] == values


def test_records_that_come_later_are_waited_for(kafka_broker, topic):
    with consumer_of(kafka_broker, TopicPartition(topic, 0)) as consumer:
        assert consumer.poll(0.05) == []
        later = threading.Timer(0.1, produce, (kafka_broker, topic, [b"late"]))
        later.start()
        with bounded():
            assert [record.value for record in consumer.poll(FAR_MS // 1000)] == [b"late"]
        later.join()


def test_seeking_goes_to_offsets_times_and_ends(kafka_broker, topic):
    produce(kafka_broker, topic, [b"%d" % number for number in range(10)])
    name = TopicPartition(topic, 0)
    with consumer_of(kafka_broker, name) as consumer:
        assert len(read(consumer, 10)) == 10
        consumer.seek(name, 7)
        assert [record.offset for record in read(consumer, 3)] == [7, 8, 9]
        consumer.seek_to_beginning(name)
        assert read(consumer, 10)[0].offset == 0
        consumer.seek_to_time({name: 4_500})
        assert read(consumer, 6)[0].timestamp_ms == 5_000
        consumer.seek_to_end()
        assert consumer.position(name) == 10
        consumer.seek_to_time({name: 99_000})
        assert consumer.position(name) == 10
        assert consumer.offsets_for_times({name: 2_000})[name].offset == 1
        assert consumer.offsets_for_times({name: 99_000}) == {name: None}
        assert consumer.beginning_offsets([name]) == {name: 0}
        assert consumer.end_offsets([name, TopicPartition(topic, 1)]) == {name: 10, TopicPartition(topic, 1): 0}


def test_paused_partitions_wait_and_lose_nothing(kafka_broker, topic):
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(kafka_broker, topic, [b"a"] * 100)
    produce(kafka_broker, topic, [b"b"] * 100, partition=1)
    with consumer_of(kafka_broker, one, two, max_poll_records=10) as consumer:
        first = read(consumer, 10)
        consumer.pause(one)
        assert consumer.paused() == {one}
        others = read(consumer, 100 - sum(record.partition == 1 for record in first))
        assert {record.partition for record in others} == {1}
        assert consumer.poll(0.05) == []
        consumer.resume(one)
        rest = read(consumer, 100 - sum(record.partition == 0 for record in first))
        mine = [record.offset for record in [*first, *rest] if record.partition == 0]
        assert mine == list(range(100))


def test_an_arrow_table_holds_the_same_as_the_records(kafka_broker, topic):
    values = [b"%d" % number if number % 3 else None for number in range(1000)]
    produce(kafka_broker, topic, values, key=b"k", headers=[("h", b"1")])
    name = TopicPartition(topic, 0)
    with consumer_of(kafka_broker, name) as consumer:
        records = read(consumer, 1000)
        consumer.seek_to_beginning()
        tables = []
        while sum(table.num_rows for table in tables) < 1000:
            table = consumer.poll_arrow(5, max_records=300)
            assert table is not None
            tables.append(table)
        rows = [row for table in tables for row in table.to_pylist()]
        assert [(row["topic"], row["partition"], row["offset"], row["key"], row["value"]) for row in rows] == [
            (record.topic, record.partition, record.offset, record.key, record.value) for record in records
        ]
        assert rows[0]["headers"] == [{"key": "h", "value": b"1"}]
        assert consumer.position(name) == 1000
        assert consumer.poll_arrow(0) is None


def test_tables_and_records_can_be_taken_in_turns(kafka_broker, topic):
    produce(kafka_broker, topic, [b"%d" % number for number in range(100)])
    with consumer_of(kafka_broker, TopicPartition(topic, 0)) as consumer:
        assert [record.offset for record in consumer.poll(5, max_records=3)] == [0, 1, 2]
        found = []
        while len(found) < 97:
            found += consumer.poll_arrow(5).column("offset").to_pylist()
        assert found == list(range(3, 100))


def test_records_above_every_limit_are_still_read(kafka_broker, topic):
    big = os.urandom(700_000)
    produce(kafka_broker, topic, [b"small", big, b"small"])
    limits = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 1000, "queued_max_bytes": 1000}
    with consumer_of(kafka_broker, TopicPartition(topic, 0), **limits) as consumer:
        assert [record.value for record in read(consumer, 3)] == [b"small", big, b"small"]


def test_read_committed_leaves_out_what_was_aborted(kafka_broker, topic):
    settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": f"{topic}-txn"}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(10)
    for number in range(6):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, b"%d" % number, partition=0)
        producer.flush()
        if number % 2:
            producer.abort_transaction(10)
        else:
            producer.commit_transaction(10)
    name = TopicPartition(topic, 0)
    with consumer_of(kafka_broker, name, isolation_level="read_committed") as consumer:
        assert [record.value for record in read(consumer, 9)] == [b"0"] * 3 + [b"2"] * 3 + [b"4"] * 3
        assert consumer.poll(0.1) == []
        assert consumer.position(name) == 24  # over the markers too
        consumer.seek_to_beginning()
        table = consumer.poll_arrow(5)
        while table.num_rows < 9:
            import pyarrow

            table = pyarrow.concat_tables([table, consumer.poll_arrow(5)])
        assert table.column("value").to_pylist() == [b"0"] * 3 + [b"2"] * 3 + [b"4"] * 3
    with consumer_of(kafka_broker, name) as consumer:
        assert len(read(consumer, 18)) == 18
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush()
    with consumer_of(kafka_broker, name, isolation_level="read_committed") as consumer:
        consumer.seek(name, 24)
        assert consumer.poll(0.1) == []
        assert consumer.end_offsets([name]) == {name: 24}
        producer.commit_transaction(10)
        assert [record.value for record in read(consumer, 1)] == [b"open"]


def test_a_record_that_cannot_be_deserialized_can_be_passed_over(kafka_broker, topic):
    produce(kafka_broker, topic, [b'{"n": 1}', b"not json", b'{"n": 3}'])
    name = TopicPartition(topic, 0)
    with consumer_of(kafka_broker, name, value_deserializer="json") as consumer:
        assert [record.value for record in read(consumer, 1)] == [{"n": 1}]
        for _ in range(2):
            with pytest.raises(DeserializationFailed, match="at offset 1") as caught:
                consumer.poll(HANG_S)
        assert consumer.position(name) == 1
        consumer.seek(caught.value.topic_partition, caught.value.offset + 1)
        assert [record.value for record in read(consumer, 1)] == [{"n": 3}]


def test_offsets_that_were_deleted_mean_a_reset_or_an_error(kafka_broker, topic):
    produce(kafka_broker, topic, [b"%d" % number for number in range(10)])
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    where = confluent_kafka.TopicPartition(topic, 0, 6)
    admin.delete_records([where])[where].result(HANG_S)
    name = TopicPartition(topic, 0)
    with consumer_of(kafka_broker, name) as consumer:
        consumer.seek(name, 2)
        assert [record.offset for record in read(consumer, 4)] == [6, 7, 8, 9]
    with consumer_of(kafka_broker, name, auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffsetForPartition, match=topic):
            consumer.poll(HANG_S)
        consumer.seek(name, 2)
        with pytest.raises(OffsetOutOfRange, match="at offset 2"):
            read(consumer, 1)
        consumer.seek(name, 8)
        assert [record.offset for record in read(consumer, 2)] == [8, 9]


def test_iterating_gives_one_by_one_and_ends_after_a_while_without(kafka_broker, topic):
    produce(kafka_broker, topic, [b"%d" % number for number in range(1200)])
    name = TopicPartition(topic, 0)
    with consumer_of(kafka_broker, name, consumer_timeout_ms=WHILE_MS) as consumer:
        found = []
        for record in consumer:
            found.append(record.offset)
            if len(found) == 10:
                break
        # What the iterator holds is not consumed yet.
        assert consumer.position(name) == 10
        assert next(consumer).offset == 10
        assert [record.offset for record in consumer.poll(1, max_records=2)] == [11, 12]
        assert [record.offset for record in consumer] == list(range(13, 1200))


def test_a_topic_that_is_made_again_is_read_from_its_beginning(kafka_broker, topic):
    produce(kafka_broker, topic, [b"old"] * 5)
    name = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    with consumer_of(kafka_broker, name, allow_auto_create_topics=False) as consumer:
        assert len(read(consumer, 5)) == 5
        admin.delete_topics([topic])[topic].result(HANG_S)
        assert consumer.poll(0.2) == []
        create_topic(kafka_broker, topic, 1)
        produce(kafka_broker, topic, [b"new", b"newer"])
        assert [(record.offset, record.value) for record in read(consumer, 2)] == [(0, b"new"), (1, b"newer")]


def test_a_broker_that_restarts_is_found_again(tmp_path, unique_topic):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with KafkaBroker(settings, directory=tmp_path) as broker:
        produce(broker, unique_topic, [b"before"])
        consumer = consumer_of(broker, TopicPartition(unique_topic, 0))
        assert [record.value for record in read(consumer, 1)] == [b"before"]
    assert consumer.poll(0.1) == []
    with KafkaBroker(settings, directory=tmp_path) as broker:
        produce(broker, unique_topic, [b"after"])
        assert [record.value for record in read(consumer, 1)] == [b"after"]
        consumer.close()


def test_without_a_broker_polls_are_empty_and_everything_ends_in_time():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        consumer = Consumer(bootstrap_servers=address, group_id="g", auto_offset_reset="earliest")
        consumer.assign([TopicPartition("t", 0)])
        assert consumer.poll(0.1) == []
        with pytest.raises(RequestTimedOut):
            consumer.position(TopicPartition("t", 0), timeout=0.2)
        with pytest.raises(RequestTimedOut, match="t-0"):
            consumer.end_offsets([TopicPartition("t", 0)], timeout=0.2)
        with bounded():
            consumer.close(timeout=1)


def test_what_cannot_be_is_told(kafka_broker, topic):
    with consumer_of(kafka_broker) as consumer:
        with pytest.raises(NotSubscribed):
            consumer.poll(0)
        with pytest.raises(NotAssigned, match="assigned are none"):
            consumer.seek(TopicPartition(topic, 0), 0)
        with pytest.raises(Exception, match=r"group\.id"):
            consumer.subscribe([topic])
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(TypeError, match="not both"):
            consumer.poll(1, timeout_ms=5)
        with pytest.raises(ValueError, match="at least 1"):
            consumer.poll(1, max_records=0)
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.poll(0)
    with pytest.raises(ClientClosed):
        consumer.assign([])


def test_topics_without_a_group_are_refused_before_anything_is_opened(kafka_broker, topic):
    before = threading.active_count()
    with pytest.raises(InvalidGroupId, match=r"without a group\.id; set group_id to subscribe"):
        Consumer(topic, bootstrap_servers=kafka_broker.bootstrap_servers)
    assert threading.active_count() == before


def test_a_start_that_fails_leaves_no_socket_open(kafka_broker, topic, monkeypatch):
    def refuse(self, *_: object) -> None:
        self._run(self._core.network.refresh_metadata(timeout_ms=HANG_S * 1000))
        raise RuntimeError("not today")

    monkeypatch.setattr(Consumer, "subscribe", refuse)
    with pytest.raises(RuntimeError, match="not today"):
        Consumer(topic, bootstrap_servers=kafka_broker.bootstrap_servers, group_id="g")
    gc.collect()  # an open socket would complain, and the test with it


def test_a_poll_can_be_woken_up_and_is_for_one_thread(kafka_broker, topic):
    with consumer_of(kafka_broker, TopicPartition(topic, 0)) as consumer:
        failures = []

        def poll():
            try:
                consumer.poll(HANG_S)
            except WokenUp as error:
                failures.append(error)

        thread = threading.Thread(target=poll)
        thread.start()
        while not consumer._polling.locked():
            time.sleep(0.001)
        with pytest.raises(ConcurrentUse):
            consumer.poll(0)
        consumer.wakeup()
        thread.join(HANG_S)
        assert len(failures) == 1
        assert consumer.poll(0) == []


def test_ctrl_c_ends_a_poll_and_the_consumer_stays_usable(kafka_broker, topic):
    with consumer_of(kafka_broker, TopicPartition(topic, 0)) as consumer:
        # A process that a shell started in the background ignores Ctrl-C, and so would this test.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        interrupt.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(FAR_MS // 1000)
        finally:
            signal.signal(signal.SIGINT, before)
        produce(kafka_broker, topic, [b"after"])
        assert [record.value for record in read(consumer, 1)] == [b"after"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_in_a_forked_child_every_call_says_so_at_once(kafka_broker, topic):
    with consumer_of(kafka_broker, TopicPartition(topic, 0)) as consumer:
        assert consumer.poll(0) == []
        child = os.fork()
        if not child:
            told = 1
            try:
                consumer.poll(FAR_MS // 1000)
            except ForkedClient:
                consumer.close()
                told = 0
            finally:
                os._exit(told)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_interceptors_see_records_and_commits(kafka_broker, topic, unique_group):
    produce(kafka_broker, topic, [b"a", b"b", b"c"])
    seen = []

    class Interceptor:
        def on_consume(self, records):
            return [record for record in records if record.value != b"b"]

        def on_commit(self, offsets):
            seen.append(offsets)

        def close(self):
            seen.append("closed")

    name = TopicPartition(topic, 0)
    settings = {"group_id": unique_group, "enable_auto_commit": False, "interceptor_classes": [Interceptor]}
    with consumer_of(kafka_broker, name, **settings) as consumer:
        assert [record.value for record in read(consumer, 2)] == [b"a", b"c"]
        consumer.commit()
    assert seen[0][name].offset == 3
    assert seen[1:] == ["closed"]


def test_the_cluster_can_be_looked_at(kafka_broker, topic):
    with consumer_of(kafka_broker) as consumer:
        assert [info.partition for info in consumer.partitions_for(topic)] == [0, 1]
        assert topic in consumer.topics()
        names = {key.name for key in consumer.metrics()}
        assert {"records-lag-max", "fetch-rate", "bytes-consumed-total", "commit-latency-avg"} <= names
