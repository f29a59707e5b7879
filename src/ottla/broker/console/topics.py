"""Topics as values: the list, and one of them with its partitions.

1. Who leads, who has a copy and who is in sync is the cluster's truth, for all partitions. Sizes and offsets are of the
   copies that this broker has; None is what it does not know.
2. The list is made in small slices, so that nobody waits for ten thousand topics. Sorting by anything but the name
   reads that of all of them first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.console.survey import in_slices
from ottla.broker.http.parts import Json
from ottla.cluster.model import NO_LEADER, Topic
from ottla.cluster.topic_names import INTERNAL_TOPICS
from ottla.errors import UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple
from ottla.values import uuid_to_text

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replication.partition import Partition

LIST_LIMIT: Final = 10_000
Measure: TypeAlias = "Callable[[Broker, Topic], int]"


class TopicList(NamedTuple):
    """A page of the list, and how many there are."""

    topics: list[dict[str, Json]]
    total: int


async def topic_list(
    broker: Broker, names: Collection[str], *, contains: str = "", sort: str = "name", first: int = 0, limit: int = 200
) -> TopicList:
    """A page of those of the names that contain a text."""
    wanted = list(names) if not contains else [name for name in names if contains.lower() in name.lower()]
    wanted.sort()
    if sort != "name":
        wanted = await _largest_first(broker, wanted, SORTED[sort])
    rows: list[dict[str, Json]] = []
    async for name in in_slices(wanted[first : first + limit]):
        if (topic := broker.image.topic(name)) is not None:
            rows.append(topic_row(broker, topic))
    return TopicList(rows, len(wanted))


async def _largest_first(broker: Broker, names: list[str], measure: Measure) -> list[str]:
    """Only what they are sorted by is read of all of them."""
    found: list[tuple[int, str]] = []
    async for name in in_slices(names):
        if (topic := broker.image.topic(name)) is not None:
            found.append((-measure(broker, topic), name))
    found.sort()
    return [name for _, name in found]


def _here(broker: Broker, topic: Topic) -> Iterator[Partition]:
    """This broker's copies that can be read."""
    for index in range(len(topic.partitions)):
        here = broker.replicas.get((topic.name, index))
        if here is not None and here.offline is None:
            yield here


def _size_bytes(broker: Broker, topic: Topic) -> int:
    return sum(each.log.size_bytes for each in _here(broker, topic))


def _records(broker: Broker, topic: Topic) -> int:
    return sum(max(0, each.high_watermark - each.log.log_start_offset) for each in _here(broker, topic))


def _under_replicated(topic: Topic) -> int:
    return sum(len(each.isr) < len(each.replicas) for each in topic.partitions)


SORTED: Final[Mapping[str, Measure]] = {
    "size_bytes": _size_bytes,
    "records": _records,
    "partitions": lambda broker, topic: len(topic.partitions),
    "under_replicated": lambda broker, topic: _under_replicated(topic),
}
SORTS: Final = ("name", *SORTED)


def topic_row(broker: Broker, topic: Topic) -> dict[str, Json]:
    """One line of the list."""
    size_bytes = records = known = 0
    for each in _here(broker, topic):
        known += 1
        size_bytes += each.log.size_bytes
        records += max(0, each.high_watermark - each.log.log_start_offset)
    return {
        "name": topic.name,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "under_replicated": _under_replicated(topic),
        "without_leader": sum(each.leader == NO_LEADER for each in topic.partitions),
        "partitions_here": known,
        "size_bytes": size_bytes if known else None,
        "records": records if known else None,
    }


async def topic_detail(broker: Broker, name: str) -> dict[str, Json]:
    """A topic with all of its partitions."""
    topic = broker.image.topic(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {name!r}")
    partitions: list[Json] = []
    with broker.pacing.turn() as pace:
        for index, state in enumerate(topic.partitions):
            here = broker.replicas.get((name, index))
            partitions.append(
                {
                    "partition": index,
                    "leader": None if state.leader == NO_LEADER else state.leader,
                    "leader_epoch": state.leader_epoch,
                    "replicas": list(state.replicas),
                    "in_sync": list(state.isr),
                    "is_reassigning": state.is_reassigning,
                    **_offsets(here),
                }
            )
            await pace.step()
    counters = broker.topic_metrics.of(name)
    return {
        **topic_row(broker, topic),
        "id": uuid_to_text(topic.id),
        "partition_list": partitions,
        "bytes_in": counters.bytes_in.value,
        "bytes_out": counters.bytes_out.value,
        "messages_in": counters.messages_in.value,
        "at_ms": broker.clock.monotonic_ms(),
        "broker_id": broker.id,
    }


def _offsets(here: Partition | None) -> dict[str, Json]:
    if here is None or here.offline is not None:
        why = None if here is None else str(here.offline)
        return {"is_here": here is not None, "offline": why, "size_bytes": None, "segments": None}
    return {
        "is_here": True,
        "offline": None,
        "size_bytes": here.log.size_bytes,
        "segments": len(here.log.segments),
        "log_start_offset": here.log.log_start_offset,
        "high_watermark": here.high_watermark,
        "last_stable_offset": here.log.last_stable_offset,
        "log_end_offset": here.log_end_offset,
    }
