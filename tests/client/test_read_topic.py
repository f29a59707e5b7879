"""ottla.read_topic(): a topic as one table, exact between its places, with errors that say what to write."""

from __future__ import annotations

import datetime
import subprocess
import sys

import pyarrow as pa
import pytest

from ottla import Admin, NewTopic, Producer, read_topic
from ottla.client.topic_table import NotText
from ottla.errors import InvalidSetting, UnknownTopicOrPartition
from ottla.values import TopicPartition

COUNT = 300


@pytest.fixture(scope="module")
def broker():
    from ottla.testing import KafkaBroker

    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def topic(broker):
    """Two partitions; offset n of partition p was written at second n and holds p/n."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("clicks", 2, 1)])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(COUNT):
            for partition in (0, 1):
                value = f"{partition}/{number}".encode()
                key = b"k%d" % number if number % 2 else None
                producer.send("clicks", value, key=key, partition=partition, timestamp_ms=1_000 * number)
    return "clicks"


@pytest.fixture
def read(broker):
    def read_with(topic, **arguments):
        return read_topic(topic, bootstrap_servers=broker.bootstrap_servers, **arguments)

    return read_with


def places(table):
    found: dict[int, list[int]] = {}
    for partition, offset in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True):
        found.setdefault(partition, []).append(offset)
    return found


def at(second):
    return datetime.datetime.fromtimestamp(second, datetime.UTC)


def test_the_whole_topic_by_default(read, topic):
    table = read(topic)
    assert isinstance(table, pa.Table)
    assert table.column_names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert places(table) == {0: list(range(COUNT)), 1: list(range(COUNT))}
    row = next(row for row in table.to_pylist() if (row["partition"], row["offset"]) == (1, 7))
    assert row == {
        "topic": topic,
        "partition": 1,
        "offset": 7,
        "timestamp": at(7),
        "key": b"k7",
        "value": b"1/7",
        "headers": [],
    }


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (10, 13, {0: [10, 11, 12], 1: [10, 11, 12]}),
        (COUNT - 1, "latest", {0: [COUNT - 1], 1: [COUNT - 1]}),
        ("latest", "latest", {}),
        (5, 5, {}),
        (9, 3, {}),
        (at(295), at(297), {0: [295, 296], 1: [295, 296]}),
        (at(COUNT - 1), at(10_000_000), {0: [COUNT - 1], 1: [COUNT - 1]}),
        (at(10_000_000), "latest", {}),
        ({0: 298, 1: "latest"}, "latest", {0: [298, 299]}),
        ({1: at(298)}, {0: 2, 1: 10**9}, {0: [0, 1], 1: [298, 299]}),
        (0, 10**18, {0: list(range(COUNT)), 1: list(range(COUNT))}),
    ],
)
def test_places_are_offsets_times_and_ends(read, topic, start, end, expected):
    assert places(read(topic, start=start, end=end)) == expected


def test_only_some_partitions_columns_and_rows(read, topic):
    table = read(topic, partitions=[1], columns=["value", "offset", "partition"], limit=4)
    assert table.column_names == ["value", "offset", "partition"]
    assert table["value"].to_pylist() == [b"1/0", b"1/1", b"1/2", b"1/3"]
    assert read(topic, limit=0).num_rows == 0
    assert read(topic, limit=10**9).num_rows == 2 * COUNT
    assert read(topic, columns="offset", start=299).to_pydict() == {"offset": [299, 299]}


def test_text_when_it_is_asked_for(read, topic):
    table = read(topic, key_format="string", value_format="string", partitions=[0], end=2)
    assert table["value"].to_pylist() == ["0/0", "0/1"]
    assert table["key"].to_pylist() == [None, "k1"]
    assert read(topic, value_format="string", columns=["offset"], end=1).column_names == ["offset"]


def test_what_is_not_text_is_an_error_that_says_what_to_do(read, broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("bytes", b"\xff\xfe")
    with pytest.raises(NotText, match="binary"):
        read("bytes", value_format="string")


def test_pandas(read, topic):
    pandas = pytest.importorskip("pandas", reason="needs what pip install 'ottla[dev]' brings")
    frame = read(topic, as_="pandas", value_format="string")
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 2 * COUNT
    assert frame["timestamp"].dt.tz is not None
    assert sorted(frame["value"])[0] == "0/0"


def test_polars(read, topic):
    polars = pytest.importorskip("polars", reason="needs what pip install 'ottla[dev]' brings")
    frame = read(topic, as_="polars", columns=["partition", "value"])
    assert isinstance(frame, polars.DataFrame)
    assert frame.height == 2 * COUNT
    assert set(frame["partition"]) == {0, 1}


def test_records_that_were_deleted_before_are_not_missed(read, broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(10):
            producer.send("trimmed", b"x", partition=0)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("trimmed", 0): 6})
    assert places(read("trimmed", partitions=[0])) == {0: [6, 7, 8, 9]}
    assert places(read("trimmed", partitions=[0], start=2)) == {0: [6, 7, 8, 9]}


def test_only_committed_records_on_demand(read, broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        for outcome in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.send("transactions", outcome.__name__.encode(), partition=0)
            producer.flush()
            outcome()
    assert read("transactions", isolation_level="read_committed")["value"].to_pylist() == [b"commit_transaction"]
    assert read("transactions")["value"].to_pylist() == [b"abort_transaction", b"commit_transaction"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"as_": "numpy"}, "arrow, pandas, polars"),
        ({"columns": ["nope"]}, "'nope' is no column; there are topic"),
        ({"columns": []}, "no column was asked for"),
        ({"columns": ["key", "key"]}, "twice"),
        ({"limit": -1}, "limit must be 0 or more"),
        ({"value_format": "json"}, "binary, string"),
        ({"start": "first"}, "'earliest' or 'latest'"),
        ({"start": -2}, "is no place"),
        ({"start": True}, "is no place"),
        ({"end": datetime.datetime(2026, 1, 1)}, "no time zone"),
        ({"partitions": [7]}, "partitions 0 to 1, and no 7"),
        ({"start": {9: 0}}, "partitions 0 to 1, and no 9"),
    ],
)
def test_wrong_arguments_say_what_to_write(read, topic, arguments, words):
    with pytest.raises(ValueError, match=words):
        read(topic, **arguments)


def test_a_topic_that_is_not_there_is_an_error_at_once_and_is_not_made(read, broker):
    with pytest.raises(UnknownTopicOrPartition, match="no-such-topic"):
        read("no-such-topic")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert "no-such-topic" not in admin.list_topics()


def test_settings_that_mean_nothing_are_refused(read, topic):
    with pytest.raises(InvalidSetting, match="without a group"):
        read(topic, group_id="g")
    with pytest.raises(InvalidSetting, match="mean nothing"):
        read(topic, auto_offset_reset="earliest")


def test_importing_ottla_does_not_load_what_tables_need():
    code = "import sys, ottla; sys.exit(any(name in sys.modules for name in ('pyarrow', 'pandas', 'polars')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "import sys, ottla; ottla.read_topic; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
