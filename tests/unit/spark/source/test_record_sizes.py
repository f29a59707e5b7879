"""How large the next records are: measured where most waits, in bounded time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.errors import OffsetOutOfRange, OttlaError
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.record_sizes import TOPIC_LIMIT, UNKNOWN_BYTES, WAIT_MS, RecordSizes
from ottla.values import Header, TopicPartition

OPTIONS = SourceOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t"}, streaming=True)


class Cluster:
    """A consumer that gives one record of the size of its topic; a topic without a size gives nothing."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.now = 0.0
        self.sought: dict[TopicPartition, int] = {}
        self.assigned: list[TopicPartition] = []
        self.is_closed = False
        self.error: OttlaError | None = None

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = list(partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.sought[partition] = offset

    def poll(self, timeout: float, max_records: int) -> Iterator[Any]:
        if self.error is not None:
            raise self.error
        ready = [each for each in self.assigned if each.topic in self.sizes]
        if not ready:
            self.now += timeout
        for each in ready:
            self.assigned.remove(each)
            header = Header("h", b"v")
            yield SimpleNamespace(topic=each.topic, key=b"k", value=bytes(self.sizes[each.topic] - 3), headers=[header])

    def close(self) -> None:
        self.is_closed = True


def measuring(cluster: Cluster) -> RecordSizes:
    return RecordSizes(OPTIONS, make_consumer=lambda settings: cluster, monotonic=lambda: cluster.now)


def tp(topic: str, index: int = 0) -> TopicPartition:
    return TopicPartition(topic, index)


def test_records_are_measured_where_most_waits_from_where_the_batch_begins() -> None:
    cluster = Cluster({"t": 100, "u": 30})
    waiting = {tp("t", 0): 5, tp("t", 1): 50, tp("u"): 1}
    found = measuring(cluster).means({each: 700 + each.partition for each in waiting}, waiting)
    assert found == {"t": 100.0, "u": 30.0}
    assert cluster.sought == {tp("t", 1): 701, tp("u"): 700}
    assert cluster.assigned == []


def test_a_topic_that_gives_nothing_counts_as_the_others() -> None:
    cluster = Cluster({"t": 100})
    found = measuring(cluster).means({tp("t"): 0, tp("u"): 0}, {tp("t"): 5, tp("u"): 5})
    assert found == {"t": 100.0, "u": 100.0}
    assert cluster.now == pytest.approx(WAIT_MS / 1000)


def test_what_was_measured_last_counts_when_nothing_comes() -> None:
    cluster = Cluster({"t": 100})
    sizes = measuring(cluster)
    sizes.means({tp("t"): 0}, {tp("t"): 5})
    cluster.sizes = {}
    assert sizes.means({tp("t"): 0}, {tp("t"): 5}) == {"t": 100.0}


def test_when_nothing_is_known_a_guess_counts() -> None:
    assert measuring(Cluster({})).means({tp("t"): 0}, {tp("t"): 5}) == {"t": UNKNOWN_BYTES}


def test_an_error_while_measuring_does_not_stop_the_query(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster({"t": 100})
    sizes = measuring(cluster)
    sizes.means({tp("t"): 0}, {tp("t"): 5})
    cluster.error = OffsetOutOfRange()
    assert sizes.means({tp("t"): 0}, {tp("t"): 5}) == {"t": 100.0}
    assert "what was measured last counts" in caplog.text


def test_nothing_waits_and_nothing_is_asked() -> None:
    cluster = Cluster({})
    assert measuring(cluster).means({}, {}) == {}
    assert cluster.now == 0.0


def test_of_many_topics_those_that_are_not_known_come_first() -> None:
    names = [f"t{index}" for index in range(TOPIC_LIMIT + 5)]
    cluster = Cluster(dict.fromkeys(names, 50))
    sizes, waiting = measuring(cluster), dict.fromkeys(map(tp, names), 5)
    sizes.means(dict.fromkeys(waiting, 0), waiting)
    assert len(cluster.sought) == TOPIC_LIMIT
    sizes.means(dict.fromkeys(waiting, 0), waiting)
    assert len(cluster.sought) == TOPIC_LIMIT + 5


def test_closing_ends_the_connection() -> None:
    cluster = Cluster({"t": 10})
    sizes = measuring(cluster)
    sizes.close()
    sizes.means({tp("t"): 0}, {tp("t"): 5})
    sizes.close()
    assert cluster.is_closed
