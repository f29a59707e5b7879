"""kafka.admin's values for access rules: ACL, ACLFilter, ResourcePattern and their enumerations."""

from __future__ import annotations

from ottla.client.admin import access
from ottla.client.admin.operations import AclOperation
from ottla.compat.kafka.errors import IllegalArgumentError

ResourceType = access.ResourceType
ACLOperation = AclOperation
ACLPermissionType = access.AclPermission
ACLResourcePatternType = access.PatternType


class ResourcePatternFilter:
    """Which resources are meant."""

    def __init__(
        self,
        resource_type: access.ResourceType,
        resource_name: str | None,
        pattern_type: access.PatternType,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.validate()

    def validate(self) -> None:
        if not isinstance(self.resource_type, ResourceType):
            raise IllegalArgumentError("resource_type must be a ResourceType object")
        if not isinstance(self.pattern_type, ACLResourcePatternType):
            raise IllegalArgumentError("pattern_type must be an ACLResourcePatternType object")

    def _values(self) -> tuple[object, ...]:
        return self.resource_type, self.resource_name, self.pattern_type

    def __repr__(self) -> str:
        kind, pattern = self.resource_type.name, self.pattern_type.name
        return f"<ResourcePattern type={kind}, name={self.resource_name}, pattern={pattern}>"

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, ResourcePatternFilter) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())


class ResourcePattern(ResourcePatternFilter):
    """The resources of a rule."""

    def __init__(
        self,
        resource_type: access.ResourceType,
        resource_name: str,
        pattern_type: access.PatternType = access.PatternType.LITERAL,
    ) -> None:
        super().__init__(resource_type, resource_name, pattern_type)

    def validate(self) -> None:
        super().validate()
        if self.resource_type is ResourceType.ANY:
            raise IllegalArgumentError("resource_type cannot be ANY")
        if self.pattern_type in (ACLResourcePatternType.ANY, ACLResourcePatternType.MATCH):
            raise IllegalArgumentError(f"pattern_type cannot be {self.pattern_type.name} on a concrete ResourcePattern")


class ACLFilter:
    """Which rules are meant."""

    def __init__(
        self,
        principal: str | None,
        host: str | None,
        operation: AclOperation,
        permission_type: access.AclPermission,
        resource_pattern: ResourcePatternFilter,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.resource_pattern = resource_pattern
        self.validate()

    def validate(self) -> None:
        if not isinstance(self.operation, ACLOperation):
            raise IllegalArgumentError("operation must be an ACLOperation object")
        if not isinstance(self.permission_type, ACLPermissionType):
            raise IllegalArgumentError("permission_type must be an ACLPermissionType object")
        if not isinstance(self.resource_pattern, ResourcePatternFilter):
            raise IllegalArgumentError("resource_pattern must be a ResourcePatternFilter object")

    @property
    def ours(self) -> access.AclFilter:
        pattern = self.resource_pattern
        return access.AclFilter(
            pattern.resource_type,
            pattern.resource_name,
            self.principal,
            self.operation,
            self.permission_type,
            self.host,
            pattern.pattern_type,
        )

    def _values(self) -> tuple[object, ...]:
        return self.principal, self.host, self.operation, self.permission_type, self.resource_pattern

    def __repr__(self) -> str:
        what = f"resource={self.resource_pattern}, operation={self.operation.name}"
        return f"<ACL principal={self.principal}, {what}, type={self.permission_type.name}, host={self.host}>"

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, ACLFilter) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())


class ACL(ACLFilter):
    """One rule."""

    def validate(self) -> None:
        super().validate()
        if self.operation is ACLOperation.ANY:
            raise IllegalArgumentError("operation cannot be ANY")
        if self.permission_type is ACLPermissionType.ANY:
            raise IllegalArgumentError("permission_type cannot be ANY")
        if not isinstance(self.resource_pattern, ResourcePattern):
            raise IllegalArgumentError("resource_pattern must be a ResourcePattern object")

    @property
    def our_rule(self) -> access.AclBinding:
        return access.AclBinding(*self.ours)  # type: ignore[arg-type]  # checked: a rule has no empty part


def theirs(rule: access.AclBinding) -> ACL:
    """Our rule as one of theirs."""
    pattern = ResourcePattern(rule.resource_type, rule.resource_name, rule.pattern_type)
    return ACL(rule.principal, rule.host, rule.operation, rule.permission, pattern)
