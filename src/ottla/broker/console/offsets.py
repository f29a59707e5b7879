"""Where partitions begin and end, and which offset a moment is: ListOffsets, asked at each leader."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.broker.console.needs import DESCRIBE_TOPIC
from ottla.broker.console.reach import ask_leader
from ottla.broker.http.call import Call
from ottla.errors import OttlaError
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.values import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1


async def offsets_at(call: Call, names: Iterable[TopicPartition], moment: int) -> Mapping[TopicPartition, int]:
    """By partition: the first offset at that time in ms, or EARLIEST, or LATEST. A moment behind all records is the
    end. Partitions that nobody can tell about now are left out."""
    found: dict[TopicPartition, int] = {}
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for name in names:
        partition = call.broker.replicas.get(name)
        if moment < 0 and partition is not None and partition.is_leader and partition.offline is None:
            found[name] = partition.high_watermark if moment == LATEST else partition.log.log_start_offset
        elif (state := call.broker.image.partition(*name)) is not None:
            by_leader[state.leader].append(name)
    for answer in await asyncio.gather(*(_ask(call, each, moment) for each in by_leader.values())):
        found.update(answer)
    behind = [name for name, offset in found.items() if offset < 0]
    if behind and moment >= 0:
        found.update(await offsets_at(call, behind, LATEST))
    return {name: offset for name, offset in found.items() if offset >= 0}


async def stable_offsets(call: Call, names: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
    """By partition: up to where readers of committed records come, as its leader says."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for name in names:
        if (state := call.broker.image.partition(*name)) is not None:
            by_leader[state.leader].append(name)
    found: dict[TopicPartition, int] = {}
    for answer in await asyncio.gather(*(_ask(call, each, LATEST, is_committed=True) for each in by_leader.values())):
        found.update(answer)
    return found


async def _ask(
    call: Call, names: list[TopicPartition], moment: int, *, is_committed: bool = False
) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, index in names:
        by_topic[topic].append(ListOffsetsPartition(partition_index=index, timestamp=moment))
    topics = [ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(is_committed), topics=topics)
    for topic in by_topic:
        call.check(DESCRIBE_TOPIC, topic)
    try:
        answer = await ask_leader(call, *names[0], request, ListOffsetsResponse, DESCRIBE_TOPIC)
    except OttlaError:
        return {}  # a leader that does not answer is no reason to show nothing
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }
