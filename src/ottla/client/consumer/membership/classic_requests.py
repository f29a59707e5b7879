"""The four requests of a classic member, from its settings and who it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.consumer.membership.assignors import Assignor
from ottla.client.consumer.membership.decisions import MemberSettings
from ottla.client.consumer.membership.subscriptions import MemberSubscription, write_subscription
from ottla.client.group_metadata import GroupMetadata
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.values import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
REASON_LIMIT: Final = 255
"""Brokers cut longer reasons, and log them."""


def join_group(
    settings: MemberSettings,
    member: GroupMetadata,
    assignors: Iterable[Assignor],
    topics: frozenset[str],
    owned: frozenset[TopicPartition],
    last_share: tuple[frozenset[TopicPartition], int],
    reason: str | None,
) -> JoinGroupRequest:
    """One subscription per strategy: they differ in what the assignors want to know. `last_share`: what this member
    was last given and in which generation, even if it gave it up since."""
    protocols = [
        JoinGroupRequestProtocol(
            name=assignor.name,
            metadata=write_subscription(
                MemberSubscription(
                    topics=topics,
                    owned=owned,
                    generation=member.generation_id,
                    rack=settings.rack,
                    user_data=assignor.user_data(topics, *last_share),
                )
            ),
        )
        for assignor in assignors
    ]
    return JoinGroupRequest(
        group_id=member.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
        reason=(reason or "")[:REASON_LIMIT] or None,
    )


def sync_group(member: GroupMetadata, strategy: str | None, shares: Mapping[str, bytes]) -> SyncGroupRequest:
    assignments = [
        SyncGroupRequestAssignment(member_id=name, assignment=share) for name, share in sorted(shares.items())
    ]
    return SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=strategy,
        assignments=assignments,
    )


def heartbeat(member: GroupMetadata) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=member.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
    )


def leave_group(member: GroupMetadata, reason: str) -> LeaveGroupRequest:
    leaver = MemberIdentity(
        member_id=member.member_id, group_instance_id=member.group_instance_id, reason=reason[:REASON_LIMIT]
    )
    return LeaveGroupRequest(group_id=member.group_id, members=[leaver])
