"""Whoever waits in a broker is answered at its deadline by the broker's own alarm, and nobody has to ring it."""

from __future__ import annotations

from ottla.errors import RequestTimedOut
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

WAIT_MS = 500


def advance(broker, duration_ms):
    """Let time pass, and nothing else."""
    broker.loop.run_until_complete(broker.clock.advance(duration_ms))
    broker.do(lambda: None)


def fetch(wait_ms=WAIT_MS):
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic="orders", partitions=[partition])],
        forgotten_topics_data=[],
    )


def test_fetches_are_answered_when_their_own_time_is_over(broker):
    broker.create_topic("orders")
    late, early = broker.begin(fetch(2 * WAIT_MS), 12), broker.begin(fetch(), 12)
    advance(broker, WAIT_MS - 20)
    assert (early.is_answered, late.is_answered) == (False, False)
    advance(broker, 40)
    assert (early.is_answered, late.is_answered) == (True, False)
    advance(broker, WAIT_MS)
    assert late.is_answered


def test_a_produce_that_is_not_committed_in_time_says_so(make_broker, batch, monkeypatch):
    broker = make_broker(**{"ottla.durability": "durable"})
    broker.create_topic("orders")
    monkeypatch.setattr(broker.broker.progress._flusher, "mark", lambda partition: None)  # a disk that does not answer
    data = PartitionProduceData(index=0, records=batch("a"))
    topics = [TopicProduceData(name="orders", partition_data=[data])]
    for acks in (-1, 1):
        waiting = broker.begin(ProduceRequest(acks=acks, timeout_ms=WAIT_MS, topic_data=topics), 12)
        assert not waiting.is_answered
        advance(broker, WAIT_MS + 20)
        assert waiting.answer.responses[0].partition_responses[0].error_code == RequestTimedOut.code


def test_a_member_that_is_silent_loses_its_place(broker):
    broker.ask(FindCoordinatorRequest(coordinator_keys=["readers"], key_type=0))
    request = JoinGroupRequest(
        group_id="readers",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    assert broker.ask(request, 3).error_code == 0

    def members():
        return len(broker.ask(DescribeGroupsRequest(groups=["readers"]), 5).groups[0].members)

    assert members() == 1
    advance(broker, 6_100)
    assert members() == 0
