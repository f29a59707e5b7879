"""OffsetFetch: how far groups have read. From version 8 on several groups in one request, each with its own error. A
group whose every offset is asked for is told them once, however often it is named."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work, awaited
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SEVERAL_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
TOP_LEVEL_ERROR_SINCE = 2


DESCRIBE_GROUP = Need(AclOperation.DESCRIBE, AclResource.GROUP, Refused.ENTRY)
DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY)
SERVES = Served(OffsetFetchRequest, is_paced=True, needs=(DESCRIBE_GROUP, DESCRIBE_TOPIC))


async def handle(broker: Broker, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.api_version < SEVERAL_GROUPS_SINCE:
        return await _of_one_group(broker, request, context)
    asked = []
    seen_whole: set[str] = set()
    with broker.pacing.turn(context.connection) as pace:
        for group in request.groups:
            if group.topics is None and group.group_id in seen_whole:
                continue
            if group.topics is None:
                seen_whole.add(group.group_id)
            asked.append(_ask(broker, group, request.require_stable, context))
            await pace.step()
    return OffsetFetchResponse(groups=[await awaited(each) for each in asked])


async def _of_one_group(broker: Broker, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if not DESCRIBE_GROUP.is_met(broker, context, request.group_id):
        return _refusal(request, DESCRIBE_GROUP.refusal(context), context.api_version)
    refused: list[OffsetFetchRequestTopic] = []
    if request.topics is not None:
        request.topics, refused = DESCRIBE_TOPIC.split(broker, context, request.topics, lambda topic: topic.name)
    answer: OffsetFetchResponse = await broker.groups.ask_or(
        request.group_id,
        GroupShard.fetch_offsets,
        request,
        context,
        lambda error: _refusal(request, error, context.api_version),
    )
    if request.topics is None:
        answer.topics, _ = DESCRIBE_TOPIC.split(broker, context, answer.topics, lambda topic: topic.name)
    if answer.error_code == NONE:
        answer.topics += [_refused_topic(topic, DESCRIBE_TOPIC.code) for topic in refused]
    return answer


def _ask(
    broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext
) -> OffsetFetchResponseGroup | Work[OffsetFetchResponseGroup]:
    """Begin to ask, so that the groups of one request are not asked one after the other."""
    if not DESCRIBE_GROUP.is_met(broker, context, group.group_id):
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=DESCRIBE_GROUP.code)
    refused: list[OffsetFetchRequestTopics] = []
    if group.topics is not None:
        group.topics, refused = DESCRIBE_TOPIC.split(broker, context, group.topics, partial(_name, broker, context))

    def failed(error: BrokerError) -> OffsetFetchResponse:
        whole = OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.code)
        return OffsetFetchResponse(groups=[whole])

    single = OffsetFetchRequest(groups=[group], require_stable=require_stable)
    asked = broker.groups.ask_or(group.group_id, GroupShard.fetch_offsets, single, context, failed)
    return _with_refused(broker, context, group, refused, asked)


async def _with_refused(
    broker: Broker,
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    refused: list[OffsetFetchRequestTopics],
    asked: asyncio.Future[OffsetFetchResponse],
) -> OffsetFetchResponseGroup:
    (answer,) = (await asked).groups
    if group.topics is None:
        answer.topics, _ = DESCRIBE_TOPIC.split(broker, context, answer.topics, lambda topic: topic.name)
    if answer.error_code == NONE:
        answer.topics += [_refused_topics(topic, DESCRIBE_TOPIC.code) for topic in refused]
    return answer


def _name(broker: Broker, context: RequestContext, topic: OffsetFetchRequestTopics) -> str | None:
    return broker.image.topic_name(topic.topic_id) if context.api_version >= TOPIC_IDS_SINCE else topic.name


def _refused_topics(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=code)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _refused_topic(topic: OffsetFetchRequestTopic, code: int) -> OffsetFetchResponseTopic:
    partitions = [
        OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=code)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


def _refusal(request: OffsetFetchRequest, error: BrokerError, version: int) -> OffsetFetchResponse:
    if version >= TOP_LEVEL_ERROR_SINCE:
        return OffsetFetchResponse(topics=[], error_code=error.code)
    return OffsetFetchResponse(topics=[_refused_topic(topic, error.code) for topic in request.topics or []])
