"""Where a share group is in its partitions, and moving it: DescribeShareGroupOffsets and AlterShareGroupOffsets.

A share group has no committed offsets. It has a start offset in each partition: everything before it is done. Its lag
is what the coordinator counts, without records that are done out of order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from http import HTTPStatus

from ottla.broker.console.groups import age_ms
from ottla.broker.console.needs import DESCRIBE_GROUP, READ_GROUP
from ottla.broker.console.offsets import LATEST, offsets_at
from ottla.broker.console.reach import ask_coordinator
from ottla.broker.http.call import Call
from ottla.broker.http.parts import HttpError, Json
from ottla.cluster.topic_names import GROUP_METADATA
from ottla.errors import broker_error, raise_for_code
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ottla.values import TopicPartition


async def share_starts(call: Call, group_id: str) -> dict[TopicPartition, tuple[int, int | None]]:
    """Start offset and lag by partition; those that the group never came to are left out."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])
    answer = await ask_coordinator(
        call, GROUP_METADATA, group_id, request, DescribeShareGroupOffsetsResponse, DESCRIBE_GROUP
    )
    (group,) = answer.groups
    raise_for_code(group.error_code, group.error_message)
    return {
        TopicPartition(topic.topic_name, each.partition_index): (each.start_offset, each.lag if each.lag >= 0 else None)
        for topic in group.topics
        for each in topic.partitions
        if not each.error_code and each.start_offset >= 0
    }


async def share_lags(call: Call, group_id: str) -> list[dict[str, Json]]:
    """A line for each partition, as groups.lags has them for other groups."""
    starts = await share_starts(call, group_id)
    ends = await offsets_at(call, starts, LATEST)
    rows: list[dict[str, Json]] = []
    for name in sorted(starts):
        start, counted = starts[name]
        end = ends.get(name)
        lag = counted if counted is not None or end is None else max(0, end - start)
        rows.append(
            {
                "topic": name.topic,
                "partition": name.partition,
                "committed": start,
                "end": end,
                "lag": lag,
                "lag_ms": 0 if lag == 0 else age_ms(call.broker, name, start),
                "metadata": "",
                "is_held": False,
            }
        )
    return rows


async def move_share_group(call: Call, group_id: str, targets: Mapping[TopicPartition, int]) -> None:
    """Set its start offsets; it must have no members."""
    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = defaultdict(list)
    for name, offset in targets.items():
        by_topic[name.topic].append(
            AlterShareGroupOffsetsRequestPartition(partition_index=name.partition, start_offset=offset)
        )
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=each) for topic, each in by_topic.items()]
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
    answer = await ask_coordinator(call, GROUP_METADATA, group_id, request, AlterShareGroupOffsetsResponse, READ_GROUP)
    each_code = {each.error_code for topic in answer.responses for each in topic.partitions}
    codes = ({answer.error_code} | each_code) - {0}
    if codes:
        error = broker_error(min(codes))
        raise HttpError(HTTPStatus.CONFLICT, f"nothing was moved, or not all of it: {error}", name=error.name)
