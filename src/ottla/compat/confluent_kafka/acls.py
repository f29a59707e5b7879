"""confluent_kafka.admin's values for access rules: AclBinding, AclBindingFilter and their enumerations.

1. Attributes, order and equality are theirs; enumerations may be given as members, names or numbers.
2. What only a filter may say (ANY, MATCH, None) is a ValueError or TypeError in a rule, as there.
3. librdkafka calls the cluster itself ResourceType.BROKER in access rules; it has no names for tokens and users.
"""

from __future__ import annotations

import enum
import functools
from typing import Any, ClassVar, Final, TypeVar

from ottla.client.admin import access
from ottla.client.admin.operations import AclOperation as OurOperation
from ottla.compat.confluent_kafka.model import Ordered, member

E = TypeVar("E", bound=enum.Enum)


class ResourceType(Ordered):
    """What has settings or access rules."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    BROKER = 4
    TRANSACTIONAL_ID = 5


class ResourcePatternType(Ordered):
    """How a rule's name is compared."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(Ordered):
    """What can be allowed or denied."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class AclPermissionType(Ordered):
    """Yes or no."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_ENUMS: Final[dict[str, type[enum.Enum]]] = {
    "restype": ResourceType,
    "resource_pattern_type": ResourcePatternType,
    "operation": AclOperation,
    "permission_type": AclPermissionType,
}
_NAMES: Final = ("name", "principal", "host")
_ONLY_IN_FILTERS: Final = (ResourceType.ANY, *map(ResourcePatternType, (1, 2)), AclOperation.ANY, AclPermissionType.ANY)
_NEVER_IN_FILTERS: Final = tuple(each(0) for each in _ENUMS.values())


@functools.total_ordering
class AclBinding:
    """One rule."""

    _forbidden: ClassVar[tuple[enum.Enum, ...]] = _ONLY_IN_FILTERS
    _names_needed: ClassVar[bool] = True

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str | None,
        resource_pattern_type: ResourcePatternType | str | int,
        principal: str | None,
        host: str | None,
        operation: AclOperation | str | int,
        permission_type: AclPermissionType | str | int,
    ) -> None:
        self.restype = member(restype, ResourceType)
        self.name = name
        self.resource_pattern_type = member(resource_pattern_type, ResourcePatternType)
        self.principal = principal
        self.host = host
        self.operation = member(operation, AclOperation)
        self.permission_type = member(permission_type, AclPermissionType)
        self._check()

    def _check(self) -> None:
        for each in _NAMES:
            value = getattr(self, each)
            if value is None and self._names_needed:
                raise ValueError(f"Expected {each} to be not None")
            if value is not None and not isinstance(value, str):
                raise TypeError(f"Expected {each} to be a string")
        for each in _ENUMS:
            if getattr(self, each) in self._forbidden:
                raise ValueError(f"Cannot use enum {each}, value {getattr(self, each).name} in this class")

    def _values(self) -> tuple[Any, ...]:
        return (
            self.restype,
            self.name,
            self.resource_pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )

    @property
    def ours(self) -> Any:
        """Our rule; of a filter, our filter."""
        assert self.name is not None, "checked"
        assert self.principal is not None, "checked"
        assert self.host is not None, "checked"
        return access.AclBinding(
            access.ResourceType(self.restype.value),
            self.name,
            self.principal,
            OurOperation(self.operation.value),
            access.AclPermission(self.permission_type.value),
            self.host,
            access.PatternType(self.resource_pattern_type.value),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({','.join(map(str, self._values()))})"

    def __hash__(self) -> int:
        return hash(self._values())

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, AclBinding) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._values() < other._values() if isinstance(other, AclBinding) else NotImplemented


class AclBindingFilter(AclBinding):
    """Which rules are meant; ANY and None are anything."""

    _forbidden = _NEVER_IN_FILTERS
    _names_needed = False

    @property
    def ours(self) -> access.AclFilter:
        return access.AclFilter(
            access.ResourceType(self.restype.value),
            self.name,
            self.principal,
            OurOperation(self.operation.value),
            access.AclPermission(self.permission_type.value),
            self.host,
            access.PatternType(self.resource_pattern_type.value),
        )


def theirs(rule: access.AclBinding) -> AclBinding:
    """Our rule as one of theirs; what librdkafka has no name for is UNKNOWN."""
    return AclBinding(
        _known(rule.resource_type, ResourceType),
        rule.resource_name,
        _known(rule.pattern_type, ResourcePatternType),
        rule.principal,
        rule.host,
        _known(rule.operation, AclOperation),
        _known(rule.permission, AclPermissionType),
    )


def _known(number: int, kind: type[E]) -> E:
    return kind(int(number)) if int(number) in {each.value for each in kind} else kind(0)
