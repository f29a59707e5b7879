"""Plans for access rules: what is refused, what a filter matches."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from ottla.cluster import acls
from ottla.cluster.acls import create_acls, delete_acls, describe_acls, filter_of, matches_pattern
from ottla.cluster.changes import CreateAcl, RemoveAcl, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import AclBinding, AclEntry, AclPattern
from ottla.errors import ERRORS
from ottla.protocol.access import AclOperation as Op
from ottla.protocol.access import AclPermission as Permission
from ottla.protocol.access import AclResource as Resource
from ottla.protocol.access import PatternType as Pattern
from ottla.protocol.messages.create_acls import AclCreation
from ottla.protocol.messages.delete_acls import DeleteAclsFilter

EMPTY = ClusterImage("c")


def creation(**changed: Any) -> AclCreation:
    values: dict[str, Any] = {
        "resource_type": Resource.TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": Pattern.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Op.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**(values | changed))


def filtered(**changed: Any) -> DeleteAclsFilter:
    values: dict[str, Any] = {
        "resource_type_filter": Resource.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": Pattern.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": Op.ANY,
        "permission_type": Permission.ANY,
    }
    return DeleteAclsFilter(**(values | changed))


def codes(answers: Any) -> list[str]:
    found = [ERRORS[each.error_code] for each in answers]
    return ["NONE" if each is None else each.name for each in found]


def image_of(*creations: AclCreation) -> ClusterImage:
    plan = create_acls(EMPTY, creations)
    assert set(codes(plan.answers)) == {"NONE"}
    return apply_all(EMPTY, plan.changes)


# --- creating ---------------------------------------------------------------------------------------------------------


def test_a_rule_is_created_once() -> None:
    plan = create_acls(EMPTY, [creation(), creation(operation=Op.WRITE), creation()])
    assert codes(plan.answers) == ["NONE"] * 3
    pattern = AclPattern(Resource.TOPIC, Pattern.LITERAL, "orders")
    assert plan.changes == tuple(
        CreateAcl(AclBinding(pattern, AclEntry("User:alice", "*", each, Permission.ALLOW)))
        for each in (Op.READ, Op.WRITE)
    )
    assert create_acls(apply_all(EMPTY, plan.changes), [creation()]).changes == ()


@pytest.mark.parametrize(
    "wrong",
    [
        creation(resource_name=""),
        creation(resource_type=Resource.CLUSTER, resource_name="*"),
        creation(resource_type=Resource.CLUSTER, resource_name="kafka-clusters"),
        creation(resource_type=Resource.ANY),
        creation(resource_type=99),
        creation(resource_pattern_type=Pattern.MATCH),
        creation(resource_pattern_type=Pattern.ANY),
        creation(resource_pattern_type=0),
        creation(operation=Op.ANY),
        creation(operation=99),
        creation(permission_type=Permission.ANY),
        creation(permission_type=0),
        creation(principal="alice"),
        creation(principal=""),
    ],
)
def test_a_rule_that_cannot_be_is_refused_and_the_others_are_created(wrong: AclCreation) -> None:
    plan = create_acls(EMPTY, [creation(), wrong, creation(resource_name="b")])
    assert codes(plan.answers) == ["NONE", "INVALID_REQUEST", "NONE"]
    assert plan.answers[1].error_message
    assert len(plan.changes) == 2


@pytest.mark.parametrize(
    "right",
    [
        creation(resource_name="*", resource_pattern_type=Pattern.PREFIXED),
        creation(resource_type=Resource.CLUSTER, resource_name="kafka-cluster"),
        creation(resource_type=Resource.USER, resource_name="User:bob", operation=Op.CREATE_TOKENS),
        creation(resource_type=Resource.GROUP, resource_name="a/b"),
        creation(operation=Op.TWO_PHASE_COMMIT, resource_type=Resource.TRANSACTIONAL_ID),
        creation(principal="Group:readers"),
    ],
)
def test_what_kafka_takes_is_taken(right: AclCreation) -> None:
    assert codes(create_acls(EMPTY, [right]).answers) == ["NONE"]


@pytest.mark.parametrize("name", ["a/b", "a\x00", "..", "."])
def test_names_that_no_node_can_have_are_refused_in_a_cluster_on_zookeeper(name: str) -> None:
    wanted = [creation(resource_type=Resource.GROUP, resource_name=name)]
    assert codes(create_acls(EMPTY, wanted, in_paths=True).answers) == ["INVALID_REQUEST"]
    assert codes(create_acls(EMPTY, wanted).answers) == ["NONE"]


# --- filters ----------------------------------------------------------------------------------------------------------

PATTERNS = [
    AclPattern(of, kind, name)
    for of, kind, name in product(
        (Resource.TOPIC, Resource.GROUP), (Pattern.LITERAL, Pattern.PREFIXED), ("f", "foo", "foobar", "*", "bar")
    )
]


def kafka_matches(wanted: Any, pattern: AclPattern) -> bool:
    """ResourcePatternFilter.matches, line by line."""
    if wanted.resource_type != Resource.ANY and wanted.resource_type != pattern.resource_type:
        return False
    if wanted.pattern_type not in (Pattern.ANY, Pattern.MATCH) and wanted.pattern_type != pattern.pattern_type:
        return False
    if wanted.name is None:
        return True
    if wanted.pattern_type == Pattern.ANY or wanted.pattern_type == pattern.pattern_type:
        return bool(wanted.name == pattern.name)
    if pattern.pattern_type == Pattern.LITERAL:
        return wanted.name == pattern.name or pattern.name == "*"
    return bool(wanted.name.startswith(pattern.name))


@pytest.mark.parametrize("kind", [Pattern.ANY, Pattern.MATCH, Pattern.LITERAL, Pattern.PREFIXED, 99])
@pytest.mark.parametrize("of", [Resource.ANY, Resource.TOPIC, Resource.USER, 99])
@pytest.mark.parametrize("name", [None, "foo", "foobar", "*", "f"])
def test_filters_match_what_kafkas_match(kind: int, of: int, name: str | None) -> None:
    wanted = filter_of(filtered(pattern_type_filter=kind, resource_type_filter=of, resource_name_filter=name))
    expected = [pattern for pattern in PATTERNS if kafka_matches(wanted, pattern)]
    assert [pattern for pattern in PATTERNS if matches_pattern(wanted, pattern)] == expected
    entry = AclEntry("User:a", "*", Op.READ, Permission.ALLOW)
    image = apply_all(EMPTY, [CreateAcl(AclBinding(pattern, entry)) for pattern in PATTERNS])
    assert [found.pattern for found in acls.matching(image, wanted)] == sorted(expected)


def test_principal_host_operation_and_permission_are_compared_as_they_are() -> None:
    image = image_of(
        creation(),
        creation(principal="User:bob", operation=Op.ALL),
        creation(host="10.0.0.1", permission_type=Permission.DENY),
    )

    def found(**wanted: Any) -> int:
        return sum(len(each.acls) for each in describe_acls(image, filtered(**wanted)))

    assert found() == 3
    assert found(principal_filter="User:alice") == 2
    assert found(principal_filter="User:*") == 0
    assert found(host_filter="*") == 2
    assert found(operation=Op.READ) == 2
    assert found(operation=Op.ALL) == 1
    assert found(operation=Op.UNKNOWN) == found(permission_type=99) == 0
    assert found(permission_type=Permission.DENY) == 1


def test_rules_are_described_by_resource() -> None:
    image = image_of(
        creation(operation=Op.WRITE), creation(), creation(resource_name="b", resource_pattern_type=Pattern.PREFIXED)
    )
    first, second = describe_acls(image, filtered())
    assert (first.resource_name, first.pattern_type) == ("orders", Pattern.LITERAL)
    assert [each.operation for each in first.acls] == [Op.READ, Op.WRITE]
    assert (second.resource_name, second.pattern_type) == ("b", Pattern.PREFIXED)


# --- deleting ---------------------------------------------------------------------------------------------------------


def test_filters_delete_what_they_match_and_tell_it() -> None:
    image = image_of(creation(), creation(operation=Op.WRITE), creation(resource_name="b"))
    plan = delete_acls(
        image, [filtered(operation=Op.READ), filtered(resource_name_filter="orders"), filtered(host_filter="h")]
    )
    assert codes(plan.answers) == ["NONE"] * 3
    told = [[(each.resource_name, each.operation) for each in answer.matching_acls] for answer in plan.answers]
    assert told == [[("b", Op.READ), ("orders", Op.READ)], [("orders", Op.READ), ("orders", Op.WRITE)], []]
    assert len(plan.changes) == 3
    assert all(isinstance(each, RemoveAcl) for each in plan.changes)
    assert not apply_all(image, plan.changes).acls


@pytest.mark.parametrize(
    "wrong",
    [
        filtered(pattern_type_filter=99),
        filtered(resource_type_filter=0),
        filtered(operation=99),
        filtered(permission_type=0),
    ],
)
def test_a_filter_with_unknown_numbers_deletes_nothing(wrong: DeleteAclsFilter) -> None:
    plan = delete_acls(image_of(creation()), [wrong, filtered(host_filter="h")])
    assert codes(plan.answers) == ["INVALID_REQUEST", "NONE"]
    assert plan.changes == ()


def test_too_much_at_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    image = image_of(*(creation(resource_name=f"t{number}") for number in range(6)))
    monkeypatch.setattr(acls, "DELETIONS_LIMIT", 5)
    assert codes(delete_acls(image, [filtered()]).answers) == ["INVALID_REQUEST"]
    one = filtered(resource_type_filter=Resource.TOPIC, resource_name_filter="t1")
    monkeypatch.setattr(acls, "SCANS_LIMIT", 2)
    wanted = [filtered(host_filter="h")] * 3 + [one] * 5
    assert codes(delete_acls(image, wanted).answers) == ["NONE", "NONE", "INVALID_REQUEST", *["NONE"] * 5]
