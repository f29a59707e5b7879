"""OffsetFetch: how far groups have read. From version 8 on several groups in one request, each with its own error. A
group whose every offset is asked for is told them once, however often it is named."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SEVERAL_GROUPS_SINCE = 8
TOP_LEVEL_ERROR_SINCE = 2


SERVES = Served(
    OffsetFetchRequest,
    is_paced=True,
    needs=(
        Need(
            AclOperation.DESCRIBE,
            AclResource.GROUP,
            lambda request: [request.group_id, *(group.group_id for group in request.groups)],
        ),
    ),
)


async def handle(broker: Broker, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.api_version < SEVERAL_GROUPS_SINCE:
        return await broker.groups.ask_or(
            request.group_id,
            GroupShard.fetch_offsets,
            request,
            context,
            lambda error: _refusal(request, error, context.api_version),
        )
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
    return OffsetFetchResponse(groups=[group for each in asked for group in (await each).groups])


def _ask(
    broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext
) -> asyncio.Future[OffsetFetchResponse]:
    def refused(error: BrokerError) -> OffsetFetchResponse:
        whole = OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.code)
        return OffsetFetchResponse(groups=[whole])

    single = OffsetFetchRequest(groups=[group], require_stable=require_stable)
    return broker.groups.ask_or(group.group_id, GroupShard.fetch_offsets, single, context, refused)


def _refusal(request: OffsetFetchRequest, error: BrokerError, version: int) -> OffsetFetchResponse:
    if version >= TOP_LEVEL_ERROR_SINCE:
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
