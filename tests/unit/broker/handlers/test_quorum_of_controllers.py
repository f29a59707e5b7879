"""DescribeQuorum on the controller that leads: times of the others are told by the clock of now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.broker import Broker
from ottla.broker.cluster.quorum.link import ControllerLink, controller_link
from ottla.broker.handlers.controllers.describe_quorum import handle
from ottla.broker.http.call import context_of
from ottla.cluster.changes import RegisterController, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ControllerNode, Endpoint
from ottla.cluster.raft.leading import Leadership
from ottla.cluster.raft.voters import VoterKey, voters_by_settings
from ottla.light_dataclasses import replace
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.quorum_health import quorum_of, silent_ms
from ottla.values import Address

RAFT_MS = 100_000
HOUR_MS = 3_600_000
CONTROLLERS = [
    ControllerNode(number, b"", (Endpoint("CONTROLLER", f"host-{number}", 9093),)) for number in (1, 2, 3, 5, 6)
]


def controller(clock_ms: int) -> Broker:
    """Node 1 leads; node 2 fetched half a second ago, node 3 never did. Raft's time stood still for a while."""
    voters = voters_by_settings([(number, Address("host", number)) for number in (1, 2, 3)], "CONTROLLER")
    leadership = Leadership(VoterKey(1), 0, 0)
    leadership.fetched(VoterKey(2), voters, 9, 9, RAFT_MS - 500)
    raft = SimpleNamespace(
        leadership=leadership,
        node=SimpleNamespace(key=VoterKey(1)),
        voters=voters,
        epoch=4,
        log=SimpleNamespace(end_offset=9),
    )
    made: Any = SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: clock_ms), access=SimpleNamespace(is_on=False))
    made.image = apply_all(ClusterImage("c"), [RegisterController(controller) for controller in CONTROLLERS])
    made.link = ControllerLink(made)
    made.link.following = SimpleNamespace(quorum=SimpleNamespace(raft=raft, now_ms=lambda: RAFT_MS))
    return cast(Broker, made)


@pytest.mark.parametrize("clock_ms", [RAFT_MS, RAFT_MS + HOUR_MS, RAFT_MS - 50_000])
def test_a_clock_that_was_set_or_a_machine_that_slept_makes_nobody_silent(clock_ms: int) -> None:
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    found = quorum_of(handle(controller(clock_ms), DescribeQuorumRequest(topics=[topic]), context_of("User:a", "b")))
    leader, heard, unheard = found.voters
    assert leader.last_fetch_timestamp_ms == clock_ms
    assert heard.last_fetch_timestamp_ms == heard.last_caught_up_timestamp_ms == clock_ms - 500
    assert unheard.last_fetch_timestamp_ms is None
    assert [silent_ms(found, each) for each in found.voters] == [0, 500, None]


def test_where_controllers_are_that_follow_without_a_vote_is_told_too() -> None:
    leader = controller(RAFT_MS)
    raft = controller_link(leader).raft_loop.raft
    assert raft.leadership is not None
    for node_id in (5, 7):  # a registered controller, and a broker; 6 does not follow
        raft.leadership.fetched(VoterKey(node_id, bytes([node_id]) * 16), raft.voters, 9, 9, RAFT_MS)
    response = handle(leader, DescribeQuorumRequest(topics=[]), replace(context_of("User:a", "b"), api_version=2))
    assert [(node.node_id, node.listeners[0].host) for node in response.nodes] == [
        (1, "host"),
        (2, "host"),
        (3, "host"),
        (5, "host-5"),
    ]


def test_who_asks_for_more_than_the_one_log_hears_of_none() -> None:
    """As in Kafka; with thousands of observers it would be a long answer, as often as it was asked for."""
    first = [PartitionData(partition_index=0)]
    log, other = (
        TopicData(topic_name="__cluster_metadata", partitions=first),
        TopicData(topic_name="x", partitions=first),
    )
    for topics in ([log, log], [log, other], [other]):
        response = handle(controller(RAFT_MS), DescribeQuorumRequest(topics=topics), context_of("User:a", "b"))
        partitions = [partition for topic in response.topics for partition in topic.partitions]
        assert {partition.error_code for partition in partitions} <= {3}
