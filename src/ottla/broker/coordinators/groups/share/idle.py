"""Nearly every heartbeat of a share group: the member says only that it lives, and there is nothing to tell it.

As for consumer groups (consumer/idle.py): `is_idle` is strict, and the general way would answer the same.
"""

from __future__ import annotations

from ottla.broker.coordinators.effects import Effect, Reply, Token, Write
from ottla.broker.coordinators.groups.consumer.member import NOTHING
from ottla.broker.coordinators.groups.group_responses import failing
from ottla.broker.coordinators.groups.share.group import ShareGroup
from ottla.broker.coordinators.groups.share.heartbeat import (
    Environment,
    InitializeStates,
    heartbeat_error,
    session_timer,
)
from ottla.broker.coordinators.groups.share.member import ShareMember
from ottla.broker.requests.context import RequestContext
from ottla.errors import NONE
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def is_idle(
    group: ShareGroup, member: ShareMember, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> bool:
    """Whether neither the request nor the group has any news."""
    return (
        0 < request.member_epoch == member.epoch == group.epoch == group.assignment_epoch
        and group.is_metadata_checked
        and group.is_covered
        and member.assigned == group.targets.get(member.member_id, NOTHING)
        and request.subscribed_topic_names is None
        and request.rack_id is None
        and member.client_id == context.client_id
        and member.client_host == context.client_host
    )


def idle_effects(
    group_id: str, member: ShareMember, environment: Environment, token: Token
) -> list[Effect | InitializeStates]:
    """It is alive. The answer waits, as every other, until what the shard has written so far is committed."""
    answer = ShareGroupHeartbeatResponse(
        error_code=NONE,
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=environment.settings.heartbeat_interval_ms,
    )
    return [
        Write((), (Reply(token, answer),), failing(token, heartbeat_error)),
        session_timer(group_id, member.member_id, environment),
    ]
