"""The authorizer: rules.py decides, and here it is remembered and written down.

1. A decision is remembered until the rules change, so a producer pays for one look-up in a set per topic. About
   DECISION_LIMIT decisions are remembered; when there are more, all are forgotten.
2. The rules follow the image: Broker.take_image tells every new one. What was decided on other rules is forgotten
   before anybody can ask again, because all of it happens on one loop.
3. What every record comes by looks into what is remembered itself (`remembered`), and asks only for what is not there.
4. Every decision is audited (audit.py), remembered or not; where the log does not want it, that costs one question.
5. `authorizer.class.name` takes the names of Kafka's two authorizers, and means this one. Text never names code.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final, TypeAlias

from ottla.broker.requests.context import RequestContext
from ottla.broker.security import audit
from ottla.broker.security.access import CLUSTER
from ottla.broker.security.audit import DEBUG, INFO, TRACE
from ottla.broker.security.operations import OPERATIONS, bits
from ottla.broker.security.rules import Asker, Rules, Verdict
from ottla.cluster.image import ClusterImage
from ottla.protocol.access import AclOperation, AclResource

DECISION_LIMIT: Final = 100_000
_NOTHING: Final[Set[str]] = frozenset()

Question: TypeAlias = tuple[str, str, AclOperation, AclResource]
"""Principal, host, operation, kind of resource."""


class Decisions(dict[str, bool]):
    """What was decided of one question, by the names of resources; what was not is decided when it is looked up."""

    __slots__ = (
        "_any",
        "_asker",
        "_by_prefixes",
        "_principal",
        "_rules",
        "holds",
        "is_audited",
        "names",
        "operation",
        "owner",
        "resource",
    )

    def __init__(self, rules: Rules, question: Question, owner: _Remembered) -> None:
        self._rules = rules
        self._principal, host, self.operation, self.resource = question
        self._asker = Asker.of(self._principal, host)
        self._any: bool | None = None
        self._by_prefixes: dict[tuple[str, ...], bool] = {}  # of all resources that no rule speaks of by name
        self.owner = owner
        self.is_audited = audit.audit_log.isEnabledFor
        """Whether decisions are written down at a level."""
        self.names: set[str] = set()  # those that are allowed
        self.holds = True  # until the owner forgets it

    def __missing__(self, name: str) -> bool:
        self.owner.make_room()
        prefixes = self._rules.prefixes_of(self.resource, name)
        known = None if prefixes is None else self._by_prefixes.get(prefixes)
        is_allowed = self.verdict(name).is_allowed if known is None else known
        if prefixes is not None:
            self._by_prefixes[prefixes] = is_allowed  # no more of them than rules
        self[name] = is_allowed
        if is_allowed:
            self.names.add(name)
        return is_allowed

    def verdict(self, name: str) -> Verdict:
        return self._rules.decide(self._principal, self._asker, self.operation, self.resource, name)

    def allows_any(self) -> bool:
        if self._any is None:
            self._any = self._rules.allows_any(self._principal, self._asker, self.operation, self.resource)
        return self._any


class _Remembered(dict[Question, Decisions]):
    """All that is remembered; see 1."""

    __slots__ = ("_limit", "_made", "_rules")

    def __init__(self, rules: Rules, limit: int) -> None:
        self._rules = rules
        self._limit = limit
        self._made = 0

    def __missing__(self, question: Question) -> Decisions:
        self.make_room()
        decisions = self[question] = Decisions(self._rules, question, self)
        return decisions

    def make_room(self) -> None:
        if self._made >= self._limit:
            self.clear()
        self._made += 1

    def clear(self) -> None:
        for decisions in self.values():
            decisions.holds = False
        super().clear()
        self._made = 0


class Authorizer:
    """Access by rules; see above."""

    is_on = True

    def __init__(self, rules: Rules, *, decision_limit: int = DECISION_LIMIT) -> None:
        self._rules = rules
        self._remembered = _Remembered(rules, decision_limit)
        self._is_wanted = audit.audit_log.isEnabledFor

    def update(self, image: ClusterImage) -> None:
        if self._rules.replace(image.acls):
            self._remembered.clear()

    def allows(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResource,
        name: str = CLUSTER,
        *,
        is_filter: bool = False,
    ) -> bool:
        known = self._decisions_for(context, operation, resource)
        is_allowed = known[name]
        if self._is_wanted(TRACE if is_filter else DEBUG if is_allowed else INFO):
            audit.write(context, operation, resource, name, known.verdict(name), is_filter=is_filter)
        return is_allowed

    def remembered(self, context: RequestContext, operation: AclOperation, resource: AclResource) -> Set[str]:
        if self._is_wanted(DEBUG):
            return _NOTHING
        return self._decisions_for(context, operation, resource).names

    def allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResource,
        names: Iterable[str],
        *,
        is_filter: bool = False,
    ) -> set[str]:
        asked = dict.fromkeys(names)
        known = self._decisions_for(context, operation, resource)
        allowed = {name for name in asked if known[name]}
        if self._is_wanted(TRACE if is_filter else DEBUG):
            audit.write_many(context, operation, resource, sorted(allowed), known.verdict, is_filter=is_filter)
        if len(allowed) < len(asked) and self._is_wanted(TRACE if is_filter else INFO):
            denied = [name for name in asked if name not in allowed]
            audit.write_many(context, operation, resource, denied, known.verdict, is_filter=is_filter)
        return allowed

    def allows_any(self, context: RequestContext, operation: AclOperation, resource: AclResource) -> bool:
        return self._decisions_for(context, operation, resource).allows_any()

    def operations(self, context: RequestContext, resource: AclResource, name: str = CLUSTER) -> int:
        may = (each for each in OPERATIONS[resource] if self.allows(context, each, resource, name, is_filter=True))
        return bits(*may)

    def _decisions_for(self, context: RequestContext, operation: AclOperation, resource: AclResource) -> Decisions:
        known = context.memo.decisions
        if known is not None and known.operation is operation and known.resource is resource and known.holds:
            return known
        known = self._remembered[context.principal, context.client_host, operation, resource]
        if context.connection is not None:  # of this broker, and so of no other authorizer
            context.memo.decisions = known
        return known
