"""Streams groups through their handlers: who may, which topics are named, and internal topics that the broker makes."""

import pytest
from tests.unit.broker.coordinators.groups.streams.topologies import counting, sub, topic, topology

from ottla.cluster.model import ConfigResource, ResourceType
from ottla.errors import GroupIdNotFound, InvalidGroupId, StreamsInvalidTopology, UnsupportedVersion
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


@pytest.fixture
def make_streams(make_broker):
    def make(**settings):
        broker = make_broker(
            group_streams_initial_rebalance_delay_ms=0, group_streams_assignment_interval_ms=0, **settings
        )
        broker.create_topic("t", 3)
        broker.ask(FindCoordinatorRequest(coordinator_keys=["g"], key_type=0), 6)
        return broker

    return make


def beat(broker, epoch=0, sent=None, group="g"):
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="A",
        member_epoch=epoch,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=60_000,
        topology=sent,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )
    return broker.ask(request, 0)


def describe(broker, *groups):
    return broker.ask(StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True), 0).groups


def test_internal_topics_are_made_and_the_tasks_follow(make_streams):
    broker = make_streams()
    sent = counting()
    sent.subtopologies[1].state_changelog_topics = [topic("log", cleanup_policy="compact")]
    answer = beat(broker, sent=sent)
    assert [each.status_detail for each in answer.status] == ["Internal topics are missing: r, log"]
    assert {name: broker.image.partition_count(name) for name in ("r", "log")} == {"r": 3, "log": 3}
    config = broker.image.config(ConfigResource(ResourceType.TOPIC, "log"))
    assert dict(config) == {"cleanup.policy": "compact"}
    answer = beat(broker, answer.member_epoch)
    assert answer.status == []
    assert [(each.subtopology_id, each.partitions) for each in answer.active_tasks] == [
        ("0", [0, 1, 2]),
        ("1", [0, 1, 2]),
    ]


def test_a_topic_that_cannot_be_made_is_named_with_the_reason(make_streams):
    broker = make_streams()
    sent = topology(sub("0", ["t"], [topic("log", factor=9)]))
    answer = beat(broker, sent=sent)
    answer = beat(broker, answer.member_epoch)
    (status,) = answer.status
    assert status.status_detail.startswith("Internal topics are missing: log; Creation failed: log (")


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        (
            ["__consumer_offsets"],
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (["a b"], "Topic names a b are not valid topic names."),
    ],
)
def test_a_topology_names_topics_that_may_be(make_streams, sources, why):
    answer = beat(make_streams(), sent=topology(sub("0", sources)))
    assert answer.error_code == StreamsInvalidTopology.code
    assert why in answer.error_message


def test_groups_are_described_each(make_streams):
    broker = make_streams()
    beat(broker, sent=topology(sub("0", ["t"])))
    found = {each.group_id: each for each in describe(broker, "g", "g", "nobody", "")}
    assert found["g"].group_state == "Stable"
    assert found["g"].authorized_operations != -(1 << 31)
    assert found["nobody"].error_code == GroupIdNotFound.code
    assert found[""].error_code == InvalidGroupId.code


def test_a_broker_may_be_told_not_to_serve_them(make_streams):
    broker = make_streams(group_coordinator_rebalance_protocols="classic,consumer")
    assert beat(broker, sent=topology(sub("0", ["t"]))).error_code == UnsupportedVersion.code
    assert describe(broker, "g")[0].error_code == UnsupportedVersion.code


def test_a_group_survives_a_restart(make_streams):
    broker = make_streams()
    epoch = beat(broker, sent=topology(sub("0", ["t"]))).member_epoch
    broker.restart()
    answer = beat(broker, epoch)
    assert (answer.error_code, answer.member_epoch) == (0, epoch)
    assert describe(broker, "g")[0].members[0].assignment.active_tasks[0].partitions == [0, 1, 2]
