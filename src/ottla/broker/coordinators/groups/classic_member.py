"""A member of a classic group: its id, its protocols, and its pending requests.

A member that is not new and waits for an answer is alive; a new one has to show itself by coming back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ottla.broker.coordinators.effects import Token
from ottla.errors import MalformedMessage
from ottla.light_dataclasses import dataclass, replace
from ottla.light_tuples import NamedTuple
from ottla.protocol import compiled
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.stored import split_lead
from ottla.protocol.stored.classic_groups import MemberMetadata
from ottla.protocol.stored.subscription import ConsumerProtocolSubscription

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]  # name and metadata, best first


class Waiting(NamedTuple):
    """A request that waits, and the version its answer must have."""

    token: Token
    api_version: int


@dataclass(slots=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    waiting_join: Waiting | None = None
    waiting_sync: Waiting | None = None

    def metadata(self, protocol: str) -> bytes:
        return dict(self.protocols)[protocol]

    @property
    def is_waiting(self) -> bool:
        return self.waiting_join is not None or self.waiting_sync is not None

    @property
    def is_alive_without_heartbeat(self) -> bool:
        return self.is_waiting and not self.is_new


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return tuple((each.name, each.metadata) for each in request.protocols)


def member_of_record(stored: MemberMetadata, protocol: str | None, known: ClassicMember | None) -> ClassicMember:
    if known is not None:
        return replace(known, assignment=stored.assignment)
    # Values before version 1 have no rebalance time-out of their own.
    rebalance_timeout_ms = stored.session_timeout if stored.rebalance_timeout == -1 else stored.rebalance_timeout
    return ClassicMember(
        member_id=stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout,
        protocols=((protocol or "", stored.subscription),),
        assignment=stored.assignment,
    )


def common_protocols(members: Iterable[ClassicMember]) -> set[str] | None:
    """What all of them speak; None when there is nobody, for then nothing is excluded."""
    common: set[str] | None = None
    for member in members:
        names = {name for name, _ in member.protocols}
        common = names if common is None else common & names
    return common


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of these subscriptions; None when one cannot be read.

    Only version 0 is read: every later version begins with it.
    """
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            _, body = split_lead(subscription)
            topics.update(compiled.decode_prefix(ConsumerProtocolSubscription, 0, body)[0].topics)
        except MalformedMessage:
            return None
    return frozenset(topics)
