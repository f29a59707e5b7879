"""Groups as values: which there are, what they committed, how far behind they are (group_members.py: who is in them).

1. Lag is counted from high watermarks. Lag in time is how old the first record is that the group has not read: the time
   of the batch at its offset, where this broker has a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from ottla.broker.console.needs import DESCRIBE_GROUP, LIST_GROUP, LIST_TOPIC
from ottla.broker.console.offsets import LATEST, offsets_at
from ottla.broker.console.reach import ask_coordinator, ask_everybody
from ottla.broker.http.call import Call
from ottla.broker.http.parts import Json
from ottla.cluster.topic_names import GROUP_METADATA
from ottla.errors import CorruptMessage, OttlaError, raise_for_code
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


AGES_LIMIT: Final = 16


class Group(NamedTuple):
    """A line of the list."""

    id: str
    kind: str
    state: str
    protocol: str
    coordinator: int


async def group_list(call: Call) -> tuple[list[Group], list[int]]:
    """All groups that the caller may see, and the brokers that did not answer."""
    if call.broker.image.partition_count(GROUP_METADATA) is None:
        return [], []
    answers = await ask_everybody(call, ListGroupsRequest(), ListGroupsResponse)
    found: list[Group] = []
    for broker_id, answer in sorted(answers.found.items()):
        assert isinstance(answer, ListGroupsResponse)
        groups = answer.groups
        if broker_id != call.broker.id:
            groups, _ = LIST_GROUP.split(call.broker, call.context, groups, lambda group: group.group_id)
        found += [_listed(each, broker_id) for each in groups]
    return sorted(found), answers.missing


def _listed(each: ListedGroup, broker_id: int) -> Group:
    return Group(each.group_id, each.group_type.lower() or "classic", each.group_state, each.protocol_type, broker_id)


# -- how far it is ----------------------------------------------------------------------------------------------------


async def committed(call: Call, group_id: str) -> dict[TopicPartition, tuple[int, str]]:
    """Offset and metadata by partition."""
    wanted = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    answer = await ask_coordinator(call, GROUP_METADATA, group_id, wanted, OffsetFetchResponse, DESCRIBE_GROUP)
    (group,) = answer.groups
    raise_for_code(group.error_code)
    named = [(topic.name or call.broker.image.topic_name(topic.topic_id), topic) for topic in group.topics]
    return {
        TopicPartition(name, each.partition_index): (each.committed_offset, each.metadata or "")
        for name, topic in named
        if name
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


async def lags(call: Call, offsets: Mapping[TopicPartition, tuple[int, str]]) -> list[dict[str, Json]]:
    """A line for each partition."""
    visible = LIST_TOPIC.met_by(call.broker, call.context, {name.topic for name in offsets})
    names = [name for name in offsets if name.topic in visible]
    ends = await offsets_at(call, names, LATEST)
    rows: list[dict[str, Json]] = []
    with call.broker.pacing.turn() as pace:
        for name in sorted(names):
            offset, metadata = offsets[name]
            end = ends.get(name)
            lag = None if end is None else max(0, end - offset)
            rows.append(
                {
                    "topic": name.topic,
                    "partition": name.partition,
                    "committed": offset,
                    "end": end,
                    "lag": lag,
                    "lag_ms": 0 if lag == 0 else age_ms(call.broker, name, offset),
                    "metadata": metadata,
                    "is_held": bool(lag) and is_held(call.broker, name, offset),
                }
            )
            await pace.step()
    return rows


def is_held(broker: Broker, name: TopicPartition, offset: int) -> bool:
    """Whether readers of committed records wait here for an open transaction."""
    partition = broker.replicas.get(name)
    if partition is None or partition.offline is not None or not partition.is_leader:
        return False
    return partition.log.last_stable_offset <= offset < partition.high_watermark


class Lag(NamedTuple):
    """How far behind a group is, in records and in time; and a note that was committed with its offsets."""

    records: int
    ms: int | None
    note: str


def lag_here(broker: Broker, group_id: str) -> Lag | None:
    """Over all partitions of a group that this broker coordinates; None where it does not, or nothing is committed, or
    another broker knows how far a partition is. The time is that of the AGES_LIMIT partitions with most records."""
    if broker.image.partition_count(GROUP_METADATA) is None:
        return None
    index = broker.groups.partition_of(group_id)
    shard = next((shard for number, shard in broker.groups.runtime.shards() if number == index), None)
    found = None if shard is None else shard.offsets.of_group(group_id)
    if not found:
        return None
    behind: list[tuple[int, TopicPartition, int]] = []
    for topic, offsets in found.items():
        for index, kept in offsets.items():
            partition = broker.replicas.get((topic, index))
            if partition is None:
                return None
            if partition.high_watermark > kept.offset:
                behind.append((partition.high_watermark - kept.offset, TopicPartition(topic, index), kept.offset))
    ages = [age_ms(broker, name, offset) for _, name, offset in nlargest(AGES_LIMIT, behind)]
    known = [each for each in ages if each is not None]
    note = next((kept.metadata for offsets in found.values() for kept in offsets.values()), "")
    return Lag(sum(each for each, _, _ in behind), max(known, default=None) if behind else 0, note or "")


def groups_here(broker: Broker) -> Iterator[str]:
    """The groups that this broker coordinates."""
    if broker.image.partition_count(GROUP_METADATA) is not None:
        for _, shard in list(broker.groups.runtime.shards()):
            yield from list(shard.groups)


def age_ms(broker: Broker, name: TopicPartition, offset: int) -> int | None:
    """How old the batch at an offset is; None where this broker cannot tell."""
    partition = broker.replicas.get(name)
    if partition is None or partition.offline is not None:
        return None
    log = partition.log
    segment = log.segments.floor(max(offset, log.log_start_offset))
    if segment is None:
        return None
    try:
        found = log.segments.sound(segment, lambda each: each.translate(offset))
        if found is None:
            return None
        _, header = next(segment.records.headers(found.position))
    except (OSError, OttlaError, CorruptMessage, StopIteration):
        return None
    return max(0, broker.clock.now_ms() - header.max_timestamp_ms)
