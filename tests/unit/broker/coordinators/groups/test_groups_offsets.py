"""Committed offsets: commit, fetch, delete, transactions, expiry."""

import pytest

from ottla.broker.coordinators.effects import Reply, StoredRecord, Write
from ottla.broker.coordinators.groups.records import offset_record, offset_tombstone
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    InvalidProducerEpoch,
    NetworkException,
    NonEmptyGroup,
    NotCoordinator,
    NotEnoughReplicas,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.stored.offsets import LegacyOffsetCommitKey, LegacyOffsetCommitValue

MINUTE_MS = 60_000
WEEK_MS = 7 * 24 * 60 * MINUTE_MS
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


# -- commit -----------------------------------------------------------------------------------------------------------


def test_a_commit_is_one_write_with_the_topic_id(world):
    topic = OffsetCommitRequestTopic(
        name="t",
        partitions=[OffsetCommitRequestPartition(partition_index=1, committed_offset=7, committed_metadata=None)],
    )
    request = OffsetCommitRequest(group_id="g", member_id="", topics=[topic])
    context = RequestContext(api_version=8, client_id="c", client_host="/h")
    (write,) = world.shard.commit_offsets(5, request, context, 123)
    assert isinstance(write, Write)
    assert write.records == (
        offset_record(
            "g", "t", 1, offset=7, leader_epoch=-1, metadata="", now_ms=123, topic_id=world.cluster.topic_id("t")
        ),
    )
    assert write.records[0].value_version == 4
    assert [reply.token for reply in write.replies] == [5]


@pytest.mark.parametrize("version", range(2, 11))
def test_commit_and_fetch_in_every_version(make_world, version):
    world = make_world()
    assert world.commit_codes({T0: 5, U0: 6}, version=version, metadata="note") == [0, 0]
    for fetch_version in range(1, 10):
        assert world.fetch({"t": [0, 1]}, version=fetch_version) == {T0: (5, 0), T1: (-1, 0)}
    for fetch_version in range(2, 10):
        assert world.fetch(version=fetch_version) == {T0: (5, 0), U0: (6, 0)}
    t, u = world.cluster.topic_id("t"), world.cluster.topic_id("u")
    assert world.fetch({"t": [0]}, version=10) == {(t, 0): (5, 0)}
    assert world.fetch(version=10) == {(t, 0): (5, 0), (u, 0): (6, 0)}
    world.restart()
    assert world.fetch() == {T0: (5, 0), U0: (6, 0)}
    world.check_replay()


def test_leader_epoch_and_metadata_come_back(world):
    world.commit({T0: 5}, epoch=3, metadata="note")
    (partition,) = world.answer(world.fetch_token({"t": [0]})).groups[0].topics[0].partitions
    assert (partition.committed_leader_epoch, partition.metadata) == (3, "note")


def test_what_the_cluster_does_not_have_is_refused_and_the_rest_kept(world):
    unknown = UnknownTopicOrPartition.code
    assert world.commit_codes({("nix", 0): 1, ("t", 4): 1, ("t", -1): 1, T0: 1}) == [unknown, unknown, unknown, 0]
    assert world.commit_codes({("nix", 0): 1, T1: 2}, version=10) == [UnknownTopicId.code, 0]
    assert world.commit_codes({("nix", 0): 1}, group="other") == [unknown]
    assert world.fetch() == {T0: (1, 0), T1: (2, 0)}
    assert [each.group_id for each in world.listed()] == ["g"]


def test_long_metadata_is_refused(make_world):
    world = make_world(offset_metadata_max_bytes=3)
    assert world.commit_codes({T0: 1}, metadata="1234") == [OffsetMetadataTooLarge.code]
    assert world.commit_codes({T0: 1}, metadata="123") == [0]
    assert world.txn_commit(1, {T0: 1}, metadata="1234") == [OffsetMetadataTooLarge.code]
    assert world.txn_commit(1, {T0: 1}, metadata="123") == [0]


def test_who_may_commit_to_a_group_with_members(world):
    a = world.new_id()
    world.settle(a)
    assert world.commit_codes({T0: 1}) == [UnknownMemberId.code]
    assert world.commit_codes({T0: 1}, member_id=a, generation=0) == [IllegalGeneration.code]
    assert world.commit_codes({T0: 1}, member_id="x", generation=1) == [UnknownMemberId.code]
    assert world.commit_codes({T0: 1}, member_id=a, generation=1) == [0]
    world.leave(a)
    assert world.commit_codes({T0: 1}, member_id=a, generation=1) == [UnknownMemberId.code]
    assert world.commit_codes({T0: 2}) == [0]


def test_a_member_commits_during_a_rebalance_but_not_before_its_assignment(world):
    a, b = world.new_id(), world.new_id()
    world.settle(a, b)
    world.join(a)
    assert world.commit_codes({T0: 1}, member_id=b, generation=1) == [0]
    world.join(b)
    assert world.commit_codes({T0: 1}, member_id=b, generation=2) == [RebalanceInProgress.code]
    assert world.txn_commit(9, {T0: 1}, member_id=b, generation=2) == [0]


def test_a_generation_of_a_group_that_does_not_exist(world):
    assert world.commit_codes({T0: 1}, member_id="a", generation=1, version=8) == [IllegalGeneration.code]
    assert world.commit_codes({T0: 1}, member_id="a", generation=1, version=9) == [GroupIdNotFound.code]
    assert world.txn_commit(1, {T0: 1}, member_id="a", generation=1) == [IllegalGeneration.code]


def test_a_simple_group_is_nothing_but_its_offsets(world):
    world.commit({T0: 1})
    (listed,) = world.listed()
    assert (listed.group_id, listed.protocol_type, listed.group_state) == ("g", "", "Empty")
    assert len(world.log) == 1
    assert world.commit_codes({T0: 1}, group="") == [0]


def test_a_simple_group_may_get_members(world):
    world.commit({T0: 1})
    a = world.new_id()
    assert len(world.log) == 1
    world.settle(a)
    world.restart()
    assert world.group().state_name == "Stable"
    assert world.fetch() == {T0: (1, 0)}


def test_an_offset_that_cannot_be_written_is_not_committed(world):
    world.commit({T0: 1})
    world.append_error = NotEnoughReplicas()
    assert world.commit_codes({T0: 2, ("nix", 0): 1}) == [CoordinatorNotAvailable.code, UnknownTopicOrPartition.code]
    assert world.fetch() == {T0: (1, 0)}
    world.append_error = InvalidProducerEpoch()
    assert world.txn_commit(1, {T0: 2}) == [InvalidProducerEpoch.code]
    world.append_error = NetworkException()
    assert world.txn_commit(1, {T0: 2}, version=1) == [CoordinatorNotAvailable.code]
    assert world.txn_commit(1, {T0: 2}, version=2) == [CoordinatorLoadInProgress.code]
    world.check_replay()


# -- fetch ------------------------------------------------------------------------------------------------------------


def test_a_group_that_does_not_exist_has_read_nothing(world):
    assert world.fetch({"t": [0]}) == {T0: (-1, 0)}
    assert world.fetch() == {}


def test_several_groups_in_one_request(world):
    world.commit({T0: 1}, group="a")
    world.commit({T0: 2}, group="b")
    groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("a", "b", "c")]
    answer = world.answer(world.call("fetch_offsets", OffsetFetchRequest(groups=groups), 8))
    found = {each.group_id: [t.partitions[0].committed_offset for t in each.topics] for each in answer.groups}
    assert found == {"a": [1], "b": [2], "c": []}


def test_an_offset_is_told_when_it_is_committed_to_the_log(world):
    world.commits_at_once = False
    commit, fetch = world.commit({T0: 1}), world.fetch_token()
    assert world.is_waiting(commit)
    assert world.is_waiting(fetch)
    world.commit_log()
    assert world.answer(fetch).groups[0].topics[0].partitions[0].committed_offset == 1


@pytest.mark.parametrize("version", [1, 2, 8])
def test_a_fetch_that_ends_with_the_leadership_is_told_so_in_every_shape(world, version):
    world.commits_at_once = False
    token = world.fetch_token({"t": [0]}, version=version)
    world.restart()
    answer = world.answer(token)
    if version == 1:
        assert answer.topics[0].partitions[0].error_code == NotCoordinator.code
    elif version == 2:
        assert answer.error_code == NotCoordinator.code
    else:
        assert answer.groups[0].error_code == NotCoordinator.code


def test_topics_that_are_gone_have_no_id(world):
    world.commit({T0: 1})
    del world.cluster.known["t"]
    assert world.fetch(version=10) == {}
    assert world.fetch({"t": [0]}, version=10) == {(bytes([99]) * 16, 0): (-1, UnknownTopicId.code)}
    assert world.fetch(version=9) == {T0: (1, 0)}


def test_the_offset_of_a_former_topic_of_that_name_is_not_told_by_id(world):
    world.commit({T0: 1})
    world.cluster.known["t"] = (bytes([77]) * 16, 4)
    assert world.fetch({"t": [0]}, version=10) == {(bytes([77]) * 16, 0): (-1, 0)}
    assert world.fetch({"t": [0]}, version=9) == {T0: (1, 0)}


# -- transactions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_an_offset_in_a_transaction_counts_when_it_commits(make_world, version):
    world = make_world()
    world.commit({T0: 1})
    assert world.txn_commit(7, {T0: 2, T1: 3}, version=version) == [0, 0]
    assert world.fetch({"t": [0, 1]}) == {T0: (1, 0), T1: (-1, 0)}
    unstable = (-1, UnstableOffsetCommit.code)
    assert world.fetch({"t": [0, 1, 2]}, stable=True) == {T0: unstable, T1: unstable, ("t", 2): (-1, 0)}
    assert world.fetch(stable=True) == {T0: unstable}
    world.restart()
    assert world.fetch(stable=True) == {T0: unstable}
    world.end_transaction(7, committed=True)
    assert world.fetch(stable=True) == {T0: (2, 0), T1: (3, 0)}
    world.check_replay()


def test_an_aborted_offset_never_counts(world):
    world.commit({T0: 1})
    world.txn_commit(7, {T0: 2, T1: 3})
    world.end_transaction(7, committed=False)
    assert world.fetch(stable=True) == {T0: (1, 0)}


def test_the_younger_record_wins_over_the_later_marker(world):
    world.txn_commit(7, {T0: 2})
    world.commit({T0: 3})
    world.end_transaction(7, committed=True)
    assert world.fetch() == {T0: (3, 0)}


def test_transactions_of_several_producers_end_on_their_own(world):
    world.txn_commit(7, {T0: 2})
    world.txn_commit(8, {T0: 3})
    world.end_transaction(8, committed=True)
    assert world.fetch({"t": [0]}, stable=True)[T0] == (-1, UnstableOffsetCommit.code)
    world.end_transaction(7, committed=True)
    assert world.fetch({"t": [0]}, stable=True)[T0] == (3, 0)


def test_a_transaction_ends_that_nobody_knows(world):
    world.end_transaction(7, committed=True)
    assert world.fetch() == {}


def test_a_transaction_needs_a_group_and_its_topics(world):
    assert world.txn_commit(7, {T0: 1}, group="") == [InvalidGroupId.code]
    assert world.txn_commit(7, {("nix", 0): 1}) == [UnknownTopicOrPartition.code]
    assert world.listed() == []


def test_an_old_producer_commits_to_a_group_with_members(world):
    a = world.new_id()
    world.settle(a)
    assert world.txn_commit(7, {T0: 1}, version=2) == [0]
    assert world.txn_commit(7, {T0: 1}, member_id=a, generation=0) == [IllegalGeneration.code]


# -- delete -----------------------------------------------------------------------------------------------------------


def test_deleted_offsets_are_gone_with_what_was_pending(world):
    world.commit({T0: 1, T1: 2})
    world.txn_commit(7, {T0: 5})
    answer = world.delete_offsets([T0, ("t", 2), ("nix", 0)])
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [
        0,
        0,
        UnknownTopicOrPartition.code,
    ]
    world.end_transaction(7, committed=True)
    assert world.fetch() == {T1: (2, 0)}
    world.check_replay()


def test_offsets_in_use_cannot_be_deleted(world, subscribed):
    world.commit({T0: 1, U0: 1})
    a = world.new_id()
    world.settle(a, protocols={"range": subscribed("t")})
    answer = world.delete_offsets([T0, U0])
    assert [topic.partitions[0].error_code for topic in answer.topics] == [GroupSubscribedToTopic.code, 0]
    assert world.fetch() == {T0: (1, 0)}


def test_offsets_of_a_group_whose_topics_are_unknown_cannot_be_deleted(world):
    a = world.new_id()
    world.commit({T0: 1})
    world.settle(a, protocols={"range": b"?"})
    assert world.delete_offsets([T0]).topics[0].partitions[0].error_code == GroupSubscribedToTopic.code


def test_offsets_of_another_kind_of_members_cannot_be_deleted_while_they_are_there(world):
    world.commit({T0: 1})
    a = world.until(world.join(protocol_type="connect", version=3))[0].member_id
    assert world.delete_offsets([T0]).error_code == NonEmptyGroup.code
    world.leave(a)
    assert world.delete_offsets([T0]).error_code == 0
    assert world.delete_offsets([T0], group="nowhere").error_code == GroupIdNotFound.code
    assert world.delete_offsets([T0], group="").error_code == InvalidGroupId.code


def test_offsets_that_cannot_be_deleted_stay(world):
    world.commit({T0: 1})
    world.append_error = NotEnoughReplicas()
    assert world.delete_offsets([T0]).error_code == CoordinatorNotAvailable.code
    assert world.fetch() == {T0: (1, 0)}


def test_a_deleted_topic_takes_its_offsets_along(world):
    world.commit({T0: 1, U0: 2}, group="a")
    world.commit({T1: 1}, group="b")
    world.txn_commit(7, {("t", 2): 1}, group="b")
    t = world.cluster.topic_id("t")
    world.carry_out(world.shard.topics_deleted([("t", t)], world.now_ms))
    world.end_transaction(7, committed=True)
    assert (world.fetch(group="a"), world.fetch(group="b")) == ({U0: (2, 0)}, {})
    world.check_replay()


def test_offsets_for_a_new_topic_of_that_name_stay(world):
    world.commit({T0: 1})
    assert world.shard.topics_deleted([("t", bytes([55]) * 16)], world.now_ms) == []


def test_offsets_of_deleted_topics_are_removed_in_slices(world, monkeypatch, caplog):
    monkeypatch.setattr("ottla.broker.coordinators.groups.expiry.TOMBSTONES_PER_WRITE", 3)
    world.commit({("t", index): 1 for index in range(4)})
    effects = world.shard.topics_deleted([("t", world.cluster.topic_id("t"))], world.now_ms)
    assert [len(effect.records) for effect in effects] == [3, 1]
    assert effects[0].failure(NotEnoughReplicas()) == ()
    assert "they will expire" in caplog.text


# -- expiry -----------------------------------------------------------------------------------------------------------


def test_offsets_of_a_simple_group_expire_after_their_last_commit_and_the_group_with_them(world):
    world.commit({T0: 1})
    world.advance(WEEK_MS - MINUTE_MS)
    world.commit({T1: 1})
    world.advance(11 * MINUTE_MS)
    assert world.fetch() == {T1: (1, 0)}
    world.advance(WEEK_MS)
    assert world.listed() == []
    assert world.replayed().groups == {}
    world.check_replay()


def test_offsets_of_an_empty_group_expire_together_after_it_became_empty(world):
    a = world.new_id()
    world.settle(a)
    for day in range(10):
        world.commit({("t", day % 4): day}, member_id=a, generation=1)
        for _ in range(24 * 60 * 60 // 9):
            world.advance(9_000)
            world.heartbeat(a, 1)
        if day == 1:
            break
    world.leave(a)
    world.restart()
    world.advance(WEEK_MS - 20 * MINUTE_MS)
    assert len(world.fetch()) == 2
    world.advance(40 * MINUTE_MS)
    assert world.listed() == []
    world.check_replay()


def test_offsets_that_members_read_do_not_expire_and_others_do(make_world, subscribed):
    world = make_world(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    a = world.new_id()
    world.settle(a, protocols={"range": subscribed("t")})
    assert world.commit_codes({T0: 1, U0: 2}, member_id=a, generation=1) == [0, 0]
    for _ in range(20):
        world.advance(5_000)
        assert world.heartbeat(a, 1) == 0
    assert world.fetch() == {T0: (1, 0)}


def test_offsets_do_not_expire_while_nobody_knows_what_is_read(make_world):
    world = make_world(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    a = world.until(world.join(protocol_type="connect", version=3))[0].member_id
    world.sync(a, 1, {a: b"x"}, protocol_type="connect")
    world.commit({T0: 1}, member_id=a, generation=1)
    for _ in range(20):
        world.advance(5_000)
        world.heartbeat(a, 1)
    assert world.fetch() == {T0: (1, 0)}


def test_an_open_transaction_keeps_an_offset_and_its_group(make_world):
    world = make_world(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    world.commit({T0: 1, T1: 1})
    world.txn_commit(7, {T0: 2})
    world.advance(70_000)
    assert world.fetch() == {T0: (1, 0)}
    world.end_transaction(7, committed=False)
    world.advance(1_000)
    assert world.listed() == []


def test_a_client_of_old_may_ask_for_its_own_retention(world):
    world.commit({T0: 1}, version=4, retention_ms=30 * MINUTE_MS)
    assert world.log[-1].value[:2] == b"\x00\x01"
    world.restart()
    world.advance(29 * MINUTE_MS)
    assert world.fetch() == {T0: (1, 0)}
    world.advance(12 * MINUTE_MS)
    assert world.fetch() == {}


def test_an_empty_group_without_offsets_goes(world):
    world.new_id()
    world.advance(10 * MINUTE_MS)
    assert world.listed() == []
    world.check_replay()


def test_the_search_goes_in_slices_and_finds_everything(make_world, monkeypatch):
    monkeypatch.setattr("ottla.broker.coordinators.groups.expiry.TOMBSTONES_PER_WRITE", 3)
    world = make_world(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    for name in "abc":
        world.commit({("t", index): 1 for index in range(4)}, group=name)
    before = len(world.log)
    world.advance(60_000)
    assert world.listed() == []
    assert len(world.log) - before == 3 * 5


def test_a_search_that_cannot_write_waits_for_the_next_interval(make_world, monkeypatch, caplog):
    monkeypatch.setattr("ottla.broker.coordinators.groups.expiry.TOMBSTONES_PER_WRITE", 3)
    world = make_world(offsets_retention_minutes=1, offsets_retention_check_interval_ms=50_000)
    for name in "abc":
        world.commit({("t", index): 1 for index in range(4)}, group=name)
    world.append_error = NotEnoughReplicas()
    world.advance(100_000)
    assert len(caplog.records) == 1
    assert len(world.listed()) == 3
    world.append_error = None
    world.advance(50_000)
    assert world.listed() == []


def test_an_offset_of_a_broker_before_0_9_is_read(world):
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=9, metadata="m", commit_timestamp=5)
    world.shard.replay(StoredRecord(key, value), offset=0)
    assert world.fetch() == {T0: (9, 0)}
    world.shard.replay(StoredRecord(key, None), offset=1)
    assert world.fetch() == {}


def test_a_tombstone_for_what_is_not_there_means_nothing(world):
    world.shard.replay(offset_tombstone("g", "t", 0), offset=0)
    assert world.fetch() == {}
    assert world.shard.groups == {}


def test_a_reply_without_records_is_given_at_once(world):
    context = RequestContext(api_version=8, client_id="c", client_host="/h")
    request = OffsetCommitRequest(group_id="g", member_id="", topics=[])
    assert isinstance(world.shard.commit_offsets(1, request, context, 0)[0], Reply)
