"""The rules of access as Kafka's StandardAuthorizer reads them: plain values in, a decision out.

1. A rule is about the resource of its name, about all whose names begin with it (PREFIXED), or about all of its kind
   (the literal name "*"). It speaks of one principal or of everybody ("User:*"), of one host or of all ("*").
2. Deny wins: one rule that denies is enough, whatever else allows. What no rule allows is denied, but for a resource of
   which no rule speaks at all, where `allow_everyone` decides (allow.everyone.if.no.acl.found).
3. ALL is every operation. Who may READ, WRITE, DELETE or ALTER may DESCRIBE, and who may ALTER_CONFIGS may
   DESCRIBE_CONFIGS; a denial implies nothing.
4. `allows_any` is Kafka's authorizeByResourceType (KIP-679): is there a name, of a resource that exists or not, for
   which the operation is allowed and that no denial takes away again.
5. Super users may do everything.
6. A topic that the broker itself keeps (`kept_topics`: the registry's, while there is one) is changed by nobody else
   but super users, whatever the rules say.

Rules are looked up, not searched: a decision costs a look at the name, at "*", and at its beginnings of the lengths
that prefixed rules have. A change of the rules costs as much as what changed (SharedMap.differences).
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from ottla.cluster.model import AclBinding, AclEntry, AclPattern
from ottla.cluster.shared_map import SharedMap
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType

WILDCARD: Final = "*"
EVERYBODY: Final = "User:*"
SUPER_USER: Final = "SuperUser"
DEFAULT_ALLOW: Final = "DefaultAllow"
DEFAULT_DENY: Final = "DefaultDeny"
KEPT_BY_THE_BROKER: Final = "KeptByTheBroker"
CHANGES: Final = frozenset(
    {AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.ALTER_CONFIGS, AclOperation.CREATE}
)

_ANY_NAME: Final = "hardcode"
"""The name that Kafka asks about first, in the place of any."""
_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}

# Looking up a member of an enum costs ten times as much as a name of this module.
_ALL: Final = AclOperation.ALL
_ALLOW: Final = AclPermission.ALLOW
_LITERAL: Final = PatternType.LITERAL
_PREFIXED: Final = PatternType.PREFIXED

Acls = SharedMap[AclPattern, tuple[AclEntry, ...]]


class Verdict(NamedTuple):
    """A decision, and the rule (or the word for the lack of one) that it is based on."""

    is_allowed: bool
    rule: AclBinding | str


class Asker(NamedTuple):
    """Who asks: the texts by which a rule may mean the principal, and the host."""

    principals: frozenset[str]
    hosts: frozenset[str]

    @classmethod
    def of(cls, principal: str, host: str) -> Asker:
        return cls(frozenset({principal, EVERYBODY}), frozenset({WILDCARD, host, *_written_hosts(host)}))

    def is_meant_by(self, entry: AclEntry) -> bool:
        return entry.principal in self.principals and entry.host in self.hosts


def _written_hosts(host: str) -> Iterator[str]:
    """How an address stands in rules: as Java writes it (0:0:0:0:0:0:0:1) and as everybody else does (::1)."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            yield str(address.ipv4_mapped)
        groups = address.packed
        yield ":".join(f"{groups[place] << 8 | groups[place + 1]:x}" for place in range(0, 16, 2))
    yield str(address)


class Rules:
    """All rules; see above."""

    def __init__(
        self, *, super_users: Iterable[str] = (), allow_everyone: bool = False, kept_topics: Iterable[str] = ()
    ) -> None:
        """`kept_topics` are changed by the broker itself, and by super users: whatever the rules say."""
        self._kept_topics = frozenset(kept_topics)
        self._super_users = frozenset(super_users)
        self._no_rule = Verdict(allow_everyone, DEFAULT_ALLOW if allow_everyone else DEFAULT_DENY)
        self._acls: Acls = SharedMap()
        self._names: dict[AclResource, set[str]] = {of: set() for of in AclResource}
        self._prefix_lengths: dict[AclResource, Counter[int]] = {of: Counter() for of in AclResource}
        self._patterns: dict[tuple[AclResource, str], set[AclPattern]] = {}

    def replace(self, acls: Acls) -> bool:
        """These are the rules now; says whether they were others before."""
        before, self._acls = self._acls, acls
        changed = False
        for pattern in acls.differences(before):
            changed = True
            self._note(pattern, before.get(pattern, ()), acls.get(pattern, ()))
        return changed

    def _note(self, pattern: AclPattern, before: tuple[AclEntry, ...], after: tuple[AclEntry, ...]) -> None:
        """Keep what is looked up: names, the lengths of prefixes, and the patterns that speak of a principal."""
        if pattern.pattern_type == _LITERAL:
            names = self._names[pattern.resource_type]
            (names.add if after else names.discard)(pattern.name)
        if pattern.pattern_type == _PREFIXED:
            lengths = self._prefix_lengths[pattern.resource_type]
            lengths[len(pattern.name)] += bool(after) - bool(before)
            if not lengths[len(pattern.name)]:
                del lengths[len(pattern.name)]
        for principal in {entry.principal for entry in before}:
            key = pattern.resource_type, principal
            self._patterns[key].discard(pattern)
            if not self._patterns[key]:
                del self._patterns[key]
        for principal in {entry.principal for entry in after}:
            self._patterns.setdefault((pattern.resource_type, principal), set()).add(pattern)

    # --- one resource ---

    def prefixes_of(self, resource_type: AclResource, name: str) -> tuple[str, ...] | None:
        """The prefixes in rules that this name begins with: all names of which that is the same are decided alike. None
        where a rule speaks of the name itself."""
        if name in self._names[resource_type] or name in self._kept_topics:
            return None
        lengths = self._prefix_lengths[resource_type]
        if not lengths:
            return ()
        return tuple(
            name[:length]
            for length in lengths
            if length <= len(name) and (resource_type, _PREFIXED, name[:length]) in self._acls
        )

    def decide(
        self, principal: str, asker: Asker, operation: AclOperation, resource_type: AclResource, name: str
    ) -> Verdict:
        """May `principal` do this with the resource of that name? `asker` is what the principal and its host match."""
        if principal in self._super_users:
            return Verdict(True, SUPER_USER)
        if name in self._kept_topics and resource_type is AclResource.TOPIC and operation in CHANGES:
            return Verdict(False, KEPT_BY_THE_BROKER)
        implying = _IMPLIED_BY.get(operation, (operation,))
        has_rules, allowing = False, None
        for pattern, entries in self._about(resource_type, name):
            has_rules = True
            for entry in entries:
                if not asker.is_meant_by(entry):
                    continue
                if entry.permission is _ALLOW:
                    if allowing is None and (entry.operation is _ALL or entry.operation in implying):
                        allowing = AclBinding(pattern, entry)
                elif entry.operation in (_ALL, operation):
                    return Verdict(False, AclBinding(pattern, entry))
        if allowing is not None:
            return Verdict(True, allowing)
        return Verdict(False, DEFAULT_DENY) if has_rules else self._no_rule

    def _about(self, resource_type: AclResource, name: str) -> Iterator[tuple[AclPattern, tuple[AclEntry, ...]]]:
        """The rules that speak of a resource."""
        patterns = [AclPattern(resource_type, _LITERAL, name)]
        if name != WILDCARD:
            patterns.append(AclPattern(resource_type, _LITERAL, WILDCARD))
        for length in self._prefix_lengths[resource_type]:
            if length <= len(name):
                patterns.append(AclPattern(resource_type, _PREFIXED, name[:length]))
        for pattern in patterns:
            entries = self._acls.get(pattern)
            if entries is not None:
                yield pattern, entries

    # --- any resource ---

    def allows_any(self, principal: str, asker: Asker, operation: AclOperation, resource_type: AclResource) -> bool:
        """Is there a name for which it is allowed; see 4. Nothing is implied here, as in Kafka."""
        if self.decide(principal, asker, operation, resource_type, _ANY_NAME).is_allowed:
            return True
        denied, allowed = set[tuple[PatternType, str]](), set[tuple[PatternType, str]]()
        for pattern in {each for one in asker.principals for each in self._patterns.get((resource_type, one), ())}:
            for entry in self._acls[pattern]:
                if asker.is_meant_by(entry) and entry.operation in (_ALL, operation):
                    (allowed if entry.permission is _ALLOW else denied).add(pattern[1:])
        if (_LITERAL, WILDCARD) in denied:
            return False
        if (_LITERAL, WILDCARD) in allowed:
            return True
        return any(not _is_dominated(each, denied) for each in allowed)


def _is_dominated(allowed: tuple[PatternType, str], denied: set[tuple[PatternType, str]]) -> bool:
    """Whether denials take away all that a rule allows."""
    pattern_type, name = allowed
    if pattern_type == _LITERAL and allowed in denied:
        return True
    return any((_PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
