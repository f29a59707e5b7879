"""The parts of a mirror that decide: rows of the map, where groups go on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

import pyarrow

from ottla.errors import NonEmptyGroup
from ottla.spark.jobs.following import JobFailed
from ottla.spark.jobs.group_moves import GroupMove, GroupMover, commits_of, plan_moves
from ottla.spark.jobs.mirror import MirrorPlan, run_growing
from ottla.spark.jobs.mirror_rows import MirrorRows, TargetEnd, ask_end, stretches
from ottla.spark.jobs.offset_map import OffsetMap, Run, Segment, read_segment, segment_key, segment_value
from ottla.spark.jobs.reading import ReadPlan
from ottla.spark.jobs.tally import Totals
from ottla.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

MOMENT = datetime(2026, 11, 1, tzinfo=UTC)
SCHEMA = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("headers", pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))),
        ("topic", pyarrow.string()),
        ("partition", pyarrow.int32()),
        ("timestamp", pyarrow.timestamp("us", "UTC")),
        ("offset", pyarrow.int64()),
    ]
)


def rows(*places: tuple[str, int, int]) -> pyarrow.RecordBatch:
    made = [
        {
            "key": b"k%d" % offset,
            "value": None if offset % 2 else b"v%d" % offset,
            "headers": [{"key": "h", "value": b"x"}],
            "topic": topic,
            "partition": partition,
            "timestamp": MOMENT,
            "offset": offset,
        }
        for topic, partition, offset in places
    ]
    return pyarrow.RecordBatch.from_pylist(made, schema=SCHEMA)


def test_a_batch_is_cut_where_the_partition_changes() -> None:
    batch = rows(("a", 0, 1), ("a", 0, 2), ("a", 1, 0), ("b", 1, 0), ("b", 1, 1))
    found = [(partition, part.column("offset").to_pylist()) for partition, part in stretches(batch)]
    assert found == [
        (TopicPartition("a", 0), [1, 2]),
        (TopicPartition("a", 1), [0]),
        (TopicPartition("b", 1), [0, 1]),
    ]
    assert list(stretches(rows())) == []


def test_rows_go_on_as_they_came_and_the_map_comes_behind_them() -> None:
    mirror = MirrorRows("c1", "eu.", "map", {})
    asked = []

    def ask(partition: TopicPartition) -> TargetEnd:
        asked.append(partition)
        return TargetEnd(100, is_exact=True)

    batches = [rows(("a", 0, 5), ("a", 0, 6)), rows(("a", 0, 9), ("a", 1, 3))]
    found = [row for batch in mirror.passed_on(iter(batches), ask) for row in batch.to_pylist()]
    records = [row for row in found if row["topic"] != "map"]
    assert [(row["topic"], row["partition"], row["key"]) for row in records] == [
        ("eu.a", 0, b"k5"),
        ("eu.a", 0, b"k6"),
        ("eu.a", 0, b"k9"),
        ("eu.a", 1, b"k3"),
    ]
    assert records[1] == {
        "key": b"k6",
        "value": b"v6",
        "headers": [{"key": "h", "value": b"x"}],
        "topic": "eu.a",
        "partition": 0,
        "timestamp": MOMENT,
    }
    segments = [read_segment(row["key"], row["value"]) for row in found if row["topic"] == "map"]
    assert segments == [
        ("c1", TopicPartition("a", 0), Segment(100, (Run(5, 2), Run(9, 1)))),
        ("c1", TopicPartition("a", 1), Segment(100, (Run(3, 1),))),
    ]
    assert asked == [TopicPartition("eu.a", 0), TopicPartition("eu.a", 1)]
    assert [row["partition"] for row in found if row["topic"] == "map"] == [0, 0]


class Ends:
    """An admin whose partition has an open transaction until it was asked so often."""

    def __init__(self, open_for: int) -> None:
        self.open_for = open_for

    def list_offsets(self, places: Any, *, isolation_level: str = "read_uncommitted") -> Any:
        is_open = self.open_for > 0
        self.open_for -= isolation_level == "read_uncommitted"
        offset = 40 if is_open and isolation_level == "read_committed" else 50
        return {partition: OffsetAndTimestamp(offset, -1, None) for partition in places}


def clock() -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += 1.0


def test_the_end_is_exact_once_no_transaction_is_open() -> None:
    times = clock()
    slept: list[float] = []
    admin: Any = Ends(open_for=3)
    found = ask_end(admin, TopicPartition("a", 0), monotonic=lambda: next(times), sleep=slept.append)
    assert (found, len(slept)) == (TargetEnd(50, is_exact=True), 3)


def test_a_transaction_that_stays_open_makes_the_place_a_bound() -> None:
    times = clock()
    admin: Any = Ends(open_for=1000)
    found = ask_end(admin, TopicPartition("a", 0), monotonic=lambda: next(times), sleep=lambda _: None)
    assert found == TargetEnd(40, is_exact=False)


# --- groups ---

A0, A1, EU0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("eu.a", 0)


def offsets() -> OffsetMap:
    made = OffsetMap()
    made.add(A0, Segment(100, (Run(0, 10),)))
    return made


def test_a_group_goes_on_where_the_map_says_and_keeps_what_it_noted() -> None:
    committed = {A0: OffsetAndMetadata(4, "note", 7), A1: OffsetAndMetadata(2), TopicPartition("a", 2): None}
    moves = plan_moves("g", committed, {}, offsets(), "eu.")
    assert moves == [GroupMove("g", A0, 4, 104, "moved"), GroupMove("g", A1, 2, None, "not mirrored")]
    assert commits_of(moves, committed, "eu.") == {EU0: OffsetAndMetadata(104, "note")}


@pytest.mark.parametrize(("there", "result"), [(103, "moved"), (104, "already there"), (110, "is further: 110")])
def test_a_group_is_never_moved_back(there: int, result: str) -> None:
    committed = {A0: OffsetAndMetadata(4)}
    moves = plan_moves("g", committed, {EU0: OffsetAndMetadata(there)}, offsets(), "eu.")
    assert [each.result for each in moves] == [result]
    assert bool(commits_of(moves, committed, "eu.")) == (result == "moved")


class Cluster:
    """An admin and a consumer of the map, as far as a mover needs them."""

    def __init__(self, committed: dict[TopicPartition, OffsetAndMetadata], *, has_members: bool = False) -> None:
        self.committed = committed
        self.has_members = has_members
        self.records: list[Any] = []
        self.at = 0

    def list_consumer_group_offsets(self, group: str) -> Any:
        return dict(self.committed)

    def alter_consumer_group_offsets(self, group: str, new: Any) -> None:
        if self.has_members:
            raise NonEmptyGroup("g")
        self.committed.update(new)

    def list_offsets(self, places: Any, *, isolation_level: str) -> Any:
        return {partition: OffsetAndTimestamp(len(self.records), -1, None) for partition in places}

    def assign(self, partitions: Any) -> None: ...
    def seek_to_beginning(self, partition: Any) -> None: ...
    def close(self) -> None: ...

    def position(self, partition: Any) -> int:
        return self.at

    def poll(self, timeout: float) -> list[Any]:
        found, self.at = self.records[self.at :], len(self.records)
        return found

    def wrote(self, cluster_id: str, segment: Segment) -> None:
        class Record:
            key = segment_key(cluster_id, A0, segment)
            value = segment_value(segment)

        self.records.append(Record)


def mover(source: Any, target: Any) -> GroupMover:
    return GroupMover(source, target, cluster_id="c1", prefix="eu.", map_topic="map", make_consumer=lambda: target)


def test_groups_move_along_with_the_map_and_maps_of_other_clusters_do_not_count() -> None:
    source, target = Cluster({A0: OffsetAndMetadata(4), TopicPartition("b", 0): OffsetAndMetadata(1)}), Cluster({})
    target.wrote("c1", Segment(100, (Run(0, 3),)))
    target.wrote("c2", Segment(900, (Run(3, 3),)))
    moving = mover(source, target)
    assert moving.move(["g"], lambda topic: topic == "a") == [GroupMove("g", A0, 4, 103, "moved")]
    target.wrote("c1", Segment(110, (Run(3, 3),)))
    assert moving.move(["g"], lambda topic: topic == "a") == [GroupMove("g", A0, 4, 111, "moved")]
    assert target.committed == {EU0: OffsetAndMetadata(111)}


def test_a_group_with_members_at_the_target_is_left_alone_and_it_is_told() -> None:
    source, target = Cluster({A0: OffsetAndMetadata(1)}), Cluster({}, has_members=True)
    target.wrote("c1", Segment(100, (Run(0, 3),)))
    (move,) = mover(source, target).move(["g"], lambda _: True)
    assert move.result.startswith("refused: ")
    assert move.as_json() | {"result": ""} == {
        "group": "g",
        "topic": "a",
        "partition": 0,
        "source": 1,
        "target": 101,
        "result": "",
    }


def test_a_pattern_does_not_find_what_the_mirror_wrote() -> None:
    plan = MirrorPlan(ReadPlan({}, pattern=".*"), {}, "checkpoint", prefix="eu.")
    assert [topic for topic in ("a", "eu.a", "ottla-mirror-offsets") if plan.mirrors(topic)] == ["a"]
    named = MirrorPlan(ReadPlan({}, ("a",)), {}, "checkpoint")
    assert [topic for topic in ("a", "b") if named.mirrors(topic)] == ["a"]


def failed(kind: str, rows: int) -> JobFailed:
    made = JobFailed("it did")
    made.kind, made.totals = kind, Totals(rows=rows, batches=1)
    return made


def test_a_mirror_grows_with_its_source_and_goes_on() -> None:
    outcomes: list[Any] = [failed("TargetPartitionMissing", 5), failed("TargetPartitionMissing", 2), Totals(rows=3)]

    def run() -> Totals:
        outcome = outcomes.pop(0)
        if isinstance(outcome, JobFailed):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    assert run_growing(run, lambda: True).rows == 10


@pytest.mark.parametrize(("kind", "grows"), [("TargetPartitionMissing", False), ("DataLost", True)])
def test_a_mirror_that_fails_for_another_reason_or_cannot_grow_ends(kind: str, grows: bool) -> None:
    def run() -> Totals:
        raise failed(kind, 1)

    with pytest.raises(JobFailed):
        run_growing(run, lambda: grows)
