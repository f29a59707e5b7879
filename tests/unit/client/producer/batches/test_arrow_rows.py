"""Rows of Arrow tables into batches: what is refused, and both twins writing the same bytes as records one by one."""

import struct
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.producer.batches.arrow_columns import RowTimes, rows_of
from ottla.client.producer.intake import Intake
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.values import RecordTooLargeToSend
from ottla.records import RecordBatch

NOW_MS = 1_700_000_000_000
TOPICS = ("a", "b")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

maybe_bytes = st.none() | st.binary(max_size=40)
row = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(TOPICS),
        "partition": st.none() | st.integers(0, 2),
        "timestamp": st.none() | st.integers(-1, 2**40),
        "key": maybe_bytes,
        "value": maybe_bytes,
        "headers": st.none() | st.lists(st.tuples(st.text(max_size=6), maybe_bytes), max_size=3),
    }
)
byte_types = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())])
time_types = st.sampled_from([pa.int64(), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.timestamp("ns")])


def header_rows(rows, kind):
    if pa.types.is_map(kind):
        return [each["headers"] for each in rows]
    return [each["headers"] and [{"key": key, "value": value} for key, value in each["headers"]] for each in rows]


def times_of(rows, kind):
    factor = {"ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit] if pa.types.is_timestamp(kind) else 1
    numbers = [each["timestamp"] and each["timestamp"] * factor for each in rows]
    return pa.array(numbers, pa.int64()).cast(kind)


@st.composite
def tables(draw):
    """A table, its rows as they were meant, and a slice of it, so that offsets inside arrays are not 0."""
    rows = draw(st.lists(row, min_size=1, max_size=30))
    header_kind = draw(st.sampled_from([HEADERS, pa.map_(pa.string(), pa.binary()), pa.large_list(HEADERS.value_type)]))
    key_kind, value_kind = draw(byte_types), draw(byte_types)
    columns = {
        "topic": pa.array([each["topic"] for each in rows]),
        "partition": pa.array([each["partition"] for each in rows], pa.int32()),
        "timestamp": times_of(rows, draw(time_types)),
        "key": pa.array([each["key"] for each in rows], pa.binary()).cast(key_kind),
        "value": pa.array([each["value"] for each in rows], pa.binary()).cast(value_kind),
        "headers": pa.array(header_rows(rows, header_kind), header_kind),
    }
    absent = draw(st.sets(st.sampled_from(["partition", "timestamp", "key", "headers"])))
    first = draw(st.integers(0, len(rows) - 1))
    end = draw(st.integers(first + 1, len(rows)))
    table = pa.table({name: column for name, column in columns.items() if name not in absent})
    meant = [{name: None if name in absent else each[name] for name in each} for each in rows[first:end]]
    return table.slice(first, end - first), meant


def states_of(twin, limit=1 << 20):
    states = []
    for topic in TOPICS:
        state = twin.TopicState(
            topic, sticky_limit_bytes=1 << 20, record_limit_bytes=limit, ignores_keys=False, lock=threading.Lock()
        )
        state.set_partition_count(3)
        state.stick_to(1)
        states.append(state)
    return dict(zip(TOPICS, states, strict=True))


def batch_of(twin, topic, partition, capacity):
    return twin.ProducerBatch(None, topic, partition, bytearray(capacity), capacity, limit_bytes=capacity, created_ms=0)


class Taker:
    """Opens batches as callers do when there is no room, and keeps the full ones."""

    def __init__(self, twin, capacity):
        self.twin, self.capacity = twin, capacity
        self.states = states_of(twin)
        self.batches = []

    def make_room(self, topic, key, partition):
        state = self.states[topic]
        place = state.partition_of(key) if partition is None else partition
        batch = batch_of(self.twin, topic, place, self.capacity)
        state.set_open(place, batch)
        self.batches.append(batch)

    def contents(self):
        sealed = [
            (batch.delivery.topic, batch.delivery.partition, bytes(batch.seal(1, 2, 3, False)))
            for batch in self.batches
        ]
        for _, _, content in sealed:
            RecordBatch(content).check()
        return sealed


def sent_by_rows(twin, table, capacity):
    taker = Taker(twin, capacity)
    runs = []
    for rows in rows_of(None, table):
        writer = twin.RowWriter(rows, [taker.states[topic] for topic in rows.topics], NOW_MS)
        at = 0
        while (at := writer.put(at, runs)) < rows.count:
            taker.make_room(rows.topics[rows.place_at(at)], rows.key_at(at), rows.partition_at(at))
    return taker, runs


def sent_one_by_one(twin, meant, capacity):
    taker = Taker(twin, capacity)
    futures = []
    for each in meant:
        time_ms = NOW_MS if each["timestamp"] in (None, -1) else each["timestamp"]
        record = each["key"], each["value"], each["headers"], time_ms, each["partition"], True
        while (future := taker.states[each["topic"]].put(*record)) is None:
            taker.make_room(each["topic"], each["key"], each["partition"])
        futures.append(future)
    return taker, futures


@settings(deadline=None)
@given(tables(), st.integers(400, 1200))
def test_rows_become_the_same_batches_as_records_one_by_one_in_both_twins(both, made, capacity):
    table, meant = made
    expected, futures = sent_one_by_one(both[0], meant, capacity)
    for twin in both:
        taker, runs = sent_by_rows(twin, table, capacity)
        assert taker.contents() == expected.contents()
        places = [(d.topic, d.partition, at) for d, first, count in runs for at in range(first, first + count)]
        assert places == [(f.topic, f.partition, f.as_run()[1]) for f in futures]


def test_without_anybody_who_asks_no_places_are_kept(twin):
    taker = Taker(twin, 4096)
    (rows,) = rows_of("a", pa.table({"value": [b"1", b"2"]}))
    writer = twin.RowWriter(rows, [taker.states["a"]], NOW_MS)
    assert writer.put(0, None) == 0
    taker.make_room("a", None, None)
    assert writer.put(0, None) == 2
    assert taker.batches[0].record_count == 2


def test_a_row_above_the_limit_is_left_to_whoever_decides(twin):
    state = states_of(twin, limit=200)["a"]
    state.set_open(1, batch_of(twin, "a", 1, 4096))
    (rows,) = rows_of("a", pa.table({"value": [b"1", b"x" * 400]}))
    assert twin.RowWriter(rows, [state], NOW_MS).put(0, None) == 1


def test_texts_are_sent_as_utf_8_and_nulls_as_tombstones(twin):
    taker = Taker(twin, 4096)
    table = pa.table({"key": ["k", None], "value": pa.array(["é", None], pa.large_string()), "offset": [5, 6]})
    (rows,) = rows_of("a", table)
    writer = twin.RowWriter(rows, [taker.states["a"]], NOW_MS)
    at = 0
    while (at := writer.put(at, None)) < 2:
        taker.make_room("a", rows.key_at(at), None)
    found = [(record.key, record.value) for _, _, batch in taker.contents() for record in RecordBatch(batch)]
    assert sorted(found, key=str) == [(None, None), (b"k", "é".encode())]


# --- what is refused ---


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"vale": [b"1"]}, "did you mean 'value'"),
        ({"value": [b"1"], "colour": ["red"]}, "columns are topic, partition"),
        ({"key": [b"1"]}, "no column 'value'"),
        ({"value": [1]}, "keys and values are binary or string"),
        ({"value": [b"1"], "partition": [-1]}, "a partition is 0 or more"),
        ({"value": [b"1"], "partition": ["0"]}, "whole numbers"),
        ({"value": [b"1"], "partition": [2**40]}, "not in range"),
        ({"value": [b"1"], "timestamp": [-2]}, "a timestamp is 0 or more"),
        ({"value": [b"1"], "timestamp": [1.5]}, "whole numbers"),
        ({"value": [b"1"], "headers": [[1]]}, "lists of struct"),
        ({"value": [b"1"], "headers": [[{"name": "h", "value": b""}]]}, "lists of struct"),
        ({"value": [b"1"], "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}, "without a key"),
        ({"value": [b"1"], "headers": pa.array([[None]], HEADERS)}, "without null entries"),
    ],
)
def test_a_table_that_cannot_be_sent_is_refused_with_words(columns, words):
    with pytest.raises((ValueError, TypeError), match=words):
        rows_of("t", pa.table(columns))


def test_somebody_must_say_where_rows_go():
    with pytest.raises(ValueError, match="neither a topic nor a column"):
        rows_of(None, pa.table({"value": [b"1"]}))
    with pytest.raises(ValueError, match="has nulls"):
        rows_of(None, pa.table({"value": [b"1"], "topic": pa.array([None], pa.string())}))
    with pytest.raises(TypeError, match="names of topics are strings"):
        rows_of(None, pa.table({"value": [b"1"], "topic": [1]}))
    with pytest.raises(TypeError, match="not list"):
        rows_of("t", [b"1"])
    with pytest.raises(ValueError, match="there twice"):
        rows_of("t", pa.table([[b"1"], [b"1"]], names=["value", "value"]))


def test_a_topic_that_is_named_wins_over_the_column():
    (rows,) = rows_of("mine", pa.table({"value": [b"1", b"2"], "topic": ["x", "y"]}))
    assert (rows.topics, rows.place_at(1)) == (("mine",), 0)


def test_a_damaged_array_is_refused_before_it_is_read():
    ends = pa.py_buffer(struct.pack("<3i", 0, 9_999, 3))
    damaged = pa.Array.from_buffers(pa.binary(), 2, [None, ends, pa.py_buffer(b"abc")])
    with pytest.raises(ValueError, match="ffset"):
        rows_of("t", pa.table({"value": damaged}))


def intake(**named):
    return Intake(ProducerSettings(bootstrap_servers="h:1", **named))


def test_one_row_too_large_refuses_the_table_before_anything_is_sent():
    values = [b"x" * 10] * 5 + [b"x" * 2000]
    with pytest.raises(RecordTooLargeToSend, match=r"max\.request\.size is 1500"):
        intake(max_request_size=1500).prepare_arrow("t", pa.table({"value": values}))
    headers = pa.array([[{"key": "h", "value": b"x" * 700}]] * 6, HEADERS)
    parts = intake(max_request_size=1500).prepare_arrow("t", pa.table({"value": [b"x"] * 6, "headers": headers}))
    assert [part.count for part in parts] == [6]


def test_a_producer_with_a_serializer_takes_no_tables():
    with pytest.raises(ValueError, match="without key"):
        intake(value_serializer="json").prepare_arrow("t", pa.table({"value": [b"1"]}))


def test_the_highest_partition_of_each_topic_is_known():
    table = pa.table({"value": [b"1"] * 3, "topic": ["a", "b", "a"], "partition": pa.array([1, 7, None], pa.int16())})
    (rows,) = rows_of(None, table)
    assert [rows.highest_partition(place) for place in (0, 1)] == [1, 7]
    (rows,) = rows_of("t", table)
    assert rows.highest_partition(0) == 7


def test_times_of_all_pieces_are_found_by_row():
    table = pa.concat_tables(
        [
            pa.table({"value": [b"1"] * 2, "timestamp": pa.array([5, None])}),
            pa.table({"value": [b"2"], "timestamp": [9]}),
        ]
    )
    parts = rows_of("t", table)
    assert len(parts) == 2
    times = RowTimes(parts, NOW_MS)
    assert (len(times), times[0], times[1], times[2]) == (3, 5, NOW_MS, 9)


def test_a_large_table_is_walked_in_pieces():
    parts = rows_of("t", pa.table({"value": pa.array([b"v"] * 40_000)}))
    assert [part.count for part in parts] == [16_384, 16_384, 7_232]
