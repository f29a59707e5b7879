"""ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe: what the three have in common.

1. Each group is asked at its own shard. A group that is named twice is described once.
2. A group that the client may not describe is refused by an entry of its own.
3. A group whose description names a topic that the client may not know is refused as a whole.
4. The operations that the client may do with a group are added where it asks for them, and never to an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from ottla.broker.coordinators.coordinator import Method
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.security.needs import Need, Refused
from ottla.errors import NONE, BrokerError
from ottla.light_dataclasses import dataclass
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class Description(Protocol):
    error_code: int
    group_id: str
    authorized_operations: int


G = TypeVar("G", bound=Description)
R = TypeVar("R", bound=Message)
A = TypeVar("A", bound=Message)

DESCRIBE_GROUP: Final = Need(AclOperation.DESCRIBE, AclResource.GROUP, Refused.ENTRY)


@dataclass(frozen=True)
class Kind(Generic[G, R, A]):
    """How groups of one kind are described."""

    method: Method[GroupShard, R]
    request_for: Callable[[str], R]
    """Of the shard: for one group, without operations."""
    answer_of: Callable[[list[G]], A]
    groups_of: Callable[[A], list[G]]
    error: Callable[[str, BrokerError], G]
    topics: Callable[[G], set[str]]
    """The names of topics in a description."""
    describe_topic: Need
    unnamed: BrokerError | None = None
    """What is answered of a group without a name; None: its shard decides."""


async def describe_groups(
    broker: Broker, context: RequestContext, kind: Kind[G, R, A], group_ids: list[str], *, with_operations: bool
) -> A:
    allowed, refused = DESCRIBE_GROUP.split(broker, context, list(dict.fromkeys(group_ids)), str)
    unnamed = kind.unnamed
    with broker.pacing.turn(context.connection) as pace:
        answers = await broker.groups.ask_each(
            pace,
            allowed if unnamed is None else filter(None, allowed),
            kind.method,
            kind.request_for,
            context,
            lambda group_id, error: kind.answer_of([kind.error(group_id, error)]),
        )
    groups = [_visible(broker, context, group, kind) for answer in answers for group in kind.groups_of(answer)]
    if unnamed is not None and "" in allowed:
        groups.append(kind.error("", unnamed))
    if with_operations:
        _add_operations(broker, context, groups)
    groups += [kind.error(each, DESCRIBE_GROUP.refusal(context)) for each in refused]
    return kind.answer_of(groups)


def _visible(broker: Broker, context: RequestContext, group: G, kind: Kind[G, R, A]) -> G:
    if not broker.access.is_on:
        return group
    topics = kind.topics(group)
    if len(kind.describe_topic.met_by(broker, context, topics)) == len(topics):
        return group
    return kind.error(group.group_id, kind.describe_topic.refusal(context))


def _add_operations(broker: Broker, context: RequestContext, groups: list[G]) -> None:
    for group in groups:
        if group.error_code == NONE:
            group.authorized_operations = broker.access.operations(context, AclResource.GROUP, group.group_id)
