"""Nearly every heartbeat of a consumer group: the member says only that it lives, and there is nothing to tell it.

Ten thousand members send two thousand of them a second. What the general way (heartbeat.py) would draft, compare and
reconcile is known beforehand to change nothing, so it is answered from what is there. `is_idle` is strict: whatever is
not plainly nothing goes the general way, which would answer the same here; a test holds both side by side.
"""

from __future__ import annotations

from ottla.broker.coordinators.effects import Effect, Reply, SetTimer, Token, Write
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.heartbeat import heartbeat_error
from ottla.broker.coordinators.groups.consumer.member import ConsumerMember
from ottla.broker.coordinators.groups.group_responses import failing
from ottla.broker.coordinators.groups.timers import SessionTimer
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.group_level import ConsumerTimes
from ottla.errors import NONE
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def is_idle(
    group: ConsumerGroup, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> bool:
    """Whether neither the request nor the group has any news."""
    return (
        request.member_epoch == member.epoch == group.epoch
        and member.is_reconciled_to(group.assignment_epoch)
        and group.is_metadata_checked
        and not group.regex_members  # what they match may have to be looked up again
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and (request.instance_id is None or group.static_ids.get(request.instance_id) == member.member_id)
        and member.classic is None
        and member.client_id == context.client_id
        and member.client_host == context.client_host
    )


def idle_effects(
    group_id: str, member: ConsumerMember, times: ConsumerTimes, token: Token, now_ms: int
) -> list[Effect]:
    """It is alive. The answer waits, as every other, until what the shard has written so far is committed."""
    answer = ConsumerGroupHeartbeatResponse(
        error_code=NONE,
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=times.heartbeat_interval_ms,
    )
    return [
        Write((), (Reply(token, answer),), failing(token, heartbeat_error)),
        SetTimer(SessionTimer(group_id, member.member_id), now_ms + times.session_timeout_ms),
    ]
