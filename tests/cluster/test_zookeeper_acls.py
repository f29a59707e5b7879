"""Access rules in a real ZooKeeper: seen by other members, merged, and not confused by nodes that come again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from tests.patience import HANG_S

from ottla.cluster.changes import CreateAcl, RemoveAcl
from ottla.cluster.model import AclBinding, AclEntry, AclPattern, Broker, Endpoint
from ottla.cluster.store.events import ConfigChanged
from ottla.cluster.store.zookeeper.connecting import Connection
from ottla.protocol.access import AclOperation as Op
from ottla.protocol.access import AclPermission as Permission
from ottla.protocol.access import AclResource as Resource
from ottla.protocol.access import PatternType as Pattern
from ottla.testing.zookeeper import missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from kazoo.client import KazooClient

from ottla.cluster.store.zookeeper.facts import NodesRead
from ottla.cluster.store.zookeeper.store import ZooKeeperStore

TOPIC = AclPattern(Resource.TOPIC, Pattern.LITERAL, "orders")
PREFIX = AclPattern(Resource.GROUP, Pattern.PREFIXED, "app-")
PATH = "/kafka-acl/Topic/orders"


def entry(user: str, permission: Permission = Permission.ALLOW) -> AclEntry:
    return AclEntry(f"User:{user}", "*", Op.READ, permission)


def create(user: str, pattern: AclPattern = TOPIC) -> CreateAcl:
    return CreateAcl(AclBinding(pattern, entry(user)))


def remove(user: str, pattern: AclPattern = TOPIC) -> RemoveAcl:
    return RemoveAcl(AclBinding(pattern, entry(user)))


class Members:
    """Stores of one cluster, and what somebody else does to its nodes."""

    def __init__(self, connect: str) -> None:
        self.connect = connect
        self.stores: list[ZooKeeperStore] = []
        self.join()  # makes the chroot
        self.stranger = KazooClient(connect)
        self.stranger.start(HANG_S)

    def join(self) -> ZooKeeperStore:
        store = ZooKeeperStore(Connection(self.connect, session_timeout_ms=20_000))
        self.stores.append(store)
        store.load()
        return store

    def note(self) -> None:
        self.stranger.create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", sequence=True)

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self.stranger.stop()
        self.stranger.close()


@pytest.fixture
def members(chroot: str) -> Iterator[Members]:
    made = Members(chroot)
    yield made
    made.close()


def users_of(store: ZooKeeperStore, pattern: AclPattern) -> set[str]:
    return {each.principal.removeprefix("User:") for each in store.load().acls.get(pattern, ())}


def wait_for(store: ZooKeeperStore, users: set[str], pattern: AclPattern = TOPIC) -> None:
    something = threading.Event()
    store.wake_with(something.set)
    while True:
        something.clear()
        store.take_events()
        if users_of(store, pattern) == users:
            return
        assert something.wait(HANG_S), users_of(store, pattern)


def test_other_members_have_a_rule_as_soon_as_they_see_its_note(members: Members) -> None:
    mine, other = members.stores[0], members.join()
    mine.commit([create("a"), create("b", PREFIX)])
    wait_for(other, {"a"})
    wait_for(other, {"b"}, PREFIX)
    other.commit([remove("a"), create("c", PREFIX)])
    wait_for(mine, set())
    wait_for(mine, {"b", "c"}, PREFIX)
    assert members.stranger.exists(PATH) is None


def test_who_joins_later_reads_the_rules_that_are_there(members: Members) -> None:
    members.stores[0].commit([create("a")])
    assert members.join().load().acls[TOPIC] == (entry("a"),)


def test_rules_that_two_members_make_at_once_are_all_kept(members: Members) -> None:
    """Neither takes events before it writes: each knows only what it wrote itself, and merges when it is refused."""
    mine, other = members.stores[0], members.join()
    for number in range(5):
        mine.commit([create(f"m{number}")])
        other.commit([create(f"o{number}"), create(f"p{number}", PREFIX)])
    mine.commit([remove("m0")])
    wanted = {f"m{number}" for number in range(1, 5)} | {f"o{number}" for number in range(5)}
    wait_for(mine, wanted)
    wait_for(other, wanted)
    assert {each["principal"] for each in json.loads(members.stranger.get(PATH)[0])["acls"]} == {
        f"User:{each}" for each in wanted
    }


def test_a_node_that_was_deleted_and_made_again_is_read_though_its_version_is_lower(members: Members) -> None:
    mine = members.stores[0]
    mine.commit([create("a")])
    for user in "bcd":
        mine.commit([create(user)])
    members.stranger.delete(PATH)
    rule = {"principal": "User:eve", "permissionType": "Deny", "host": "*", "operation": "All"}
    members.stranger.create(PATH, json.dumps({"version": 1, "acls": [rule]}).encode())
    members.note()
    wait_for(mine, {"eve"})


def test_a_rule_that_somebody_else_deleted_does_not_come_back_with_another(members: Members) -> None:
    mine = members.stores[0]
    mine.commit([create("a")])
    members.stranger.delete(PATH)
    mine.commit([create("b")])  # refused once, because the node is gone
    wait_for(mine, {"b"})
    assert len(json.loads(members.stranger.get(PATH)[0])["acls"]) == 1


def test_rules_that_make_no_sense_leave_those_that_held_and_end_no_member(members: Members) -> None:
    mine = members.stores[0]
    mine.commit([create("a")])
    members.stranger.set(PATH, b"{")
    members.note()
    members.stranger.set("/kafka-acl-extended-changes", b"")
    mine.commit([create("b", PREFIX)])
    wait_for(mine, {"b"}, PREFIX)
    assert mine.load().acls[TOPIC] == (entry("a"),)


def test_a_look_from_before_a_rule_was_made_does_not_remove_it(members: Members) -> None:
    """The look finds no node, this member makes it, and only then the look is heard of."""
    mine = members.stores[0]
    before = NodesRead({PATH: None}, mine._session.zxid, mine._session.zxid)
    mine.commit([create("a")])
    mine._facts.put(before)
    mine.commit([create("b", PREFIX)])
    wait_for(mine, {"b"}, PREFIX)
    assert users_of(mine, TOPIC) == {"a"}
    members.stranger.delete(PATH)  # the node is still watched over
    members.note()
    wait_for(mine, set())


def test_a_look_from_before_a_rule_was_removed_does_not_bring_it_back(members: Members) -> None:
    mine = members.stores[0]
    mine.commit([create("a")])
    before = NodesRead({PATH: mine._session.get(PATH)}, mine._session.zxid, mine._session.zxid)
    mine.commit([remove("a")])
    mine._facts.put(before)
    mine.take_events()
    assert users_of(mine, TOPIC) == set()


# --- what nobody notes ------------------------------------------------------------------------------------------------


def test_a_member_that_takes_over_hears_of_rules_that_came_just_before(members: Members) -> None:
    """Everything is read at the take-over, so the note of such a rule tells the store nothing new."""
    mine, other = members.stores[0], members.join()
    other.commit([create("a")])
    mine.register(Broker(1, (Endpoint("PLAINTEXT", "localhost", 9092),)))
    assert mine.stand(1).broker_id == 1
    mine.take_over()
    told = [change for event in mine.take_events() if isinstance(event, ConfigChanged) for change in event.changes]
    assert create("a") in told
    assert mine.load().acls[TOPIC] == (entry("a"),)


def test_a_member_whose_session_was_lost_reads_the_rules_again(members: Members) -> None:
    """It may have been away for longer than notes are kept."""
    mine, other = members.stores[0], members.join()
    other.commit([create("a"), create("b", PREFIX)])
    wait_for(mine, {"a"})
    wait_for(mine, {"b"}, PREFIX)
    rule = {"principal": "User:eve", "permissionType": "Allow", "host": "*", "operation": "Read"}
    members.stranger.set(PATH, json.dumps({"version": 1, "acls": [rule]}).encode())
    members.stranger.delete("/kafka-acl-extended/prefixed/Group/app-")
    twin = KazooClient(members.connect.partition("/")[0], client_id=mine._session._client.client_id)
    twin.start(HANG_S)
    twin.stop()
    twin.close()
    wait_for(mine, {"eve"})
    wait_for(mine, set(), PREFIX)
