"""What a request needs: declared once by the handler of its API, and asked through that declaration.

    WRITE_TOPIC = Need(AclOperation.WRITE, AclResource.TOPIC)
    SERVES = Served(ProduceRequest, needs=(WRITE_TOPIC, ...))

    WRITE_TOPIC.is_met(broker, context, "orders")             may he
    WRITE_TOPIC.met_by(broker, context, names)                which of them may he
    WRITE_TOPIC.split(broker, context, entries, name_of)      entries of a request that he may, and the others
    await WRITE_TOPIC.met_by_many(..., pace)                  the same, and split_many, for thousands: with pauses
    WRITE_TOPIC.check(broker, context, "orders")              raise Kafka's error for this kind of resource

1. Handlers ask through a Need of their SERVES and never ask `broker.access` themselves, so the table of operations
   (docs/access-rules.md) is what is checked.
2. Without an authorizer every need is met, and nothing is asked.
3. `unless` is another need that is enough: CREATE on the cluster instead of CREATE on every topic.
4. What only the controller decides is checked by the broker that the client sent it to (`is_forwarded`): only that
   broker knows the client (cluster/forwarding.py). The controller takes its word, if it is a broker (peers.py); anybody
   else who poses as a forwarder is checked as himself.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Collection, Set
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.broker.quotas.forwarded import FORWARDER
from ottla.broker.requests.context import RequestContext
from ottla.broker.security.access import CLUSTER
from ottla.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from ottla.light_dataclasses import dataclass, field
from ottla.protocol.access import AclOperation, AclResource

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.requests.pacing import Pace

T = TypeVar("T")

NAMES_AT_ONCE: Final = 500
"""Of so many it is asked between two pauses."""

REFUSALS: Final[dict[AclResource, type[BrokerError]]] = {
    AclResource.TOPIC: TopicAuthorizationFailed,
    AclResource.GROUP: GroupAuthorizationFailed,
    AclResource.CLUSTER: ClusterAuthorizationFailed,
    AclResource.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    AclResource.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
    AclResource.USER: DelegationTokenAuthorizationFailed,
}


class Refused(enum.Enum):
    """What a client is told when a need is not met."""

    ENTRY = "for that entry"
    REQUEST = "for the whole request"
    LEFT_OUT = "left out of the answer"


_DEBUG: Final = logging.DEBUG


@dataclass(frozen=True, slots=True)
class Need:
    """An operation on resources that a request names."""

    operation: AclOperation
    resource: AclResource
    refused: Refused = Refused.REQUEST
    when: str = ""
    """In which requests, for the table; empty is in all."""
    unless: Need | None = None
    refused_as: AclResource | None = None
    """Of which kind of resource the client is told that it is refused, where that is another one."""
    is_forwarded: bool = False
    """Whether it is asked by the broker that a client sent its request to, and not again by the controller."""
    _is_filter: bool = field(init=False, repr=False)
    _may_be_met_at_all: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """What every record would have to be asked for otherwise."""
        # Of what is left out nobody asked by name, so that a denial is no attempt (security/access.py).
        object.__setattr__(self, "_is_filter", self.refused is Refused.LEFT_OUT)
        object.__setattr__(self, "_may_be_met_at_all", self.is_forwarded or self.unless is not None)

    def is_met(self, broker: Broker, context: RequestContext, name: str = CLUSTER) -> bool:
        access = broker.access
        if not access.is_on or (self._may_be_met_at_all and self._is_met_at_all(broker, context)):
            return True
        return access.allows(context, self.operation, self.resource, name, is_filter=self._is_filter)

    def remembered(self, broker: Broker, context: RequestContext) -> Set[str]:
        """Names that are known to be allowed; see Access.remembered. Only where there is an authorizer."""
        known = context.memo.decisions  # every record comes this way, so this is what Access.remembered would do
        if (
            known is not None
            and known.operation is self.operation
            and known.resource is self.resource
            and known.holds
            and not known.is_audited(_DEBUG)
        ):
            return known.names
        return broker.access.remembered(context, self.operation, self.resource)

    def met_by(self, broker: Broker, context: RequestContext, names: Collection[str]) -> Collection[str]:
        """Those of the names that he may; without an authorizer all of them, as they come."""
        access = broker.access
        if not access.is_on or (self._may_be_met_at_all and self._is_met_at_all(broker, context)):
            return names
        return access.allowed(context, self.operation, self.resource, names, is_filter=self._is_filter)

    async def met_by_many(
        self, broker: Broker, context: RequestContext, names: Collection[str], pace: Pace
    ) -> Collection[str]:
        """The same with pauses, for as many names as a request may have."""
        if not broker.access.is_on:
            return names
        found: set[str] = set()
        remaining = iter(names)
        while some := list(islice(remaining, NAMES_AT_ONCE)):
            found.update(self.met_by(broker, context, some))
            await pace.step()
        return found

    def _is_met_at_all(self, broker: Broker, context: RequestContext) -> bool:
        """Whatever the name is."""
        if self.is_forwarded and was_checked(broker, context):
            return True
        other = self.unless
        return other is not None and broker.access.allows(context, other.operation, other.resource, is_filter=True)

    def split(
        self, broker: Broker, context: RequestContext, entries: list[T], name_of: Callable[[T], str | None]
    ) -> tuple[list[T], list[T]]:
        """The entries of a request that he may ask for, and the others. None is the name of what has none: an id that
        nobody has hides nothing."""
        if not broker.access.is_on:
            return entries, []
        named = [(each, name_of(each)) for each in entries]
        allowed = self.met_by(broker, context, {name for _, name in named if name is not None})
        return (
            [each for each, name in named if name is None or name in allowed],
            [each for each, name in named if name is not None and name not in allowed],
        )

    async def split_many(
        self,
        broker: Broker,
        context: RequestContext,
        entries: list[T],
        name_of: Callable[[T], str | None],
        pace: Pace,
    ) -> tuple[list[T], list[T]]:
        """The same with pauses."""
        if not broker.access.is_on:
            return entries, []
        allowed: list[T] = []
        refused: list[T] = []
        for start in range(0, len(entries), NAMES_AT_ONCE):
            some = self.split(broker, context, entries[start : start + NAMES_AT_ONCE], name_of)
            allowed += some[0]
            refused += some[1]
            await pace.step()
        return allowed, refused

    def is_met_by_any(self, broker: Broker, context: RequestContext) -> bool:
        """Whether there is a resource of this kind with which he may, existing or not."""
        return not broker.access.is_on or broker.access.allows_any(context, self.operation, self.resource)

    def check(self, broker: Broker, context: RequestContext, name: str = CLUSTER) -> None:
        if not self.is_met(broker, context, name):
            raise self.refusal(context)

    def refusal(self, context: RequestContext) -> BrokerError:
        what = self.resource.name.lower().replace("_", " ")
        return self.error(f"{context.principal} may not {self.operation.name} this {what}")

    @property
    def code(self) -> int:
        """Of the error when it is not met."""
        return self.error.code

    @property
    def error(self) -> type[BrokerError]:
        return REFUSALS[self.refused_as or self.resource]


CLUSTER_ACTION: Final = Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
"""What brokers may, and nobody else."""


def was_checked(broker: Broker, context: RequestContext) -> bool:
    """Whether the request was passed on by a broker, which has checked the rights of whoever asked it."""
    return context.client_id.startswith(FORWARDER) and broker.peers.refusal(context) is None
