"""What orders look like on the wire, and that they are exactly what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.cluster.changes import ChangePartition, RegisterBroker, apply_all
from ottla.cluster.controller.control_messages import FULL, INCREMENTAL, PORTION
from ottla.cluster.controller.orders import announcement, orders
from ottla.cluster.controller.state import Replica
from ottla.cluster.model import Broker, Endpoint
from ottla.protocol.compiled import decode, encode
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest

VERSIONS = {LeaderAndIsrRequest: 7, UpdateMetadataRequest: 8, StopReplicaRequest: 4}


@pytest.fixture
def before(stage: Any) -> Any:
    stage.create("orders", (1, 2, 3), (2, 3, 1))
    stage.quiet()
    return stage.state


def with_partition(state: Any, index: int, **changed: Any) -> Any:
    topic = state.image.topic("orders")
    after = replace(topic.partitions[index], **changed)
    return state.with_image(apply_all(state.image, [ChangePartition(topic.id, index, after)]))


def kinds(told: list[Any]) -> list[tuple[int, str]]:
    return [(each.broker_id, type(each.request).__name__.removesuffix("Request")) for each in told]


def test_two_equal_states_give_no_orders(before: Any) -> None:
    assert orders(before, before) == []
    assert orders(before, replace(before)) == []


def test_a_new_leader_is_told_to_the_replicas_and_to_everybody(before: Any) -> None:
    after = with_partition(before, 0, leader=2, leader_epoch=1, partition_epoch=1)
    told = orders(before, after)
    both = ["LeaderAndIsr", "UpdateMetadata"]
    assert kinds(told) == [(broker, kind) for broker in (1, 2, 3) for kind in both]
    request: Any = told[0].request
    assert (request.controller_id, request.controller_epoch, request.type) == (1, 1, INCREMENTAL)
    assert request.broker_epoch == before.image.brokers[1].epoch == told[0].broker_epoch
    (topic,) = request.topic_states
    assert (topic.topic_name, topic.topic_id) == ("orders", before.image.topic_id("orders"))
    (state,) = topic.partition_states
    assert (state.partition_index, state.leader, state.leader_epoch, state.partition_epoch) == (0, 2, 1, 1)
    assert (state.isr, state.replicas, state.is_new, state.controller_epoch) == ([1, 2, 3], [1, 2, 3], False, 1)
    assert [(each.broker_id, each.host_name, each.port) for each in request.live_leaders] == [(2, "localhost", 9002)]


def test_another_in_sync_set_is_told_by_metadata_alone(before: Any) -> None:
    after = with_partition(before, 0, isr=(1, 2), partition_epoch=1)
    told = orders(before, after)
    assert kinds(told) == [(broker, "UpdateMetadata") for broker in (1, 2, 3)]
    request: Any = told[0].request
    (state,) = request.topic_states[0].partition_states
    assert (state.partition_index, state.isr, state.zk_version) == (0, [1, 2], 1)


def test_metadata_has_all_brokers_with_all_their_listeners(before: Any) -> None:
    listeners = (Endpoint("PLAINTEXT", "a", 1), Endpoint("OUTSIDE", "b", 2, "SASL_SSL"))
    new = Broker(7, listeners, epoch=99, rack="r1")
    after = before.with_image(apply_all(before.image, [RegisterBroker(new)]))
    told = orders(before, after)
    assert kinds(told) == [*((broker, "UpdateMetadata") for broker in (1, 2, 3, 7)), (7, "StopReplica")]
    assert all(not each.request.topic_states for each in told[:3])  # type: ignore[attr-defined]
    request: Any = told[3].request
    assert request.type == FULL
    assert [each.id for each in request.live_brokers] == [1, 2, 3, 7]
    seen = request.live_brokers[3]
    assert seen.rack == "r1"
    assert [(each.listener, each.host, each.port, each.security_protocol) for each in seen.endpoints] == [
        ("PLAINTEXT", "a", 1, 0),
        ("OUTSIDE", "b", 2, 3),
    ]
    assert [each.partition_index for each in request.topic_states[0].partition_states] == [0, 1]


def test_a_broker_that_registered_again_is_told_everything_in_full(before: Any) -> None:
    again = replace(before.image.brokers[2], epoch=99)
    after = before.with_image(apply_all(before.image, [RegisterBroker(again)]))
    told = [each for each in orders(before, after) if each.broker_id == 2]
    assert kinds(told) == [(2, "UpdateMetadata"), (2, "LeaderAndIsr")]
    assert [each.request.type for each in told] == [FULL, FULL]  # type: ignore[attr-defined]
    assert [each.request.broker_epoch for each in told] == [99, 99]  # type: ignore[attr-defined]


def test_that_a_broker_shuts_down_is_not_told_to_others(before: Any) -> None:
    leaving = replace(before.image.brokers[2], in_controlled_shutdown=True)
    after = before.with_image(apply_all(before.image, [RegisterBroker(leaving)]))
    told = orders(before, after)
    assert kinds(told) == [(2, "StopReplica")]
    (state,) = told[0].request.topic_states[0].partition_states  # type: ignore[attr-defined]
    assert (state.partition_index, state.delete_partition, state.leader_epoch) == (0, False, 0)


def test_a_replica_that_moved_away_is_deleted_in_the_new_epoch(before: Any) -> None:
    after = with_partition(before, 0, replicas=(1, 2), isr=(1, 2), leader_epoch=1, partition_epoch=1)
    told = [each for each in orders(before, after) if each.broker_id == 3]
    assert kinds(told) == [(3, "UpdateMetadata"), (3, "StopReplica")]
    (state,) = told[1].request.topic_states[0].partition_states  # type: ignore[attr-defined]
    assert (state.partition_index, state.delete_partition, state.leader_epoch) == (0, True, 1)


def test_a_failed_disk_is_seen_in_the_metadata_and_its_replica_stopped(before: Any) -> None:
    after = replace(before, offline_replicas=frozenset([Replica("orders", 0, 3)]))
    told = orders(before, after)
    assert (3, "StopReplica") in kinds(told)
    request: Any = told[0].request
    (state,) = request.topic_states[0].partition_states
    assert (state.partition_index, state.offline_replicas) == (0, [3])


def test_an_announcement_is_metadata_in_full_to_everybody(before: Any) -> None:
    told = announcement(before)
    assert kinds(told) == [(broker, "UpdateMetadata") for broker in (1, 2, 3)]
    assert all(each.request.type == FULL for each in told)  # type: ignore[attr-defined]


def test_much_to_say_is_said_in_portions(stage: Any) -> None:
    stage.quiet()
    for broker in stage.brokers.values():
        broker.heard.clear()
    stage.create("wide", *[(1, 2, 3)] * (2 * PORTION + 1))
    told = [each.request for each in stage.channels[2]]
    assert [type(each) for each in told] == [LeaderAndIsrRequest] * 3 + [UpdateMetadataRequest] * 3
    sizes = [sum(len(topic.partition_states) for topic in each.topic_states) for each in told]
    assert sizes == [PORTION, PORTION, 1] * 2
    stage.quiet()
    stage.check_told()
    assert {each.request.type for each in announcement(stage.state)} == {INCREMENTAL}  # type: ignore[attr-defined]


def test_every_order_can_be_written_and_read_at_the_version_of_kafka_3_9(before: Any, stage: Any) -> None:
    gone = with_partition(before, 0, replicas=(1, 2), isr=(1,), leader_epoch=1, recovering=True)
    for order in (*orders(before, gone, resend_partitions=[1]), *announcement(before)):
        version = VERSIONS[type(order.request)]  # type: ignore[index]
        written = b"".join(bytes(part) for part in encode(order.request, version))
        assert decode(type(order.request), version, memoryview(written)) == order.request
