"""A member's view of the cluster: UpdateMetadata as changes of an image."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.cluster.metadata_view import LEADER_DURING_DELETE, changes_of
from ottla.cluster.changes import apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

CLICKS = b"clicks-has-an-id"
OTHER = b"another-topic-id"


def state(index, leader=1, epoch=0, replicas=(1, 2), version=0):
    return UpdateMetadataPartitionState(
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=list(replicas),
        zk_version=version,
        replicas=list(replicas),
    )


def topic(*states, name="clicks", topic_id=CLICKS):
    return UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=list(states))


def broker(broker_id, port=9092):
    endpoint = UpdateMetadataEndpoint(port=port, host=f"host-{broker_id}", listener="PLAINTEXT", security_protocol=0)
    return UpdateMetadataBroker(id=broker_id, endpoints=[endpoint], rack=None)


def request(*topics, brokers=(1, 2), controller_id=1, controller_epoch=1):
    return UpdateMetadataRequest(
        controller_id=controller_id,
        controller_epoch=controller_epoch,
        topic_states=list(topics),
        live_brokers=[broker(each) if isinstance(each, int) else each for each in brokers],
    )


def told(*requests):
    image = ClusterImage("cluster")
    for each in requests:
        image = apply_all(image, changes_of(image, each))
    return image


def test_brokers_topics_and_the_controller_become_known():
    image = told(request(topic(state(0), state(1, leader=2))))
    assert (image.controller_id, image.controller_epoch) == (1, 1)
    assert [each.id for each in image.active_brokers()] == [1, 2]
    assert [each.leader for each in image.topic("clicks").partitions] == [1, 2]
    assert image.topic("clicks").id == CLICKS


def test_who_is_not_on_the_list_is_gone_and_who_moved_is_found_elsewhere():
    image = told(request(), request(brokers=[broker(2, port=9999), 3]))
    assert sorted(image.brokers) == [2, 3]
    assert image.brokers.get(2).endpoints[0].port == 9999


def test_the_same_again_changes_nothing():
    image = told(request(topic(state(0))))
    assert changes_of(image, request(topic(state(0)))) == []


def test_partitions_change_and_are_added():
    image = told(request(topic(state(0))), request(topic(state(0, leader=2, epoch=1, version=1), state(1))))
    first, second = image.topic("clicks").partitions
    assert (first.leader, first.leader_epoch, first.partition_epoch, second.leader) == (2, 1, 1, 1)


def test_a_gap_is_filled_until_its_state_comes():
    image = told(request(topic(state(2))))
    assert [each.leader for each in image.topic("clicks").partitions] == [NO_LEADER, NO_LEADER, 1]
    image = apply_all(image, changes_of(image, request(topic(state(0), state(1)))))
    assert [each.leader for each in image.topic("clicks").partitions] == [1, 1, 1]


def test_a_topic_that_is_being_deleted_goes_when_all_of_it_goes():
    image = told(request(topic(state(0), state(1))))
    image = apply_all(image, changes_of(image, request(topic(state(0, leader=LEADER_DURING_DELETE)))))
    assert [each.leader for each in image.topic("clicks").partitions] == [NO_LEADER, 1]
    gone = request(topic(*(state(index, leader=LEADER_DURING_DELETE) for index in (0, 1))))
    image = apply_all(image, changes_of(image, gone))
    assert image.topic("clicks") is None
    assert changes_of(image, gone) == []


def test_another_id_under_a_known_name_is_another_topic():
    image = told(request(topic(state(0), state(1))), request(topic(state(0), topic_id=OTHER)))
    assert image.topic("clicks").id == OTHER
    assert len(image.topic("clicks").partitions) == 1


def test_old_requests_have_no_topics_to_group_by():
    old = request()
    for index in (0, 1):
        each = state(index)
        each.topic_name = "clicks"
        old.ungrouped_partition_states.append(each)
    assert len(told(old).topic("clicks").partitions) == 2


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3), st.integers(-2, 3), st.booleans()), max_size=4
        ),
        max_size=6,
    )
)
def test_any_requests_can_be_applied_and_leave_the_newest_word(requests):
    image = ClusterImage("cluster")
    for parts in requests:
        topics = [
            topic(state(index, leader), name=name, topic_id=(CLICKS if old else OTHER) if name == "a" else b"b" * 16)
            for name, index, leader, old in parts
        ]
        image = apply_all(image, changes_of(image, request(*topics)))
    if requests and requests[-1]:
        name, index, leader, _ = requests[-1][-1]
        found = image.partition(name, index)
        assert leader == LEADER_DURING_DELETE or found.leader == (leader if leader >= 0 else NO_LEADER)


def test_a_request_about_very_many_topics_is_read_in_one_pass():
    """Ten thousand topics, each of which once cost a look at all the others."""
    many = request(*(topic(state(0), name=f"t{n}", topic_id=n.to_bytes(16, "big")) for n in range(1, 10_001)))
    assert len(changes_of(ClusterImage("cluster"), many)) == 1 + 2 + 10_000
