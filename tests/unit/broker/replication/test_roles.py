"""Roles that are read off an image, and what becomes of them in a broker that is one of many.

The property at the end is the whole promise: whatever images follow each other, and whether each is compared as a whole
or by the topics that changed, afterwards the broker has exactly what the newest image gives it.
"""

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.replication.manager import ReplicaManager
from ottla.broker.replication.roles import NoRole, Role, image_roles
from ottla.broker.requests.pacing import Pacing
from ottla.cluster.changes import CreateTopic, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER, Partition, Topic
from ottla.errors import KafkaStorageError
from ottla.storage.directory.manager import LogManager
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

CLUSTER = "roles"
ME = 1


def image_of(*topics):
    return apply_all(ClusterImage(CLUSTER), [CreateTopic(topic) for topic in topics])


def topic(name, *partitions, topic_id=None):
    return Topic(name, topic_id or name.encode().ljust(16, b"-"), partitions)


def partition(leader=ME, replicas=(ME, 2), isr=None, leader_epoch=0):
    return Partition(replicas, replicas if isr is None else isr, leader, leader_epoch=leader_epoch)


class Node:
    """The replicas of broker 1 and their logs, in memory."""

    def __init__(self):
        self.files = MemoryFiles(seed=1)
        defaults = TopicSettings()
        self.logs = LogManager(
            [Path("/data")], files=self.files, default_settings=defaults, cluster_id=CLUSTER, broker_id=ME
        )
        self.logs.open(0)
        self.replicas = ReplicaManager(ME, self.logs, settings_of=lambda image, name: defaults)

    def apply(self, image, topics=None):
        roles = image_roles(image, topics, list(self.replicas), ME)
        return self.apply_roles(roles, image, are_orders=False)

    def apply_roles(self, roles, image, *, are_orders):
        with Pacing(lambda: 0.0, None).turn() as pace:
            return asyncio.run(self.replicas.apply_roles(roles, image, 0, pace, are_orders=are_orders))

    def has(self):
        return {held.name: (held.topic_id, held.state) for held in self.replicas}


def named(moves):
    return [
        [held.name for held in moves.new_leaders],
        [held.name for held in moves.followers],
        moves.removed,
    ]


A0, A1, A2 = (TopicPartition("a", index) for index in range(3))


def test_what_is_ours_is_led_or_followed_and_what_is_not_goes():
    image = image_of(topic("a", partition(), partition(leader=2), partition(leader=2, replicas=(2, 3))))
    held = [Role(A2, b"a".ljust(16, b"-"), partition()), Role(TopicPartition("gone", 0), b"g" * 16, partition())]
    roles = list(image_roles(image, None, held, ME))
    assert [type(role) for role in roles] == [NoRole, NoRole, Role, Role]
    assert [role.name for role in roles] == [A2, TopicPartition("gone", 0), A0, A1]


def test_topics_that_did_not_change_are_not_looked_at():
    image = image_of(topic("a", partition()), topic("b", partition()))
    held = [Role(TopicPartition("gone", 0), b"g" * 16, partition())]
    assert [role.name for role in image_roles(image, {"b"}, held, ME)] == [TopicPartition("b", 0)]


def test_leaders_are_made_before_followers_and_told_apart():
    node = Node()
    moves = node.apply(image_of(topic("a", partition(leader=2), partition(), partition(leader=NO_LEADER))))
    assert named(moves) == [[A1], [A0, A2], []]
    assert list(node.has()) == [A1, A0, A2]


def test_only_a_new_leader_epoch_is_a_move():
    node = Node()
    node.apply(image_of(topic("a", partition(), partition(leader=2))))
    moves = node.apply(image_of(topic("a", partition(isr=(ME,)), partition(leader=2, isr=(2,)))))
    assert named(moves) == [[], [], []]
    assert node.replicas.get(A0).state.isr == (ME,)
    moves = node.apply(image_of(topic("a", partition(leader=2, leader_epoch=1), partition(leader_epoch=1))))
    assert named(moves) == [[A1], [A0], []]


def test_a_topic_that_was_made_again_is_another_one():
    node = Node()
    node.apply(image_of(topic("a", partition(leader_epoch=7))))
    moves = node.apply(image_of(topic("a", partition(), topic_id=b"z" * 16)))
    assert named(moves) == [[A0], [], [A0]]
    assert node.has() == {A0: (b"z" * 16, partition())}


def test_one_log_that_cannot_be_made_leaves_the_others():
    node = Node()
    node.files.fill(free_bytes=0)
    image = image_of(topic("a", partition()), topic("b", partition()))
    moves = node.apply(image)
    assert {name.topic for name in moves.refused} == set(moves.unmade) == {"a", "b"}
    assert all(isinstance(error, KafkaStorageError) for error in moves.refused.values())
    node.files.mend()
    assert len(node.apply(image, set(moves.unmade)).new_leaders) == 2


def test_an_order_is_no_truth_and_an_image_is():
    node = Node()
    image = image_of(topic("a", partition(leader_epoch=5)))
    node.apply(image)
    late = Role(A0, topic("a").id, partition(leader=2, leader_epoch=4))
    assert list(node.apply_roles([late], image, are_orders=True).refused) == [A0]
    assert list(node.apply_roles([late._replace(topic_id=b"z" * 16)], image, are_orders=True).refused) == [A0]
    assert node.has() == {A0: (topic("a").id, partition(leader_epoch=5))}
    assert not node.apply_roles([late], image, are_orders=False).refused
    assert node.has() == {A0: (topic("a").id, partition(leader=2, leader_epoch=4))}


states = st.builds(
    partition,
    leader=st.sampled_from([ME, 2, NO_LEADER]),
    replicas=st.sampled_from([(ME, 2), (2, ME), (2, 3), (ME,)]),
    leader_epoch=st.integers(0, 3),
)
topics = st.builds(
    lambda name, made, number: topic(name, *made, topic_id=name.encode() * 15 + bytes([number])),
    st.sampled_from("abc"),
    st.lists(states, min_size=1, max_size=3),
    st.integers(0, 1),
)
images = st.lists(topics, max_size=3, unique_by=lambda made: made.name).map(lambda made: image_of(*made))


@given(st.lists(st.tuples(images, st.booleans()), max_size=5))
def test_afterwards_a_broker_has_what_the_image_gives_it(steps):
    node, before = Node(), image_of()
    for image, compares_all in steps:
        changed = {name for name in "abc" if before.topic(name) != image.topic(name)}
        moves = node.apply(image, None if compares_all else changed)
        assert not moves.refused
        assert node.has() == {
            TopicPartition(name, index): (image.topic(name).id, state)
            for name in image.topics()
            for index, state in enumerate(image.topic(name).partitions)
            if ME in state.replicas
        }
        assert all(held.leader_id == ME for held in moves.new_leaders)
        assert all(held.leader_id != ME for held in moves.followers)
        before = image
    assert {log.topic_partition for log in node.logs.logs()} == set(node.has())
