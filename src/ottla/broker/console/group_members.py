"""Who is in a group, and what each member has: classic, consumer, share and streams groups in one shape.

Each kind is described by its own API of the wire, which checks the rights of who calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ottla.broker.console.needs import DESCRIBE_GROUP
from ottla.broker.console.reach import ask_coordinator
from ottla.broker.http.call import Call
from ottla.broker.http.parts import Json
from ottla.cluster.topic_names import GROUP_METADATA
from ottla.errors import GroupIdNotFound, OttlaError, raise_for_code
from ottla.light_dataclasses import dataclass, field
from ottla.protocol.messages import consumer_group_describe, describe_groups
from ottla.protocol.schema import Message
from ottla.protocol.stored import decode_newer_value
from ottla.protocol.stored.subscription import ConsumerProtocolAssignment

A = TypeVar("A", bound=Message)


@dataclass
class Described:
    """One group, whatever its kind."""

    kind: str
    state: str
    members: list[Json] = field(default_factory=list)
    facts: dict[str, Json] = field(default_factory=dict)


async def describe(call: Call, group_id: str) -> Described:
    """The group; each kind is asked until one knows it."""
    for ask in (_consumer, _classic, _share, _streams):
        found = await ask(call, group_id)
        if found is not None:
            return found
    raise GroupIdNotFound(f"there is no group {group_id!r}")


async def _consumer(call: Call, group_id: str) -> Described | None:
    request = consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=[group_id], include_authorized_operations=False
    )
    answer = await _ask(call, group_id, request, consumer_group_describe.ConsumerGroupDescribeResponse)
    (group,) = answer.groups
    if not _is_found(group):
        return None
    members: list[Json] = [
        {
            **_identity(each),
            "instance_id": each.instance_id,
            "epoch": each.member_epoch,
            "topics": list(each.subscribed_topic_names),
            "assigned": _flat(each.assignment.topic_partitions),
            "target": _flat(each.target_assignment.topic_partitions),
        }
        for each in group.members
    ]
    facts: dict[str, Json] = {
        "assignor": group.assignor_name,
        "epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
    }
    return Described("consumer", group.group_state, members, facts)


class _Answered(Protocol):
    error_code: int
    error_message: str | None


def _is_found(group: _Answered) -> bool:
    """Whether there is a group of this kind; any other error is raised."""
    if group.error_code == GroupIdNotFound.code:
        return False
    raise_for_code(group.error_code, group.error_message)
    return True


class _Identified(Protocol):
    member_id: str
    client_id: str
    client_host: str


def _identity(member: _Identified) -> dict[str, Json]:
    return {"id": member.member_id, "client_id": member.client_id, "host": member.client_host}


class _Assigned(Protocol):
    topic_name: str
    partitions: list[int]


def _flat(topics: Sequence[_Assigned]) -> list[Json]:
    return [f"{topic.topic_name}-{index}" for topic in topics for index in topic.partitions]


async def _classic(call: Call, group_id: str) -> Described | None:
    request = describe_groups.DescribeGroupsRequest(groups=[group_id])
    answer = await _ask(call, group_id, request, describe_groups.DescribeGroupsResponse)
    (group,) = answer.groups
    if not _is_found(group):
        return None
    members: list[Json] = [
        {
            **_identity(each),
            "instance_id": each.group_instance_id,
            "assigned": _assigned(bytes(each.member_assignment), group.protocol_type),
        }
        for each in group.members
    ]
    facts: dict[str, Json] = {"assignor": group.protocol_data, "protocol": group.protocol_type}
    return Described("classic", group.group_state, members, facts)


def _assigned(content: bytes, protocol: str) -> list[Json]:
    """Of a classic consumer; other protocols (connect) have bytes that only they can read."""
    if protocol != "consumer" or not content:
        return []
    try:
        read = decode_newer_value(ConsumerProtocolAssignment, content)
        return [f"{each.topic}-{index}" for each in read.assigned_partitions for index in each.partitions]
    except (OttlaError, ValueError):
        return []


async def _share(call: Call, group_id: str) -> Described | None:
    from ottla.protocol.messages import share_group_describe as share

    if not _is_served(share.ShareGroupDescribeRequest):
        return None
    request = share.ShareGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    answer = await _ask(call, group_id, request, share.ShareGroupDescribeResponse)
    (group,) = answer.groups
    if not _is_found(group):
        return None
    members: list[Json] = [
        {
            **_identity(each),
            "epoch": each.member_epoch,
            "topics": list(each.subscribed_topic_names),
            "assigned": _flat(each.assignment.topic_partitions),
        }
        for each in group.members
    ]
    return Described("share", group.group_state, members, {"assignor": group.assignor_name, "epoch": group.group_epoch})


async def _streams(call: Call, group_id: str) -> Described | None:
    from ottla.protocol.messages import streams_group_describe as streams

    if not _is_served(streams.StreamsGroupDescribeRequest):
        return None
    request = streams.StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    answer = await _ask(call, group_id, request, streams.StreamsGroupDescribeResponse)
    (group,) = answer.groups
    if not _is_found(group):
        return None
    members: list[Json] = [
        {
            **_identity(each),
            "instance_id": each.instance_id,
            "epoch": each.member_epoch,
            "process": each.process_id,
            "assigned": [
                *_tasks(each.assignment.active_tasks),
                *_tasks(each.assignment.standby_tasks, " standby"),
                *_tasks(each.assignment.warmup_tasks, " warm-up"),
            ],
        }
        for each in group.members
    ]
    facts: dict[str, Json] = {"epoch": group.group_epoch, "assignment_epoch": group.assignment_epoch}
    for part in (group.topology and group.topology.subtopologies) or ():
        facts[f"subtopology {part.subtopology_id}"] = f"reads {', '.join(part.source_topics)}"
    return Described("streams", group.group_state, members, facts)


class _TaskIds(Protocol):
    subtopology_id: str
    partitions: list[int]


def _tasks(ids: Sequence[_TaskIds], kind: str = "") -> list[Json]:
    return [f"{task.subtopology_id}_{index}{kind}" for task in ids for index in task.partitions]


def _is_served(request: type) -> bool:
    from ottla.broker.requests.served import SERVED_APIS
    from ottla.protocol.api import api_of

    return api_of(request).key in SERVED_APIS


async def _ask(call: Call, group_id: str, request: Message, answer: type[A]) -> A:
    return await ask_coordinator(call, GROUP_METADATA, group_id, request, answer, DESCRIBE_GROUP)
