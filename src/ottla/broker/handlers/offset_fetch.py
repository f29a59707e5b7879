"""OffsetFetch: how far groups have read. From version 8 on several groups in one request, each with its own error. A
group whose every offset is asked for is told them once, however often it is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later, gather
from ottla.broker.requests.long_work import Steps
from ottla.errors import BrokerError
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SEVERAL_GROUPS_SINCE = 8
TOP_LEVEL_ERROR_SINCE = 2


def handle(broker: Broker, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse | Later[Any]:
    if context.api_version < SEVERAL_GROUPS_SINCE:
        return _one_group(broker, request, context)
    return broker.long_work.do(_steps(broker, request, context), context.connection)


def _steps(broker: Broker, request: OffsetFetchRequest, context: RequestContext) -> Steps[Later[Any]]:
    asked: list[Later[Any]] = []
    told_all: set[str] = set()
    for group in request.groups:
        if group.topics is None and group.group_id in told_all:
            continue
        if group.topics is None:
            told_all.add(group.group_id)
        yield
        single = OffsetFetchRequest(groups=[group], require_stable=request.require_stable)
        try:
            asked.append(broker.groups.ask(group.group_id, GroupShard.fetch_offsets, single, context))
        except BrokerError as error:
            refused = OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.code)
            asked.append(Later.given(OffsetFetchResponse(groups=[refused])))
    together: Later[Any] = Later()
    gather(asked, lambda answers: together.give(OffsetFetchResponse(groups=[g for a in answers for g in a.groups])))
    return together


def _one_group(
    broker: Broker, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Later[Any]:
    try:
        return broker.groups.ask(request.group_id, GroupShard.fetch_offsets, request, context)
    except BrokerError as error:
        if context.api_version >= TOP_LEVEL_ERROR_SINCE:
            return OffsetFetchResponse(topics=[], error_code=error.code)
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=index, committed_offset=-1, metadata="", error_code=error.code
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or []
            ]
        )
