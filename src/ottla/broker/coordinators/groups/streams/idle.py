"""Nearly every heartbeat of a streams group: the member says only that it lives, and there is nothing to tell it.

As for consumer groups (consumer/idle.py): `is_idle` is strict, and the general way would answer the same.
"""

from __future__ import annotations

from ottla.broker.coordinators.effects import Effect, Reply, Token, Write
from ottla.broker.coordinators.groups.group_responses import failing
from ottla.broker.coordinators.groups.streams.group import StreamsGroup
from ottla.broker.coordinators.groups.streams.heartbeat import (
    Environment,
    empty_answer,
    heartbeat_error,
    session_timer,
)
from ottla.broker.coordinators.groups.streams.member import StreamsMember
from ottla.broker.coordinators.groups.streams.target import assignment_configs
from ottla.broker.requests.context import RequestContext
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


def is_idle(
    group: StreamsGroup,
    member: StreamsMember,
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext,
    environment: Environment,
) -> bool:
    """Whether neither the request nor the group has any news."""
    return (
        request.member_epoch == member.epoch == group.epoch
        and member.is_reconciled_to(group.assignment_epoch)
        and _says_nothing(request)
        and request.endpoint_information_epoch == group.endpoint_epoch
        and member.client_id == context.client_id
        and member.client_host == context.client_host
        and _has_nothing_to_say(group, member)
        and group.assignment_configs == assignment_configs(environment.config)
        and environment.now_ms >= group.delayed_until_ms
    )


def _says_nothing(request: StreamsGroupHeartbeatRequest) -> bool:
    return (
        request.active_tasks is None
        and request.standby_tasks is None
        and request.warmup_tasks is None
        and request.topology is None
        and request.rebalance_timeout_ms == -1
        and request.process_id is None
        and request.user_endpoint is None
        and request.client_tags is None
        and request.rack_id is None
        and request.instance_id is None
        and request.task_offsets is None
        and request.task_end_offsets is None
        and not request.shutdown_application
    )


def _has_nothing_to_say(group: StreamsGroup, member: StreamsMember) -> bool:
    """The topics are those that the topology was last found ready on, and no status is due."""
    topology, configured = group.topology, group.configured
    return (
        group.is_metadata_checked
        and topology is not None
        and configured is not None
        and configured.is_ready
        and group.validated_topology_epoch == configured.topology_epoch == topology.epoch <= member.topology_epoch
        and group.metadata_hash == configured.metadata_hash
        and group.shutdown_by is None
    )


def idle_effects(group: StreamsGroup, member: StreamsMember, environment: Environment, token: Token) -> list[Effect]:
    """It is alive. The answer waits, as every other, until what the shard has written so far is committed."""
    answer = empty_answer(member.member_id, member.epoch)
    answer.heartbeat_interval_ms = environment.config.heartbeat_interval_ms
    answer.endpoint_information_epoch = group.endpoint_epoch
    return [
        Write((), (Reply(token, answer),), failing(token, heartbeat_error)),
        session_timer(group.group_id, member, environment),
    ]
