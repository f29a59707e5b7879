"""Plans for access rules: CreateAcls, DeleteAcls and DescribeAcls, with Kafka 4.3's checks and filters.

1. A rule that cannot be is the answer to that rule; the others are created. One that holds already is created again
   without a change.
2. A filter deletes what it matches of the rules that held before the request. A rule that two filters match is named in
   both answers and deleted once, as in Kafka.
3. Numbers that we do not know are UNKNOWN, and no rule: a filter with one is refused by DeleteAcls and matches nothing
   in DescribeAcls.
4. A filter by name and MATCH finds every rule that would apply to a resource of that name: literal, prefixed, and "*".
5. A filter that names a kind and a name costs a few look-ups. One that does not looks at all rules, so a request may
   have no more than SCANS_LIMIT of those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, Protocol, TypeVar

from ottla.cluster.changes import Change, CreateAcl, RemoveAcl
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import AclBinding, AclEntry, AclPattern
from ottla.cluster.plan import FINE, Plan, refusal
from ottla.errors import BrokerError, InvalidRequest
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.protocol.messages.create_acls import AclCreation, AclCreationResult
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl
from ottla.protocol.messages.describe_acls import AclDescription, DescribeAclsResource

CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"
DELETIONS_LIMIT: Final = 10_000
"""Rules that one request may delete, as in Kafka."""

SCANS_LIMIT: Final = 100

_NO_NODE: Final = "[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]"
"""What ZooKeeper takes in no name of a node."""

E = TypeVar("E", bound=IntEnum)


# --- filters ---------------------------------------------------------------------------------------------------------


class AclFilter(NamedTuple):
    """Which rules are meant; None as a text and ANY as a number mean all."""

    resource_type: AclResource
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: AclPermission


class FilterFields(Protocol):
    """A filter as it comes with a request: DescribeAclsRequest, or a part of DeleteAclsRequest."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def filter_of(fields: FilterFields) -> AclFilter:
    return AclFilter(
        resource_type=_known(AclResource, fields.resource_type_filter),
        name=fields.resource_name_filter,
        pattern_type=_known(PatternType, fields.pattern_type_filter),
        principal=fields.principal_filter,
        host=fields.host_filter,
        operation=_known(AclOperation, fields.operation),
        permission=_known(AclPermission, fields.permission_type),
    )


def _known(of: type[E], number: int) -> E:
    try:
        return of(number)
    except ValueError:
        return of(0)


def matching(image: ClusterImage, wanted: AclFilter) -> Iterator[AclBinding]:
    """The rules that a filter matches, in order."""
    named = _named_patterns(wanted)
    for pattern in image.acls if named is None else named:
        if matches_pattern(wanted, pattern):
            entries = image.acls.get(pattern, ())
            yield from (AclBinding(pattern, entry) for entry in entries if _matches_entry(wanted, entry))


def _named_patterns(wanted: AclFilter) -> list[AclPattern] | None:
    """The only patterns that a filter can match, in order; None when it may be any."""
    if wanted.name is None or wanted.resource_type == AclResource.ANY:
        return None
    of, name = wanted.resource_type, wanted.name
    prefixes = [name[:length] for length in range(1, len(name) + 1)]
    return [
        *(AclPattern(of, PatternType.LITERAL, each) for each in sorted({name, WILDCARD})),
        *(AclPattern(of, PatternType.PREFIXED, each) for each in prefixes),
    ]


def matches_pattern(wanted: AclFilter, pattern: AclPattern) -> bool:
    if wanted.resource_type not in (AclResource.ANY, pattern.resource_type):
        return False
    if wanted.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
        return False
    if wanted.name is None or wanted.pattern_type != PatternType.MATCH:
        return wanted.name in (None, pattern.name)
    if pattern.pattern_type == PatternType.PREFIXED:
        return wanted.name.startswith(pattern.name)
    return pattern.name in (wanted.name, WILDCARD)


def _matches_entry(wanted: AclFilter, entry: AclEntry) -> bool:
    return (
        wanted.principal in (None, entry.principal)
        and wanted.host in (None, entry.host)
        and wanted.operation in (AclOperation.ANY, entry.operation)
        and wanted.permission in (AclPermission.ANY, entry.permission)
    )


# --- creating --------------------------------------------------------------------------------------------------------


def create_acls(
    image: ClusterImage, creations: Sequence[AclCreation], *, in_paths: bool = False
) -> Plan[AclCreationResult]:
    """Create rules. `in_paths`: they are kept in ZooKeeper, where the name of a resource is the name of a node."""
    changes: dict[AclBinding, Change] = {}
    answers: list[AclCreationResult] = []
    for each in creations:
        try:
            binding = _checked_binding(each, in_paths)
            if binding.entry not in image.acls.get(binding.pattern, ()):
                changes[binding] = CreateAcl(binding)
            answers.append(AclCreationResult(**FINE))
        except BrokerError as error:
            answers.append(AclCreationResult(**refusal(error)))
    return Plan(tuple(changes.values()), answers)


def _checked_binding(creation: AclCreation, in_paths: bool) -> AclBinding:
    pattern = _checked_pattern(creation)
    if in_paths and (re.search(_NO_NODE, pattern.name) or pattern.name in (".", "..")):
        raise InvalidRequest("ZooKeeper cannot keep rules for a name with a slash or with control characters")
    entry = AclEntry(
        creation.principal,
        creation.host,
        _known(AclOperation, creation.operation),
        _known(AclPermission, creation.permission_type),
    )
    if entry.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise InvalidRequest(f"invalid operation {entry.operation.name}")
    if entry.permission not in (AclPermission.DENY, AclPermission.ALLOW):
        raise InvalidRequest(f"invalid permissionType {entry.permission.name}")
    if ":" not in entry.principal:
        raise InvalidRequest(
            f"could not parse principal from `{entry.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return AclBinding(pattern, entry)


def _checked_pattern(creation: AclCreation) -> AclPattern:
    resource_type = _known(AclResource, creation.resource_type)
    pattern_type = _known(PatternType, creation.resource_pattern_type)
    if resource_type == AclResource.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"the only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise InvalidRequest("invalid empty resource name")
    if resource_type in (AclResource.UNKNOWN, AclResource.ANY):
        raise InvalidRequest(f"invalid resourceType {resource_type.name}")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(f"invalid patternType {pattern_type.name}")
    return AclPattern(resource_type, pattern_type, creation.resource_name)


# --- deleting --------------------------------------------------------------------------------------------------------


def delete_acls(image: ClusterImage, filters: Sequence[DeleteAclsFilter]) -> Plan[DeleteAclsFilterResult]:
    """Delete what the filters match; an answer per filter, with the rules that are gone."""
    gone: dict[AclBinding, Change] = {}
    answers: list[DeleteAclsFilterResult] = []
    scans = 0
    for each in filters:
        try:
            wanted = filter_of(each)
            is_scan = _named_patterns(wanted) is None
            scans += is_scan
            if is_scan and scans > SCANS_LIMIT:
                raise InvalidRequest(f"more than {SCANS_LIMIT} filters of a request do not name their resource")
            found = list(_deletable(image, wanted))
            if len(gone.keys() | set(found)) > DELETIONS_LIMIT:
                raise InvalidRequest(f"cannot remove more than {DELETIONS_LIMIT} acls in a single delete operation")
        except BrokerError as error:
            answers.append(DeleteAclsFilterResult(**refusal(error), matching_acls=[]))
            continue
        gone |= {binding: RemoveAcl(binding) for binding in found}
        answers.append(DeleteAclsFilterResult(**FINE, matching_acls=[_deleted(binding) for binding in found]))
    return Plan(tuple(gone.values()), answers)


def _deletable(image: ClusterImage, wanted: AclFilter) -> Iterator[AclBinding]:
    if not (wanted.resource_type and wanted.pattern_type):
        raise InvalidRequest("unknown patternFilter")
    if not (wanted.operation and wanted.permission):
        raise InvalidRequest("unknown entryFilter")
    return matching(image, wanted)


def _deleted(binding: AclBinding) -> DeleteAclsMatchingAcl:
    pattern, entry = binding
    return DeleteAclsMatchingAcl(
        **FINE,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


# --- describing ------------------------------------------------------------------------------------------------------


def describe_acls(image: ClusterImage, fields: FilterFields) -> list[DescribeAclsResource]:
    """The rules that a filter matches, by resource."""
    found: dict[AclPattern, list[AclDescription]] = {}
    for pattern, entry in matching(image, filter_of(fields)):
        description = AclDescription(
            principal=entry.principal, host=entry.host, operation=entry.operation, permission_type=entry.permission
        )
        found.setdefault(pattern, []).append(description)
    return [
        DescribeAclsResource(
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            pattern_type=pattern.pattern_type,
            acls=descriptions,
        )
        for pattern, descriptions in found.items()
    ]
