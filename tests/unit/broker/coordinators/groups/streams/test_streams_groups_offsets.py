"""Offsets of streams groups: who may commit what, with which epoch, and when they may go."""

from __future__ import annotations

from tests.unit.broker.coordinators.groups.streams.topologies import stateless

from ottla.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup


def behind(streams):
    """A member that has heard of epoch 2 and is in epoch 4: B came, and A gave up two of its tasks."""
    a, b = streams.client("A"), streams.client("B")
    a.beat()
    b.beat()
    a.beat()
    a.beat()
    kept = sorted(each for _, each in a.active)
    given = sorted({0, 1, 2, 3} - set(kept))
    assert streams.streams_group().members["A"].epoch == 3
    return kept, given


def test_a_member_commits_with_its_epoch(streams):
    client = streams.client("A", sent=stateless())
    client.beat()
    assert streams.commit_codes({("t", 0): 5}, member_id="A", generation=client.epoch) == [0]
    assert streams.fetch({"t": [0]})["t", 0] == (5, 0)
    assert streams.commit_codes({("t", 0): 5}, member_id="A", generation=9) == [StaleMemberEpoch.code]
    assert streams.commit_codes({("t", 0): 5}, member_id="X", generation=2) == [UnknownMemberId.code]
    assert streams.commit_codes({("t", 0): 5}, member_id="A", generation=2, version=8) == [UnsupportedVersion.code]
    assert streams.commit_codes({("t", 0): 5}) == [UnknownMemberId.code], "nobody commits beside the members"


def test_a_member_behind_commits_what_it_has_had_all_the_time(streams):
    kept, given = behind(streams)
    offsets = {("t", each): 1 for each in (*kept, *given)}
    assert streams.commit_codes(offsets, member_id="A", generation=2) == [0, 0, *[StaleMemberEpoch.code] * 2]
    assert streams.commit_codes({("u", 0): 1}, member_id="A", generation=2) == [StaleMemberEpoch.code]


def test_a_transaction_of_a_member_behind_hears_the_word_that_producers_know(streams):
    kept, given = behind(streams)
    offsets = {("t", kept[0]): 1, ("t", given[0]): 1}
    assert streams.txn_commit(7, offsets, member_id="A", generation=2) == [0, IllegalGeneration.code]


def test_offsets_are_fetched_with_the_members_epoch(streams):
    client = streams.client("A")
    client.beat()

    def code(member_id, epoch):
        group = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        return streams.answer(streams.call("fetch_offsets", OffsetFetchRequest(groups=[group]), 9)).groups[0].error_code

    assert code("A", client.epoch) == code(None, -1) == 0
    assert code("A", 1) == StaleMemberEpoch.code
    assert code("X", 2) == UnknownMemberId.code


def test_offsets_and_group_go_only_when_nobody_needs_them(streams):
    client = streams.client("A")
    client.beat()
    streams.commit_codes({("t", 0): 5, ("other", 0): 6}, member_id="A", generation=client.epoch)
    assert streams.delete_groups("g", "nobody") == {"g": NonEmptyGroup.code, "nobody": GroupIdNotFound.code}
    answer = streams.delete_offsets([("t", 0), ("other", 0)])
    assert [each.partitions[0].error_code for each in answer.topics] == [86, 0]  # GROUP_SUBSCRIBED_TO_TOPIC
    client.leave()
    assert streams.commit_codes({("t", 0): 1}) == [0], "an administrator resets what nobody reads"
    assert streams.delete_groups("g") == {"g": 0}
    assert streams.fetch({"t": [0]})["t", 0] == (-1, 0)


def test_offsets_of_an_empty_group_expire_and_the_group_with_them(streams):
    client = streams.client("A")
    client.beat()
    streams.commit_codes({("t", 0): 5}, member_id="A", generation=client.epoch)
    client.leave()
    streams.advance(8 * 24 * 3_600_000)
    assert "g" not in streams.shard.groups
    streams.check_replay()
