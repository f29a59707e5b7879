"""Requests and answers about offsets, and when to commit by itself."""

from __future__ import annotations

import pytest

from ottla.client.consumer.offsets import (
    AutoCommit,
    CommitFailed,
    commit_failed,
    commit_request,
    fetch_failed,
    fetch_request,
    read_commit,
    read_fetch,
)
from ottla.client.group_metadata import GroupMetadata
from ottla.errors import (
    ConnectionClosed,
    FencedInstanceId,
    GroupAuthorizationFailed,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from ottla.protocol import compiled
from ottla.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.values import OffsetAndMetadata, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OFFSETS = {A0: OffsetAndMetadata(5, "x", 3), A1: OffsetAndMetadata(6), B0: OffsetAndMetadata(7)}
GROUP = GroupMetadata("g", 4, "m", "i")


def committed(codes):
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name.topic,
                partitions=[OffsetCommitResponsePartition(partition_index=name.partition, error_code=code)],
            )
            for name, code in codes.items()
        ]
    )


def fetched(answers, error=0):
    topics = [
        OffsetFetchResponseTopics(
            name=name.topic,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=name.partition,
                    committed_offset=offset,
                    committed_leader_epoch=2,
                    metadata="m",
                    error_code=code,
                )
            ],
        )
        for name, (offset, code) in answers.items()
    ]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=error)])


@pytest.mark.parametrize("version", range(7, 10))
def test_a_commit_can_be_written_at_every_version_we_use(version):
    request = commit_request(GROUP, OFFSETS)
    again = compiled.decode(type(request), version, b"".join(compiled.encode(request, version)))
    assert [topic.name for topic in again.topics] == ["a", "b"]
    first = again.topics[0].partitions[0]
    assert (first.committed_offset, first.committed_metadata, first.committed_leader_epoch) == (5, "x", 3)
    assert (again.generation_id_or_member_epoch, again.member_id, again.group_instance_id) == (4, "m", "i")


def test_a_commit_is_done_when_every_partition_is():
    result = read_commit(OFFSETS, committed({A0: 0, A1: 0, B0: 0}))
    assert result.error is None
    assert result.remaining == {}


def test_a_partition_without_an_answer_is_not_taken_for_committed():
    result = read_commit(OFFSETS, committed({A0: 0}))
    assert isinstance(result.error, CommitFailed)
    assert set(result.remaining) == {A1, B0}


@pytest.mark.parametrize(("code", "lookup"), [(14, False), (15, True), (16, True), (7, True), (3, False), (113, False)])
def test_errors_that_pass_are_tried_again_for_what_remains(code, lookup):
    result = read_commit(OFFSETS, committed({A0: 0, A1: code, B0: code}))
    assert (result.retry, result.find_coordinator) == (True, lookup)
    assert set(result.remaining) == {A1, B0}


@pytest.mark.parametrize("code", [25, 22, 110])
def test_a_consumer_that_is_no_member_any_more_is_told_why(code):
    result = read_commit(OFFSETS, committed({A0: code, A1: code, B0: code}))
    assert isinstance(result.error, CommitFailed)
    assert "max.poll.interval.ms" in str(result.error)
    assert result.membership_error.code == code
    assert not result.retry


@pytest.mark.parametrize(("code", "error"), [(27, RebalanceInProgress), (82, FencedInstanceId)])
def test_the_membership_hears_what_a_commit_finds_out(code, error):
    result = read_commit(OFFSETS, committed(dict.fromkeys(OFFSETS, code)))
    assert isinstance(result.error, error)
    assert isinstance(result.membership_error, error)


def test_forbidden_topics_are_named_together():
    result = read_commit(OFFSETS, committed({A0: 29, A1: 0, B0: 29}))
    assert isinstance(result.error, TopicAuthorizationFailed)
    assert "a, b" in str(result.error)


@pytest.mark.parametrize(("code", "error"), [(30, GroupAuthorizationFailed), (12, OffsetMetadataTooLarge)])
def test_other_errors_are_the_applications(code, error):
    result = read_commit(OFFSETS, committed(dict.fromkeys(OFFSETS, code)))
    assert isinstance(result.error, error)
    assert not result.retry


def test_a_broken_connection_is_tried_again_after_a_lookup():
    result = commit_failed(OFFSETS, ConnectionClosed())
    assert (result.retry, result.find_coordinator, set(result.remaining)) == (True, True, set(OFFSETS))


@pytest.mark.parametrize("version", [5, 7, 8, 9])
def test_a_fetch_can_be_written_at_every_version_we_use(version):
    request = fetch_request(GROUP, OFFSETS, version=version, is_consumer_protocol=version >= 9)
    again = compiled.decode(type(request), version, b"".join(compiled.encode(request, version)))
    topics = again.groups[0].topics if version >= 8 else again.topics
    assert [topic.name for topic in topics] == ["a", "b"]
    assert again.require_stable == (version >= 7)
    if version >= 9:
        assert (again.groups[0].member_id, again.groups[0].member_epoch) == ("m", 4)


def test_partitions_without_an_offset_are_left_out():
    result = read_fetch([A0, A1], fetched({A0: (5, 0), A1: (-1, 0)}))
    assert result.offsets == {A0: OffsetAndMetadata(5, "m", 2)}
    assert result.error is None


def test_an_offset_that_cannot_be_is_no_committed_offset():
    """Of a hostile broker; found by tests/fuzz/hostile_answers.py as a ValueError of committed()."""
    result = read_fetch([A0, A1], fetched({A0: (5, 0), A1: (-(1 << 63), 0)}))
    assert result.offsets == {A0: OffsetAndMetadata(5, "m", 2)}


def test_the_answer_of_old_brokers_is_read_too():
    old = OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name="a",
                partitions=[
                    OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata=None, error_code=0)
                ],
            )
        ]
    )
    assert read_fetch([A0], old).offsets == {A0: OffsetAndMetadata(5)}


def test_offsets_of_a_transaction_that_is_just_ending_are_waited_for():
    result = read_fetch([A0, A1], fetched({A0: (5, 0), A1: (-1, 88)}))
    assert isinstance(result.error, UnstableOffsetCommit)
    assert result.retry
    assert result.offsets == {}


@pytest.mark.parametrize(
    ("code", "retry", "lookup"), [(14, True, False), (16, True, True), (30, False, False), (113, True, False)]
)
def test_errors_of_the_group_decide_for_all(code, retry, lookup):
    result = read_fetch([A0], fetched({}, error=code))
    assert (result.retry, result.find_coordinator, result.offsets) == (retry, lookup, {})
    assert result.error.code == code


def test_a_fenced_member_is_told_to_its_membership():
    assert isinstance(read_fetch([A0], fetched({}, error=25)).membership_error, UnknownMemberId)
    assert fetch_failed(ConnectionClosed()).find_coordinator


def test_auto_commit_waits_an_interval_and_never_sends_two_at_once():
    auto = AutoCommit(enabled=True, interval_ms=5_000)
    assert not auto.should_commit(0)
    assert auto.due_ms(0) == 5_000
    assert auto.should_commit(5_000)
    assert not auto.should_commit(20_000)
    auto.finished(20_000)
    assert auto.due_ms(20_000) == 25_000
    assert auto.should_commit(25_000)
    auto.finished(25_000, retry_soon=True)
    assert auto.due_ms(25_000) == 25_100


def test_auto_commit_that_is_off_never_commits():
    auto = AutoCommit(enabled=False, interval_ms=1)
    assert not auto.should_commit(10_000)
