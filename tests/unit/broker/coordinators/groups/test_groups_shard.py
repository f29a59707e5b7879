"""GroupShard: listing, describing, deleting, coming and going, and room for other kinds of groups."""

import pytest

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.groups.group import Group, GroupKind, GroupProtocol
from ottla.broker.coordinators.groups.timers import JoinTimer, SessionTimer, SyncTimer
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InconsistentGroupProtocol,
    NonEmptyGroup,
    NotCoordinator,
    NotEnoughReplicas,
    UnknownMemberId,
)
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.stored.consumer_groups import ConsumerGroupMetadataKey
from ottla.protocol.stored.transactions import TransactionLogKey


class OtherGroup(Group):
    def __init__(self, kind, *, is_empty):
        self.kind = kind
        self.group_id = "g"
        self._is_empty = is_empty

    state_name = "Assigning"
    listed_protocol_type = "consumer"
    is_empty = property(lambda self: self._is_empty)

    def check_offset_commit(self, *args, **how):
        raise UnknownMemberId

    def check_offset_fetch(self, member_id, member_epoch):
        raise UnknownMemberId

    def check_offset_delete(self): ...

    def check_delete(self): ...

    def is_subscribed_to(self, topic):
        return False

    def retention_start_ms(self, commit_timestamp_ms):
        return None

    def tombstones(self):
        return (StoredRecord(ConsumerGroupMetadataKey(group_id="g"), None),)


class OtherMembership(GroupProtocol):
    def loaded(self, group, now_ms):
        return []

    def unload(self, group):
        return []

    def timer_fired(self, group, key, now_ms):
        return []


def take_in(world, kind, *, is_empty):
    def replay(key, value, offset, producer_id):
        del world.shard.groups[key.group_id]

    world.shard.add_kind(kind, OtherMembership(), {ConsumerGroupMetadataKey: replay})
    world.shard.groups["g"] = OtherGroup(kind, is_empty=is_empty)


# -- list and describe ------------------------------------------------------------------------------------------------


@pytest.fixture
def three(world):
    world.settle(world.new_id(group="stable"), group="stable")
    world.join(group="joining", version=3)
    world.commit({("t", 0): 1}, group="simple")
    return world


def test_list_filters_by_state_and_type(three):
    def names(**how):
        return {each.group_id for each in three.listed(**how)}

    assert names() == {"stable", "joining", "simple"}
    assert names(states=[" STABLE", "preparingrebalance"]) == {"stable", "joining"}
    assert names(types=["Classic"]) == {"stable", "joining", "simple"}
    assert names(types=["consumer"]) == set()
    assert names(types=["nonsense"]) == set()
    assert names(states=["Empty"], types=["classic", "share"]) == {"simple"}
    listed = {each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in three.listed()}
    assert listed == {
        "stable": ("consumer", "Stable", "classic"),
        "joining": ("consumer", "PreparingRebalance", "classic"),
        "simple": ("", "Empty", "classic"),
    }


def test_a_stable_group_is_described_with_what_its_members_told_and_got(world):
    a = world.new_id()
    world.settle(a)
    described = world.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    (member,) = described.members
    assert (member.member_id, member.client_id, member.client_host) == (a, "c", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"r", a.encode())


def test_while_it_rebalances_the_members_are_described_without_metadata(world):
    a = world.new_id()
    world.until(world.join(a))
    described = world.describe()
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    assert [member.member_metadata for member in described.members] == [b""]


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there_is_dead(world, version):
    described = world.describe("nowhere", version=version)
    assert described.group_state == "Dead"
    assert described.error_code == (GroupIdNotFound.code if version >= 6 else 0)
    assert described.error_message == ("Group nowhere not found." if version >= 6 else None)


# -- delete -----------------------------------------------------------------------------------------------------------


def test_empty_groups_are_deleted_with_their_offsets(three):
    three.txn_commit(7, {("t", 1): 1}, group="simple")
    codes = three.delete_groups("simple", "stable", "joining", "nowhere", "simple")
    assert codes == {"simple": 0, "stable": NonEmptyGroup.code, "joining": NonEmptyGroup.code, "nowhere": 69}
    three.end_transaction(7, committed=True)
    assert three.fetch(group="simple") == {}
    assert {each.group_id for each in three.listed()} == {"stable", "joining"}
    three.check_replay()


def test_a_deletion_that_cannot_be_written_deletes_nothing(three):
    three.append_error = NotEnoughReplicas()
    assert three.delete_groups("simple", "nowhere") == {"simple": CoordinatorNotAvailable.code, "nowhere": 69}
    assert three.fetch(group="simple") == {("t", 0): (1, 0)}


def test_whom_a_deleted_group_waited_for_begins_anew(world):
    a = world.new_id()
    assert world.delete_groups("g") == {"g": 0}
    assert world.answer(world.join(a)).error_code == UnknownMemberId.code
    b = world.new_id()
    world.advance(9_000)
    world.settle(b)
    assert set(world.group().members) == {b}


def test_a_group_that_could_not_be_deleted_keeps_its_timers(world):
    a = world.new_id()
    world.append_error = NotEnoughReplicas()
    world.delete_groups("g")
    assert SessionTimer("g", a) in world.timers


# -- coming and going -------------------------------------------------------------------------------------------------


def test_whoever_waits_is_told_when_the_leadership_is_lost(world):
    a, b = world.new_id(), world.new_id()
    world.until(world.join(a), world.join(b))
    syncing = world.sync(b, 1)
    joining = world.join(group="h", version=3)
    world.restart()
    assert world.answer(syncing).error_code == NotCoordinator.code
    assert world.answer(joining).error_code == NotCoordinator.code


def test_loading_gives_members_a_new_session(world):
    a = world.new_id()
    world.settle(a)
    world.advance(9_000)
    world.restart()
    world.advance(9_999)
    assert world.heartbeat(a, 1) == 0
    world.advance(10_000)
    assert world.group().state_name == "Empty"


def test_timers_of_groups_that_are_gone_mean_nothing(world):
    for key in (SessionTimer("gone", "x"), JoinTimer("gone"), SyncTimer("gone")):
        assert world.shard.timer_fired(key, 0) == []
    world.settle(world.new_id())
    for key in (SessionTimer("g", "x"), JoinTimer("g"), SyncTimer("g")):
        assert world.shard.timer_fired(key, 0) == []


def test_a_timer_that_nobody_set_is_a_fault(world):
    with pytest.raises(TypeError, match="no timer"):
        world.shard.timer_fired("what", 0)
    world.new_id()
    with pytest.raises(TypeError, match="is no record"):
        world.shard.replay(StoredRecord(TransactionLogKey(transactional_id="t"), None), offset=0)


# -- other kinds ------------------------------------------------------------------------------------------------------


def test_a_group_of_another_kind_refuses_classic_members_as_kafka_does(world):
    take_in(world, GroupKind.SHARE, is_empty=True)
    assert world.answer(world.join()).error_code == InconsistentGroupProtocol.code
    assert world.answer(world.sync("a", 1)).error_code == UnknownMemberId.code
    assert world.heartbeat("a", 1) == UnknownMemberId.code
    assert world.leave("a").members[0].error_code == UnknownMemberId.code
    assert world.describe().error_message == "Group g is not a classic group."
    assert [each.group_type for each in world.listed(types=["share"])] == ["share"]
    assert world.commit_codes({("t", 0): 1}) == [UnknownMemberId.code]
    token = world.fetch_token({"t": [0]})
    assert world.answer(token).groups[0].error_code == UnknownMemberId.code
    assert world.shard.timer_fired(JoinTimer("g"), 0) == []


def test_an_empty_consumer_group_gives_way_to_a_classic_member(world):
    take_in(world, GroupKind.CONSUMER, is_empty=True)
    context = RequestContext(api_version=9, client_id="c", client_host="/h")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    write = world.shard.join_group(1, request, context, 0)[0]
    assert [type(record.key).__name__ for record in write.records] == ["ConsumerGroupMetadataKey", "GroupMetadataKey"]
    for record in write.records:
        world.shard.replay(record, offset=0)
    assert world.group().pending == {"c-1"}


def test_a_consumer_group_with_members_stays(world):
    take_in(world, GroupKind.CONSUMER, is_empty=False)
    assert world.answer(world.join()).error_code == InconsistentGroupProtocol.code
