"""RangeReader: exactly the records of its ranges, told losses, ended waits. Against a real and a fake broker."""

from __future__ import annotations

import logging
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.client.weather import SEEDS, Storm
from tests.patience import HANG_S, bounded

from ottla import Admin, NewTopic, Producer
from ottla.client.consumer import range_reader
from ottla.client.consumer.range_reader import RangeReader
from ottla.client.consumer.ranges import DataLost, ReadTimedOut, TopicRange
from ottla.client.loop import ClientClosed
from ottla.errors import CorruptMessage, TopicAuthorizationFailed
from ottla.records import BatchBuilder, Compression, crc32c
from ottla.testing import FakeBroker
from ottla.values import TopicPartition, uuid_to_text

QUICK = {
    "request_timeout_ms": 1_000,
    "fetch_max_wait_ms": 50,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
}
HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
EVERYTHING = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
PLACE = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    """Nobody waits a second for a broker that is in this process."""
    monkeypatch.setattr(range_reader, "QUIET_S", 0.05)
    monkeypatch.setattr(range_reader, "UNKNOWN_TOPIC_S", 0.2)


@pytest.fixture
def fake():
    with FakeBroker(nodes=3) as fake:
        fake.create_topic("t", 3)
        yield fake


@pytest.fixture
def reader(kafka_broker):
    with RangeReader(bootstrap_servers=kafka_broker.bootstrap_servers) as reader:
        yield reader


def reader_of(broker, **settings):
    return RangeReader(bootstrap_servers=broker.bootstrap_servers, **QUICK, **settings)


def table(reader, ranges, schema=PLACE, **arguments):
    found = pa.Table.from_batches(reader.read(ranges, schema, **arguments), schema=schema)
    found.validate(full=True)
    return found


def offsets(reader, ranges, **arguments):
    return table(reader, ranges, **arguments).column("offset").to_pylist()


def make_topic(broker, name, partitions=1, **configs):
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, configs=configs)])


def produce(broker, topic, values, partition=0, **settings):
    with Producer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)


# -- what is there -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [each.name.lower() for each in Compression])
def test_every_column_of_every_record_whatever_the_codec(kafka_broker, unique_topic, reader, codec):
    make_topic(kafka_broker, unique_topic)
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, compression_type=codec) as producer:
        producer.send(unique_topic, b"v", key=b"k", headers=[("h", b"1"), ("h", None)], timestamp_ms=1_001)
        producer.send(unique_topic, None, key=b"", timestamp_ms=1_002)
        producer.send(unique_topic, b"", timestamp_ms=1_003)
    found = table(reader, [TopicRange(unique_topic, 0, 0, 3)], EVERYTHING)
    assert found.column("key").to_pylist() == [b"k", b"", None]
    assert found.column("value").to_pylist() == [b"v", None, b""]
    assert found.column("headers").to_pylist() == [
        [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        None,
        None,
    ]
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [1_001_000, 1_002_000, 1_003_000]
    assert found.column("timestampType").to_pylist() == [0, 0, 0]
    assert set(found.column("topic").to_pylist()) == {unique_topic}
    assert set(found.column("partition").to_pylist()) == {0}


def test_the_time_of_the_append_is_told_as_such(kafka_broker, unique_topic, reader):
    make_topic(kafka_broker, unique_topic, **{"message.timestamp.type": "LogAppendTime"})
    produce(kafka_broker, unique_topic, [b"a"])
    assert table(reader, [TopicRange(unique_topic, 0, 0, 1)], EVERYTHING).column("timestampType").to_pylist() == [1]


def test_only_the_columns_that_are_asked_for_in_their_order(kafka_broker, unique_topic, reader):
    make_topic(kafka_broker, unique_topic)
    produce(kafka_broker, unique_topic, [b"a", b"b"])
    schema = pa.schema([("offset", pa.int64()), ("topic", pa.string())])
    found = table(reader, [TopicRange(unique_topic, 0, 0, 2)], schema)
    assert found.to_pydict() == {"offset": [0, 1], "topic": [unique_topic, unique_topic]}


def test_ranges_are_exact_in_order_and_may_be_of_the_same_partition(kafka_broker, unique_topic, reader):
    make_topic(kafka_broker, unique_topic, 2)
    for partition in (0, 1):
        produce(kafka_broker, unique_topic, [b"%d" % n for n in range(1_000)], partition)
    ranges = [(0, 10, 400), (1, 0, 1_000), (0, 900, 901), (1, 5, 5)]
    found = table(reader, [TopicRange(unique_topic, *each) for each in ranges])
    rows = list(zip(found.column("partition").to_pylist(), found.column("offset").to_pylist(), strict=True))
    assert [offset for partition, offset in rows if partition == 0] == [*range(10, 400), 900]
    assert [offset for partition, offset in rows if partition == 1] == list(range(1_000))
    assert all(int(value) == offset for value, (_, offset) in zip(found.column("value").to_pylist(), rows, strict=True))


def test_many_small_partitions_become_few_batches(kafka_broker, unique_topic, reader):
    make_topic(kafka_broker, unique_topic, 40)
    for partition in range(40):
        produce(kafka_broker, unique_topic, [b"x"] * 5, partition)
    batches = list(reader.read([TopicRange(unique_topic, index, 0, 5) for index in range(40)], PLACE))
    assert [batch.num_rows for batch in batches] == [200]


def test_records_larger_than_every_limit_come(kafka_broker, unique_topic):
    make_topic(kafka_broker, unique_topic, **{"max.message.bytes": "20000000"})
    sizes = [9_000_000, 10, 5_000_000, 7]
    produce(kafka_broker, unique_topic, [b"x" * size for size in sizes], max_request_size=20_000_000)
    limits = {"max_partition_fetch_bytes": 1_000, "queued_max_bytes": 1_000}
    with RangeReader(bootstrap_servers=kafka_broker.bootstrap_servers, **limits) as reader:
        found = table(reader, [TopicRange(unique_topic, 0, 0, 4)])
    assert [len(value) for value in found.column("value").to_pylist()] == sizes


def test_what_decompresses_to_much_more_is_given_in_portions(kafka_broker, unique_topic, reader):
    make_topic(kafka_broker, unique_topic)
    settings = {"compression_type": "zstd", "batch_size": 1_000_000, "linger_ms": 50}
    produce(kafka_broker, unique_topic, [b"x" * 20_000] * 2_000, **settings)
    batches = list(reader.read([TopicRange(unique_topic, 0, 0, 2_000)], PLACE))
    assert sum(batch.num_rows for batch in batches) == 2_000
    assert max(batch.nbytes for batch in batches) <= 8 * 1024 * 1024


# -- gaps --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_and_their_markers_leave_gaps_and_nothing_else(kafka_broker, unique_topic, isolation):
    make_topic(kafka_broker, unique_topic)
    settings = {"transactional_id": unique_topic}
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, **settings) as producer:
        producer.init_transactions()
        for outcome in ("commit", "abort", "commit", "abort"):
            producer.begin_transaction()
            for number in range(3):
                producer.send(unique_topic, f"{outcome}-{number}".encode(), partition=0)
            producer.flush()
            getattr(producer, f"{outcome}_transaction")()
    committed = [0, 1, 2, 8, 9, 10]
    expected = committed if isolation == "read_committed" else sorted([*committed, 4, 5, 6, 12, 13, 14])
    with reader_of(kafka_broker, isolation_level=isolation) as reader:
        assert offsets(reader, [TopicRange(unique_topic, 0, 0, 16)]) == expected
        # Ends and beginnings inside what is passed over.
        assert offsets(reader, [TopicRange(unique_topic, 0, 3, 4)]) == []
        assert offsets(reader, [TopicRange(unique_topic, 0, 15, 16)]) == []
        assert offsets(reader, [TopicRange(unique_topic, 0, 5, 9)]) == [each for each in expected if 5 <= each < 9]


def test_an_open_transaction_holds_the_reader_of_committed_records_and_is_named(kafka_broker, unique_topic):
    make_topic(kafka_broker, unique_topic)
    settings = {"transactional_id": unique_topic, "linger_ms": 0}
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers, **settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(unique_topic, b"a", partition=0).result(HANG_S)
        with reader_of(kafka_broker, isolation_level="read_committed") as reader:
            with pytest.raises(ReadTimedOut, match="open transaction"):
                offsets(reader, [TopicRange(unique_topic, 0, 0, 1)], poll_timeout_ms=400)
            producer.commit_transaction()
            assert offsets(reader, [TopicRange(unique_topic, 0, 0, 2)]) == [0]


def test_offsets_that_compaction_took_are_no_loss(fake):
    for _ in range(6):
        fake.append("t", [b"x"] * 5)
    log = fake.log("t", 0)
    for index in (4, 2, 1):  # offsets 5 to 14 and 20 to 24
        del log.batches[index], log.base_offsets[index]
    with reader_of(fake) as reader:
        assert offsets(reader, [TopicRange("t", 0, 0, 30)]) == [*range(5), *range(15, 20), *range(25, 30)]
        assert offsets(reader, [TopicRange("t", 0, 6, 12)]) == []
        assert offsets(reader, [TopicRange("t", 0, 12, 23)]) == list(range(15, 20))


def test_an_empty_batch_that_compaction_left_at_the_end_is_passed(fake):
    fake.append("t", [b"x"] * 5)
    fake.append("t", [b"y"] * 5)
    log = fake.log("t", 0)
    header = bytearray(log.batches[1][:61])
    header[8:12] = (61 - 12).to_bytes(4, "big")
    header[57:61] = bytes(4)  # no records
    header[17:21] = crc32c(bytes(header[21:])).to_bytes(4, "big")
    log.batches[1] = bytes(header)
    with reader_of(fake) as reader:
        assert offsets(reader, [TopicRange("t", 0, 3, 10)]) == [3, 4]
        assert offsets(reader, [TopicRange("t", 0, 5, 10)]) == []


def test_what_is_damaged_is_an_error_with_its_place(fake):
    fake.append("t", [b"a", b"b"])
    log = fake.log("t", 0)
    log.batches[0] = log.batches[0][:-1] + b"!"
    with reader_of(fake) as reader, pytest.raises(CorruptMessage, match=r"t.*0"):
        offsets(reader, [TopicRange("t", 0, 0, 2)])


# -- losses ------------------------------------------------------------------------------------------------------------


def test_deleted_records_are_a_loss_that_is_raised_or_told_once(kafka_broker, unique_topic, caplog):
    make_topic(kafka_broker, unique_topic)
    produce(kafka_broker, unique_topic, [b"x"] * 20)
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(unique_topic, 0): 7})
    with reader_of(kafka_broker) as reader:
        with pytest.raises(DataLost, match=rf"offsets 3 to 6 of {unique_topic}-0 are gone: the log begins at offset 7"):
            offsets(reader, [TopicRange(unique_topic, 0, 3, 20)])
        with caplog.at_level(logging.WARNING):
            assert offsets(reader, [TopicRange(unique_topic, 0, 3, 12)], fail_on_data_loss=False) == list(range(7, 12))
            assert offsets(reader, [TopicRange(unique_topic, 0, 0, 5)], fail_on_data_loss=False) == []
        assert [record.message.split(" are gone")[0] for record in caplog.records if "are gone" in record.message] == [
            f"offsets 3 to 6 of {unique_topic}-0",
            f"offsets 0 to 4 of {unique_topic}-0",
        ]
        assert offsets(reader, [TopicRange(unique_topic, 0, 7, 20)]) == list(range(7, 20))


def test_a_range_beyond_the_end_is_a_loss_after_what_is_there(kafka_broker, unique_topic):
    make_topic(kafka_broker, unique_topic)
    produce(kafka_broker, unique_topic, [b"x"] * 5)
    with reader_of(kafka_broker) as reader:
        with pytest.raises(DataLost, match=r"offsets 5 to 8 of .* are gone: the log ends at offset 5"):
            offsets(reader, [TopicRange(unique_topic, 0, 0, 9)])
        assert offsets(reader, [TopicRange(unique_topic, 0, 2, 9)], fail_on_data_loss=False) == [2, 3, 4]
        with pytest.raises(DataLost, match="the log ends at offset 5"):
            offsets(reader, [TopicRange(unique_topic, 0, 7, 9)])


def test_a_topic_that_is_not_there_is_a_loss(kafka_broker, unique_topic):
    with reader_of(kafka_broker) as reader:
        with pytest.raises(DataLost, match="its topic is gone"):
            offsets(reader, [TopicRange(unique_topic, 0, 0, 9)])
        assert offsets(reader, [TopicRange(unique_topic, 0, 0, 9)], fail_on_data_loss=False) == []


def test_a_topic_made_anew_is_not_taken_for_the_old_one(kafka_broker, unique_topic):
    other = f"{unique_topic}-other"
    make_topic(kafka_broker, unique_topic)
    make_topic(kafka_broker, other)
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        old_id = uuid_to_text(admin.describe_topics([unique_topic])[unique_topic].topic_id)
        admin.delete_topics([unique_topic])
        admin.create_topics([NewTopic(unique_topic, 1, 1)])
        new_id = uuid_to_text(admin.describe_topics([unique_topic])[unique_topic].topic_id)
    for topic in (unique_topic, other):
        produce(kafka_broker, topic, [b"new"] * 5)
    with reader_of(kafka_broker) as reader:
        with pytest.raises(DataLost, match="made anew"):
            offsets(reader, [TopicRange(unique_topic, 0, 0, 5, old_id)])
        ranges = [TopicRange(unique_topic, 0, 0, 5, old_id), TopicRange(other, 0, 0, 5)]
        assert offsets(reader, ranges, fail_on_data_loss=False) == [0, 1, 2, 3, 4]
        assert offsets(reader, [TopicRange(unique_topic, 0, 0, 5, new_id)]) == [0, 1, 2, 3, 4]


# -- bad weather -------------------------------------------------------------------------------------------------------


def test_a_silent_leader_ends_in_an_error_that_names_the_place(fake):
    fake.append("t", [b"x"] * 5, 1)
    fake.mute("Fetch", times=None)
    with (
        bounded(),
        reader_of(fake) as reader,
        pytest.raises(ReadTimedOut, match=r"t-1 at offset 2, to be read up to 5, .* 300 ms"),
    ):
        offsets(reader, [TopicRange("t", 1, 2, 5)], poll_timeout_ms=300)


def test_a_late_leader_is_waited_for(fake):
    fake.append("t", [b"x"] * 5)
    fake.delay("Fetch", ms=200, times=3)
    with reader_of(fake) as reader:
        assert offsets(reader, [TopicRange("t", 0, 0, 5)]) == [0, 1, 2, 3, 4]


def test_no_broker_at_all_ends_in_an_error(fake):
    address = fake.bootstrap_servers
    fake.stop()
    with (
        RangeReader(bootstrap_servers=address, **QUICK) as reader,
        pytest.raises(ReadTimedOut, match="no leader is known"),
    ):
        offsets(reader, [TopicRange("t", 0, 0, 5)], poll_timeout_ms=300)


def test_what_is_forbidden_is_raised_as_such(fake):
    fake.append("t", [b"x"])
    fake.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None, topic="t", partition=0)
    with reader_of(fake) as reader, pytest.raises(TopicAuthorizationFailed):
        offsets(reader, [TopicRange("t", 0, 0, 1)])


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_of_the_ranges_comes_once_through_a_storm(fake, seed):
    storm = Storm(fake, seed, api="Fetch")
    for partition in range(3):
        for first in range(0, 1_000, 50):
            fake.append("t", [b"%d" % number for number in range(first, first + 50)], partition)
    found: dict[int, list[int]] = {0: [], 1: [], 2: []}
    with reader_of(fake, max_partition_fetch_bytes=2_000) as reader:
        ranges = [TopicRange("t", 0, 0, 1_000), TopicRange("t", 1, 333, 777), TopicRange("t", 2, 0, 999)]
        for batch in reader.read(ranges, PLACE):
            storm.blow()
            for row in batch.to_pylist():
                found[row["partition"]].append(row["offset"])
                assert int(row["value"]) == row["offset"]
    assert found == {0: list(range(1_000)), 1: list(range(333, 777)), 2: list(range(999))}


# -- use ---------------------------------------------------------------------------------------------------------------


def test_nothing_is_fetched_behind_the_end_of_a_range(fake):
    for _ in range(20):
        fake.append("t", [b"x" * 100] * 10)
    with reader_of(fake, max_partition_fetch_bytes=1) as reader:
        assert offsets(reader, [TopicRange("t", 0, 0, 15)]) == list(range(15))
        asked = fake.asked("Fetch")
        assert offsets(reader, [TopicRange("t", 0, 0, 10)]) == list(range(10))
        assert fake.asked("Fetch") <= asked + 2


def test_a_read_that_is_given_up_leaves_a_usable_reader(fake):
    fake.append("t", [b"x"] * 10_000)
    with reader_of(fake) as reader:
        reading = reader.read([TopicRange("t", 0, 0, 10_000), TopicRange("t", 1, 0, 5)], PLACE)
        assert next(reading).num_rows
        with pytest.raises(RuntimeError, match="reading already"):
            next(reader.read([TopicRange("t", 0, 0, 1)], PLACE))
        reading.close()
        assert offsets(reader, [TopicRange("t", 0, 3, 5)]) == [3, 4]


def test_a_closed_reader_says_so(fake):
    reader = reader_of(fake)
    reader.close()
    reader.close()
    with pytest.raises(ClientClosed):
        offsets(reader, [TopicRange("t", 0, 0, 1)])
    with pytest.raises(ClientClosed):
        reader.partitions_of("t")


def test_wrong_ranges_and_columns_are_refused(fake):
    with reader_of(fake) as reader:
        with pytest.raises(ValueError, match="no range"):
            offsets(reader, [TopicRange("t", 0, 5, 4)])
        with pytest.raises(ValueError, match="no column 'nope'"):
            list(reader.read([TopicRange("t", 0, 0, 1)], pa.schema([("nope", pa.int64())])))
        with pytest.raises(ValueError, match="at least one column"):
            list(reader.read([TopicRange("t", 0, 0, 1)], pa.schema([])))


PROGRAM = """
import sys, pyarrow as pa
from ottla.client.consumer.range_reader import RangeReader
from ottla.client.consumer.ranges import TopicRange
from ottla.records.implementation import CHOSEN
schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(sys.argv[2])))
with RangeReader(bootstrap_servers=sys.argv[1]) as reader:
    table = pa.Table.from_batches(reader.read([TopicRange("t", 0, 3, 59)], schema)).combine_chunks()
print(CHOSEN, table.schema == schema, hash(str(table.to_pylist())))
"""


def test_both_twins_give_the_same_table(fake):
    for codec in Compression:
        builder = BatchBuilder(compression=codec)
        for number in range(12):
            key = None if number % 3 else b"%d" % number
            value = None if number % 5 == 4 else b"v" * number
            builder.append(1_000 + number, key, value, [("h", b"x")] * (number % 2))
        fake.log("t", 0).append(builder.close())
    arguments = [sys.executable, "-c", PROGRAM, fake.bootstrap_servers, EVERYTHING.serialize().to_pybytes().hex()]
    found = {
        twin: subprocess.run(
            arguments,
            env={"OTTLA_RECORDS": twin, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=True,
            timeout=HANG_S,
        ).stdout.split()
        for twin in ("native", "python")
    }
    assert found["native"][0] == "native"
    assert found["python"][0] == "python"
    assert found["native"][1:] == found["python"][1:]
    assert found["native"][1] == "True"
