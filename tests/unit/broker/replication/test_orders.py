"""LeaderAndIsr and StopReplica: which orders are obeyed, and what the answers say."""

import pytest

from ottla.broker.replication.orders import roles
from ottla.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaStorageError,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from ottla.values import ZERO_UUID, TopicPartition

BILLS_ID = b"b" * 16
BILLS = TopicPartition("bills", 0)


def state(leader=0, leader_epoch=1, replicas=(0, 1, 2), index=0, **more):
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=list(replicas),
        partition_epoch=0,
        replicas=list(replicas),
        **more,
    )


def order(*states, topic_id=BILLS_ID, controller_epoch=1, broker_epoch=1, **more):
    topic = LeaderAndIsrTopicState(topic_name="bills", topic_id=topic_id, partition_states=list(states))
    return LeaderAndIsrRequest(
        controller_id=0,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[topic],
        live_leaders=[],
        **more,
    )


def stop(leader_epoch=1, *, deletes=True, controller_epoch=1, broker_epoch=1):
    one = StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch, delete_partition=deletes)
    return StopReplicaRequest(
        controller_id=0,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[StopReplicaTopicState(topic_name="bills", partition_states=[one])],
    )


@pytest.fixture
def tell(world):
    """What broker 0 answers to an order: the error code of the whole, and those of the partitions."""

    def tell(request, version=None):
        answers = []
        world.do(lambda: world.ask(0, request, version, answers.append))
        (answer,) = answers
        parts = getattr(answer, "topics", None) or [answer]
        return answer.error_code, [each.error_code for part in parts for each in part.partition_errors]

    return tell


def bills(world):
    return world.nodes[0].broker.replicas.get(BILLS)


def test_a_broker_leads_and_follows_as_it_is_told(world, tell):
    assert tell(order(state(0), state(1, index=1))) == (0, [0, 0])
    assert bills(world).is_leader
    other = world.nodes[0].broker.replicas.get(TopicPartition("bills", 1))
    assert (other.is_leader, other.leader_id, other.leader_epoch) == (False, 1, 1)


def test_only_a_greater_leader_epoch_is_obeyed(world, tell):
    tell(order(state(0, leader_epoch=5)))
    for stale in (5, 4):
        assert tell(order(state(1, leader_epoch=stale))) == (0, [StaleControllerEpoch.code])
    assert bills(world).is_leader
    assert tell(order(state(1, leader_epoch=6))) == (0, [0])
    assert not bills(world).is_leader


def test_orders_of_a_replaced_controller_and_for_an_earlier_life_are_refused(world, tell):
    assert tell(order(state(0), controller_epoch=7)) == (0, [0])
    stale = StaleControllerEpoch.code
    assert tell(order(state(0, leader_epoch=9), controller_epoch=6)) == (stale, [stale])
    assert tell(stop(9, controller_epoch=6)) == (stale, [stale])
    stale = StaleBrokerEpoch.code
    assert tell(order(state(0, leader_epoch=9), controller_epoch=7, broker_epoch=0)) == (stale, [stale])
    assert tell(stop(9, controller_epoch=7, broker_epoch=0)) == (stale, [stale])
    assert bills(world).leader_epoch == 1


def test_an_order_that_does_not_name_its_broker_epoch_is_obeyed(world, tell):
    assert tell(order(state(0), broker_epoch=-1)) == (0, [0])


def test_another_topic_of_the_same_name_is_refused(world, tell):
    tell(order(state(0)))
    assert tell(order(state(0, leader_epoch=2), topic_id=b"x" * 16)) == (0, [InconsistentTopicId.code])


def test_one_that_is_not_among_the_replicas_does_not_know_the_partition(world, tell):
    assert tell(order(state(1, replicas=(1, 2)))) == (0, [UnknownTopicOrPartition.code])
    assert bills(world) is None


def test_a_partition_on_a_failed_disk_says_so(world, tell):
    tell(order(state(0)))
    world.do(lambda: world.nodes[0].broker.take_offline(bills(world), KafkaStorageError("gone")))
    assert tell(order(state(0, leader_epoch=2))) == (0, [KafkaStorageError.code])
    assert tell(stop(2)) == (0, [KafkaStorageError.code])


def test_orders_that_a_full_disk_had_no_room_for_are_asked_for_again(world, tell, monkeypatch):
    repeated = []
    monkeypatch.setattr(world.nodes[0].broker.link, "repeat", lambda: repeated.append(bills(world)))
    world.nodes[0].files.fill(free_bytes=0)
    assert tell(order(state(0))) == (0, [KafkaStorageError.code])
    assert repeated == [None]
    world.nodes[0].files.mend()
    assert tell(order(state(0))) == (0, [0])
    assert (bills(world).is_leader, repeated) == (True, [None])


def test_versions_before_topic_ids_are_answered_by_name(world, tell):
    tell(order(state(0)))
    assert tell(order(state(1, leader_epoch=2), topic_id=ZERO_UUID), 4) == (0, [0])
    assert bills(world).leader_id == 1


def test_a_stopped_replica_stays_and_a_deleted_one_goes(world, tell):
    tell(order(state(1)))
    assert tell(stop(1, deletes=False)) == (0, [0])
    assert bills(world) is not None
    assert tell(stop(1)) == (0, [0])
    assert bills(world) is None
    assert world.nodes[0].logs.log(BILLS) is None
    assert tell(stop(1)) == (0, [0])  # again, because the first answer may have been lost


@pytest.mark.parametrize(("epoch", "code"), [(-2, 0), (-1, 0), (5, 0), (6, 0), (4, FencedLeaderEpoch.code)])
def test_a_stop_is_not_obeyed_when_we_know_of_a_newer_epoch(world, tell, epoch, code):
    tell(order(state(1, leader_epoch=5)))
    assert tell(stop(epoch)) == (0, [code])


def test_older_versions_of_stop_are_obeyed(world, tell):
    tell(order(state(1)))
    old = StopReplicaRequest(
        controller_id=0,
        controller_epoch=1,
        broker_epoch=1,
        delete_partitions=True,
        topics=[StopReplicaTopicV1(name="bills", partition_indexes=[0])],
    )
    assert tell(old, 2) == (0, [0])
    assert bills(world) is None


def test_who_waits_for_a_leader_is_told_when_it_leads_no_more(world):
    world.produce(0, "a")
    world.elect(1)
    world.obey(0)
    assert world.refused == [("a", NotLeaderOrFollower.code)]


def test_a_partition_that_leads_takes_nothing_from_the_leader_before(world, tell):
    """Between the steps of a long order a partition leads already, and its fetch loop has not heard of it."""
    tell(order(state(1)))
    replication = world.nodes[0].broker.link.replication
    (loop,) = [each for each in replication._loops.values() if BILLS in each.follower]
    replica = loop.follower._followed[BILLS].replica
    assert replica.is_following(1)
    (role,) = roles(order(state(0, leader_epoch=2)))
    bills(world).update_state(role.state, now_ms=0.0)
    assert not replica.is_following(1)
    with pytest.raises(FencedLeaderEpoch):
        replica.append(bytearray(61), 1)
