"""Proposals on their way to the controller."""

import pytest

from ottla.broker.replication.in_sync import Member, Proposal
from ottla.broker.replication.isr_requests import IsrRequests, IsrVerdict
from ottla.errors import (
    ClusterAuthorizationFailed,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidUpdateVersion,
    NotController,
    OperationNotAttempted,
    StaleBrokerEpoch,
    UnknownServerError,
    UnknownTopicId,
)
from ottla.protocol.messages.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from ottla.values import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
A_ID, B_ID = b"a" * 16, b"b" * 16


def proposal(leader_epoch=1, *ids):
    return Proposal(leader_epoch, 5, tuple(Member(each, -1) for each in ids or (1, 2)))


def answer(*partitions, error_code=0):
    topics = [
        ResponseTopicData(
            topic_id=topic_id,
            partitions=[
                ResponsePartitionData(
                    partition_index=index, error_code=code, leader_id=1, leader_epoch=1, isr=[1, 2], partition_epoch=6
                )
            ],
        )
        for topic_id, index, code in partitions
    ]
    return AlterPartitionResponse(error_code=error_code, topics=topics)


@pytest.fixture
def requests():
    return IsrRequests(1)


def test_what_is_proposed_goes_in_one_request_and_nothing_while_it_is_under_way(requests):
    assert requests.request(9) is None
    requests.submit(A, A_ID, proposal())
    requests.submit(B, B_ID, proposal())
    request = requests.request(9)
    assert (request.broker_id, request.broker_epoch) == (1, 9)
    assert [topic.topic_id for topic in request.topics] == [A_ID, B_ID]
    assert [each.broker_id for each in request.topics[0].partitions[0].new_isr_with_epochs] == [1, 2]
    assert requests.request(9) is None


def test_a_partition_has_one_proposal_and_a_newer_leader_epoch_replaces_it(requests):
    assert requests.submit(A, A_ID, proposal(1))
    assert not requests.submit(A, A_ID, proposal(1))
    assert requests.submit(A, A_ID, proposal(2))
    assert requests.request(9).topics[0].partitions[0].leader_epoch == 2


def test_what_was_made_true_is_told_with_the_truth(requests):
    asked = proposal()
    requests.submit(A, A_ID, asked)
    requests.request(9)
    (outcome,) = requests.answered(answer((A_ID, 0, 0)))
    assert outcome[:3] == (A, asked, IsrVerdict.ACCEPTED)
    assert (outcome.isr, outcome.leader_epoch, outcome.partition_epoch) == ((1, 2), 1, 6)
    assert len(requests) == 0


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (OperationNotAttempted, IsrVerdict.WITHDRAWN),
        (IneligibleReplica, IsrVerdict.WITHDRAWN),
        (FencedLeaderEpoch, IsrVerdict.LEFT),
        (InvalidUpdateVersion, IsrVerdict.LEFT),
        (UnknownTopicId, IsrVerdict.LEFT),
    ],
)
def test_a_refusal_says_what_becomes_of_the_proposal(requests, error, verdict):
    requests.submit(A, A_ID, proposal())
    requests.request(9)
    assert [each.verdict for each in requests.answered(answer((A_ID, 0, error.code)))] == [verdict]
    assert requests.request(9) is None


@pytest.mark.parametrize("error", [StaleBrokerEpoch, NotController, ClusterAuthorizationFailed])
def test_what_was_refused_as_a_whole_is_asked_again(requests, error):
    requests.submit(A, A_ID, proposal())
    requests.request(9)
    assert requests.answered(answer(error_code=error.code)) == []
    assert requests.request(10).broker_epoch == 10


def test_a_leader_speaks_of_itself_under_the_registration_of_the_request(requests):
    """Short seed 60005: it had another session since it leads, and was taken for one that came back."""
    requests.submit(A, A_ID, proposal())
    for epoch in (9, 10):
        members = requests.request(epoch).topics[0].partitions[0].new_isr_with_epochs
        assert [(each.broker_id, each.broker_epoch) for each in members] == [(1, epoch), (2, -1)]
        requests.failed()


def test_no_answer_an_unknown_error_and_a_missing_partition_are_asked_again(requests):
    requests.submit(A, A_ID, proposal())
    requests.request(9)
    requests.failed()
    assert requests.request(9) is not None
    assert requests.answered(answer((A_ID, 0, UnknownServerError.code))) == []
    assert requests.request(9) is not None
    assert requests.answered(answer()) == []
    assert requests.request(9) is not None


def test_an_answer_to_a_proposal_that_was_replaced_or_forgotten_is_ignored(requests):
    requests.submit(A, A_ID, proposal(1))
    requests.request(9)
    requests.submit(A, A_ID, proposal(2))
    assert requests.answered(answer((A_ID, 0, 0))) == []
    assert requests.request(9).topics[0].partitions[0].leader_epoch == 2
    requests.forget(A, A_ID)
    assert requests.answered(answer((A_ID, 0, 0))) == []
    assert requests.request(9) is None
