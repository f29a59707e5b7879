"""Access rules in the nodes of ZooKeeper: both ways, edits, notes."""

from __future__ import annotations

import json

import pytest

from ottla.cluster.changes import Change, CreateAcl, RemoveAcl, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import AclBinding, AclEntry, AclPattern
from ottla.cluster.store.zookeeper import paths
from ottla.cluster.store.zookeeper.acls import acl_path, acl_pattern, acls_json, noted_path, read_entries, rule_json
from ottla.cluster.store.zookeeper.facts import NodesRead, meaning
from ottla.cluster.store.zookeeper.writes import Create, Delete, Ensure, SetData, writes_of
from ottla.cluster.store.zookeeper.znodes import DamagedNode, Znode
from ottla.protocol.access import AclOperation as Op
from ottla.protocol.access import AclPermission as Permission
from ottla.protocol.access import AclResource as Resource
from ottla.protocol.access import PatternType as Pattern

EMPTY = ClusterImage("c")
TOPIC = AclPattern(Resource.TOPIC, Pattern.LITERAL, "orders")
IDS = AclPattern(Resource.TRANSACTIONAL_ID, Pattern.PREFIXED, "app:")
READ = AclEntry("User:bob", "*", Op.READ, Permission.ALLOW)
DENY = AclEntry("User:carl", "10.0.0.1", Op.ALTER_CONFIGS, Permission.DENY)
PATH = "/kafka-acl/Topic/orders"


def node(*entries: AclEntry, version: int = 0) -> Znode:
    return Znode(acls_json(map(rule_json, entries)), version)


def writes(changes: list[Change], nodes: dict[str, Znode] | None = None) -> list[object]:
    return list(writes_of(EMPTY, changes, nodes or {}, 7))


@pytest.mark.parametrize("of", [each for each in Resource if each > Resource.ANY])
@pytest.mark.parametrize("kind", [Pattern.LITERAL, Pattern.PREFIXED])
def test_every_pattern_has_its_path(of: Resource, kind: Pattern) -> None:
    pattern = AclPattern(of, kind, "User:a b*")
    assert acl_pattern(acl_path(pattern)) == pattern


@pytest.mark.parametrize(
    "path", ["/kafka-acl/Topic", "/kafka-acl/Colour/red", "/kafka-acl-changes/x", "/config/topics/t"]
)
def test_other_nodes_are_no_rules(path: str) -> None:
    assert acl_pattern(path) is None


@pytest.mark.parametrize("operation", [each for each in Op if each > Op.ANY])
def test_every_operation_is_read_as_it_is_written(operation: Op) -> None:
    entry = READ._replace(operation=operation)
    assert read_entries(PATH, node(entry, DENY)) == tuple(sorted([entry, DENY]))


def test_a_first_rule_makes_the_node_and_a_note() -> None:
    assert writes([CreateAcl(AclBinding(IDS, DENY)), CreateAcl(AclBinding(TOPIC, READ))]) == [
        Ensure("/kafka-acl-extended"),
        Ensure("/kafka-acl-extended/prefixed"),
        Ensure("/kafka-acl-extended/prefixed/TransactionalId"),
        Create(
            "/kafka-acl-extended/prefixed/TransactionalId/app:",
            b'{"acls":[{"principal":"User:carl","permissionType":"Deny","host":"10.0.0.1","operation":"AlterConfigs"}],'
            b'"version":1}',
        ),
        Create(
            "/kafka-acl-extended-changes/acl_changes_",
            b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"app:","patternType":"PREFIXED"}',
            sequential=True,
        ),
        Ensure("/kafka-acl"),
        Ensure("/kafka-acl/Topic"),
        Create(
            PATH,
            b'{"acls":[{"principal":"User:bob","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}',
        ),
        Create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", sequential=True),
    ]


def test_rules_that_somebody_else_made_stay() -> None:
    known = {PATH: node(DENY, version=4)}
    changed, note = writes([CreateAcl(AclBinding(TOPIC, READ))], known)
    assert changed == SetData(PATH, acls_json([rule_json(READ), rule_json(DENY)]), 4)
    assert isinstance(note, Create)


def test_the_last_rule_takes_the_node_away() -> None:
    gone = [RemoveAcl(AclBinding(TOPIC, READ)), RemoveAcl(AclBinding(TOPIC, DENY))]
    assert writes(gone, {PATH: node(READ, DENY, version=4)})[0] == Delete(PATH, 4)
    assert writes(gone) == []


def test_what_is_as_wanted_already_is_not_written() -> None:
    assert writes([CreateAcl(AclBinding(TOPIC, READ))], {PATH: node(READ, version=1)}) == []


def test_a_rule_of_a_newer_kafka_stays_as_it_is() -> None:
    newer = {"principal": "User:x", "permissionType": "Allow", "host": "*", "operation": "Teleport", "extra": 1}
    known = {PATH: Znode(acls_json([newer]), 2)}
    assert read_entries(PATH, known[PATH]) == (AclEntry("User:x", "*", Op.UNKNOWN, Permission.ALLOW),)
    changed = writes([CreateAcl(AclBinding(TOPIC, READ))], known)[0]
    assert isinstance(changed, SetData)
    assert json.loads(changed.data)["acls"] == [rule_json(READ), newer]


def test_notes_name_the_nodes() -> None:
    for pattern in (TOPIC, IDS):
        note = writes([CreateAcl(AclBinding(pattern, READ))])[-1]
        assert isinstance(note, Create)
        assert noted_path(note.path.rpartition("/")[0], Znode(note.data)) == acl_path(pattern)
    assert noted_path(paths.ACL_CHANGES, Znode(b"TransactionalId:a:b")) == "/kafka-acl/TransactionalId/a:b"


def test_what_was_read_becomes_the_changes_that_are_missing() -> None:
    image = apply_all(EMPTY, [CreateAcl(AclBinding(TOPIC, READ))])
    fact = NodesRead({PATH: None}, 1, 1)
    assert meaning(fact, image, {PATH: node(DENY)}).changes == (
        RemoveAcl(AclBinding(TOPIC, READ)),
        CreateAcl(AclBinding(TOPIC, DENY)),
    )
    assert meaning(fact, image, {}).changes == (RemoveAcl(AclBinding(TOPIC, READ)),)
    assert meaning(fact, image, {PATH: node(READ)}).changes == ()


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"version":2,"acls":[]}', b'{"version":1,"acls":[{}]}', b'{"version":1}']
)
def test_rules_that_make_no_sense_leave_those_that_held(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    image = apply_all(EMPTY, [CreateAcl(AclBinding(TOPIC, READ))])
    with pytest.raises(DamagedNode, match=PATH):
        read_entries(PATH, Znode(data))
    assert meaning(NodesRead({PATH: None}, 1, 1), image, {PATH: Znode(data)}).changes == ()
    assert "goes on to hold" in caplog.text
