"""Who may do what with which resource: the questions that handlers ask.

    broker.access.allows(context, AclOperation.WRITE, AclResource.TOPIC, "orders")        may he
    broker.access.allowed(context, AclOperation.DESCRIBE, AclResource.TOPIC, names)       which of them may he
    broker.access.allows_any(context, AclOperation.WRITE, AclResource.TOPIC)              is there one that he may
    broker.access.operations(context, AclResource.TOPIC, "orders")                        all that he may, as bits

1. Without an authorizer everybody may do everything, as in Kafka; what only brokers may do is kept for them elsewhere
   (requests/gate.py).
2. An answer is decided from what is known now: nothing here waits.
3. Every question is a decision in the audit log. `is_filter` says that nobody asked for this resource by its name, as
   when a list is shortened to what its reader may see; that is no attempt, and a denial of it is not worth a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final, Protocol

from ottla.broker.requests.context import RequestContext
from ottla.broker.security.operations import ALL_OPERATIONS
from ottla.broker.settings.access import AccessSettings, principals
from ottla.cluster.image import ClusterImage
from ottla.protocol.access import AclOperation, AclResource

CLUSTER: Final = "kafka-cluster"
"""The name of the one resource of its kind: the cluster itself."""


class Access(Protocol):
    """What decides about access."""

    @property
    def is_on(self) -> bool:
        """Whether there are rules at all; where there are none, nothing has to be asked."""

    def update(self, image: ClusterImage) -> None:
        """The cluster's truth is this now, and with it the rules."""

    def allows(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResource,
        name: str = CLUSTER,
        *,
        is_filter: bool = False,
    ) -> bool:
        """May whoever sent this request do this with that resource?"""

    def remembered(self, context: RequestContext, operation: AclOperation, resource: AclResource) -> Set[str]:
        """Names that are known to be allowed, for who has no time to ask; for all others `allows` must be asked. They
        are true until something is awaited, and empty while what is allowed is audited."""

    def allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResource,
        names: Iterable[str],
        *,
        is_filter: bool = False,
    ) -> set[str]:
        """With which of them he may do it."""

    def allows_any(self, context: RequestContext, operation: AclOperation, resource: AclResource) -> bool:
        """Is there a resource of this kind with which he may do it, whether it exists or not?"""

    def operations(self, context: RequestContext, resource: AclResource, name: str = CLUSTER) -> int:
        """What he may do with it, as a bit field."""


class OpenAccess:
    """No authorizer: everybody may do everything."""

    is_on = False

    def update(self, image: ClusterImage) -> None:
        """There are no rules that could change."""

    def allows(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResource,
        name: str = CLUSTER,
        *,
        is_filter: bool = False,
    ) -> bool:
        return True

    def remembered(self, context: RequestContext, operation: AclOperation, resource: AclResource) -> Set[str]:
        return frozenset()

    def allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResource,
        names: Iterable[str],
        *,
        is_filter: bool = False,
    ) -> set[str]:
        return set(names)

    def allows_any(self, context: RequestContext, operation: AclOperation, resource: AclResource) -> bool:
        return True

    def operations(self, context: RequestContext, resource: AclResource, name: str = CLUSTER) -> int:
        return ALL_OPERATIONS[resource]


def make_access(settings: AccessSettings, kept_topics: Iterable[str] = ()) -> Access:
    """What decides about access with these settings; rules are loaded where there are any. `kept_topics` are changed by
    the broker itself."""
    if not settings.authorizer_class_name:
        return OpenAccess()
    from ottla.broker.security.authorizer import Authorizer
    from ottla.broker.security.rules import Rules

    return Authorizer(
        Rules(
            super_users=principals(settings.super_users),
            allow_everyone=settings.allow_everyone_if_no_acl_found,
            kept_topics=kept_topics,
        )
    )
