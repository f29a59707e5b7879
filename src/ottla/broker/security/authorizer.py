"""The authorizer: rules.py decides, and here it is remembered and written down.

1. A decision is remembered until the rules change, so a producer pays for two dictionary look-ups per topic. At most
   DECISION_LIMIT decisions are remembered; when there are more, all are forgotten.
2. The rules follow the image: Broker.take_image tells every new one. What was decided on other rules is forgotten
   before anybody can ask again, because all of it happens on one loop.
3. Every decision is audited (audit.py), remembered or not; where the log does not want it, that costs one question.
4. `authorizer.class.name` takes the names of Kafka's two authorizers, and means this one. Text never names code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from ottla.broker.requests.context import RequestContext
from ottla.broker.security import audit
from ottla.broker.security.access import CLUSTER, Access, OpenAccess
from ottla.broker.security.operations import OPERATIONS, bits
from ottla.broker.security.rules import Asker, Rules
from ottla.broker.settings.access import AccessSettings, principals
from ottla.cluster.image import ClusterImage
from ottla.protocol.access import AclOperation, AclResource

DECISION_LIMIT: Final = 50_000

Question: TypeAlias = tuple[str, str, AclOperation, AclResource]
"""Principal, host, operation, kind of resource."""


def make_access(settings: AccessSettings) -> Access:
    """What decides about access with these settings."""
    if not settings.authorizer_class_name:
        return OpenAccess()
    return Authorizer(
        Rules(
            super_users=principals(settings.super_users),
            allow_everyone=settings.allow_everyone_if_no_acl_found,
        )
    )


class Authorizer:
    """Access by rules; see above."""

    is_on = True

    def __init__(self, rules: Rules, *, decision_limit: int = DECISION_LIMIT) -> None:
        self._rules = rules
        self._limit = decision_limit
        self._decisions: dict[Question, dict[str, bool]] = {}
        self._any: dict[Question, bool] = {}
        self._remembered = 0
        self._is_wanted = audit.audit_log.isEnabledFor

    def update(self, image: ClusterImage) -> None:
        if self._rules.replace(image.acls):
            self._forget()

    def _forget(self) -> None:
        self._decisions.clear()
        self._any.clear()
        self._remembered = 0

    # --- the questions of handlers ---

    def allows(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResource,
        name: str = CLUSTER,
        *,
        is_filter: bool = False,
    ) -> bool:
        known = self._decisions.get((context.principal, context.client_host, operation, resource))
        is_allowed = None if known is None else known.get(name)
        if is_allowed is None:
            is_allowed = self._decide(context, operation, resource, name)
        if self._is_wanted(audit.level_of(is_allowed, is_filter=is_filter)):
            self._audit(context, operation, resource, name, is_filter=is_filter)
        return is_allowed

    def allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResource,
        names: Iterable[str],
        *,
        is_filter: bool = False,
    ) -> set[str]:
        return {name for name in names if self.allows(context, operation, resource, name, is_filter=is_filter)}

    def allows_any(self, context: RequestContext, operation: AclOperation, resource: AclResource) -> bool:
        question = context.principal, context.client_host, operation, resource
        is_allowed = self._any.get(question)
        if is_allowed is None:
            asker = Asker.of(context.principal, context.client_host)
            is_allowed = self._rules.allows_any(context.principal, asker, operation, resource)
            self._make_room()
            self._any[question] = is_allowed
        return is_allowed

    def operations(self, context: RequestContext, resource: AclResource, name: str = CLUSTER) -> int:
        return bits(
            *(each for each in OPERATIONS[resource] if self.allows(context, each, resource, name, is_filter=True))
        )

    # --- deciding ---

    def _decide(self, context: RequestContext, operation: AclOperation, resource: AclResource, name: str) -> bool:
        asker = Asker.of(context.principal, context.client_host)
        verdict = self._rules.decide(context.principal, asker, operation, resource, name)
        self._make_room()
        question = context.principal, context.client_host, operation, resource
        self._decisions.setdefault(question, {})[name] = verdict.is_allowed
        return verdict.is_allowed

    def _make_room(self) -> None:
        if self._remembered >= self._limit:
            self._forget()
        self._remembered += 1

    def _audit(
        self, context: RequestContext, operation: AclOperation, resource: AclResource, name: str, *, is_filter: bool
    ) -> None:
        """Decide once more: only the rules know by which of them it was decided."""
        asker = Asker.of(context.principal, context.client_host)
        verdict = self._rules.decide(context.principal, asker, operation, resource, name)
        audit.write(context, operation, resource, name, verdict, is_filter=is_filter)
