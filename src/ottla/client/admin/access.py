"""Access rules: who may do what on which resources, from which hosts."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.client.admin.configs import known
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.plans import Plan, Question, Route, error_of, raise_error_of
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclPermission as AclPermission
from ottla.protocol.access import PatternType as PatternType
from ottla.protocol.messages import create_acls, delete_acls, describe_acls
from ottla.protocol.schema import Message


class ResourceType(enum.IntEnum):
    """What a rule is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclBinding(NamedTuple):
    """One rule."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        verb = "may" if self.permission is AclPermission.ALLOW else "may not"
        what = f"{self.resource_type.name.lower()} {self.resource_name!r} ({self.pattern_type.name.lower()})"
        return f"{self.principal} {verb} {self.operation.name} {what} from {self.host}"


class AclFilter(NamedTuple):
    """Which rules are meant; what is left out may be anything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


@dataclass(frozen=True)
class DescribeAcls(Question[list[AclBinding]]):
    filter: AclFilter

    def ask(self, timeout_ms: int) -> Message:
        return describe_acls.DescribeAclsRequest(
            resource_type_filter=int(self.filter.resource_type),
            resource_name_filter=self.filter.resource_name,
            pattern_type_filter=int(self.filter.pattern_type),
            principal_filter=self.filter.principal,
            host_filter=self.filter.host,
            operation=int(self.filter.operation),
            permission_type=int(self.filter.permission),
        )

    def answer(self, response: Any) -> list[AclBinding]:
        raise_error_of(response)
        return [_binding(resource, acl) for resource in response.resources for acl in resource.acls]


def _binding(resource: Any, acl: Any) -> AclBinding:
    return AclBinding(
        resource_type=known(ResourceType, resource.resource_type),
        resource_name=resource.resource_name,
        principal=acl.principal,
        operation=known(AclOperation, acl.operation),
        permission=known(AclPermission, acl.permission_type),
        host=acl.host,
        pattern_type=known(PatternType, resource.pattern_type),
    )


class CreateAcls(Plan[AclBinding, None]):
    route = Route.CONTROLLER

    def request(self, keys: Sequence[AclBinding], timeout_ms: int) -> Message:
        creations = [
            create_acls.AclCreation(
                resource_type=int(each.resource_type),
                resource_name=each.resource_name,
                resource_pattern_type=int(each.pattern_type),
                principal=each.principal,
                host=each.host,
                operation=int(each.operation),
                permission_type=int(each.permission),
            )
            for each in keys
        ]
        return create_acls.CreateAclsRequest(creations=creations)

    def results(self, keys: Sequence[AclBinding], response: Any) -> Iterator[tuple[AclBinding, OttlaError | None]]:
        for key, each in zip(keys, response.results, strict=False):
            yield key, error_of(each)


class DeleteAcls(Plan[AclFilter, list[AclBinding]]):
    """Returns the rules that each filter took away."""

    route = Route.CONTROLLER

    def request(self, keys: Sequence[AclFilter], timeout_ms: int) -> Message:
        filters = [
            delete_acls.DeleteAclsFilter(
                resource_type_filter=int(each.resource_type),
                resource_name_filter=each.resource_name,
                pattern_type_filter=int(each.pattern_type),
                principal_filter=each.principal,
                host_filter=each.host,
                operation=int(each.operation),
                permission_type=int(each.permission),
            )
            for each in keys
        ]
        return delete_acls.DeleteAclsRequest(filters=filters)

    def results(
        self, keys: Sequence[AclFilter], response: Any
    ) -> Iterator[tuple[AclFilter, list[AclBinding] | OttlaError]]:
        for key, each in zip(keys, response.filter_results, strict=False):
            error = error_of(each) or next(filter(None, map(error_of, each.matching_acls)), None)
            yield key, error if error is not None else [_binding(acl, acl) for acl in each.matching_acls]
