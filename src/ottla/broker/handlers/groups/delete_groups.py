"""DeleteGroups: remove empty groups with their offsets, each asked at its own shard.

Of a share group the share coordinator forgets the state first; when that fails, the group stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.broker.sharing.group_offsets import GroupOffsets
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DELETE_GROUP = Need(AclOperation.DELETE, AclResource.GROUP, Refused.ENTRY)
SERVES = Served(DeleteGroupsRequest, slices=Slices("groups_names", "results", is_set=True), needs=(DELETE_GROUP,))


async def handle(broker: Broker, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    groups, refused = DELETE_GROUP.split(broker, context, list(dict.fromkeys(request.groups_names)), str)
    failed = await _forget_shared(broker, groups) if broker.image.feature("share.version") else {}
    with broker.pacing.turn(context.connection) as pace:
        answers = await broker.groups.ask_each(
            pace,
            [each for each in groups if each not in failed],
            GroupShard.delete_groups,
            lambda group_id: DeleteGroupsRequest(groups_names=[group_id]),
            context,
            _refused,
        )
    answers += [_refused(group_id, error) for group_id, error in failed.items()]
    answers += [_refused(group_id, DELETE_GROUP.refusal(context)) for group_id in refused]
    return DeleteGroupsResponse(results=[result for answer in answers for result in answer.results])


async def _forget_shared(broker: Broker, groups: Iterable[str]) -> dict[str, BrokerError]:
    """Have the state of those that are empty share groups forgotten; why that failed, by group."""
    failed: dict[str, BrokerError] = {}
    for group_id in groups:
        try:
            topics = broker.groups.share_group(group_id).partitions.topic_ids()
        except BrokerError:
            continue  # no share group of ours: the shard says what is wrong, if anything is
        try:
            for error in (await GroupOffsets(broker, group_id).delete(topics)).values():
                if error is not None:
                    failed[group_id] = error
        except BrokerError as error:
            failed[group_id] = error
    return failed


def _refused(group_id: str, error: BrokerError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=error.code)])
