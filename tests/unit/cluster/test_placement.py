"""Where replicas go."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.changes import CreateTopic, RegisterBroker, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, Broker, Partition, Topic
from ottla.cluster.placement import default_directory, moved_replicas, new_partition, place
from ottla.errors import InvalidReplicationFactor
from ottla.values import uuid_to_text


def cluster(*brokers: Broker) -> ClusterImage:
    return apply_all(ClusterImage("c"), [RegisterBroker(each) for each in brokers])


def a_cluster(racks: list[str | None], fenced: list[bool]) -> ClusterImage:
    return cluster(
        *(Broker(n, (), rack=rack, fenced=out) for n, (rack, out) in enumerate(zip(racks, fenced, strict=True)))
    )


shapes = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9).filter(
    lambda shape: not all(fenced for _, fenced in shape)
)


@given(shapes, st.integers(1, 40), st.integers(0, 99), st.data())
def test_replicas_are_on_different_brokers_and_spread_over_racks(
    shape: list[tuple[str | None, bool]], partitions: int, seed: int, data: st.DataObject
) -> None:
    image = a_cluster([rack for rack, _ in shape], [fenced for _, fenced in shape])
    factor = data.draw(st.integers(1, len(shape)))
    placed = place(image, partitions, factor, Random(seed))
    assert len(placed) == partitions
    racks = {rack for rack, _ in shape}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert not image.brokers[replicas[0]].fenced
        assert len({image.brokers[each].rack for each in replicas}) >= min(factor, len(racks)) - 1
    assert placed == place(image, partitions, factor, Random(seed))


@given(st.integers(1, 8), st.integers(1, 3), st.integers(0, 99))
def test_leaders_are_spread_evenly_over_equal_brokers(count: int, rounds: int, seed: int) -> None:
    image = a_cluster([None] * count, [False] * count)
    leaders = Counter(replicas[0] for replicas in place(image, count * rounds, 1, Random(seed)))
    assert max(leaders.values()) - min(leaders.values()) <= (0 if rounds == 1 else rounds)
    assert len(leaders) == count


def test_every_rack_gets_a_replica_when_there_are_enough() -> None:
    image = a_cluster(["a", "a", "b", "b", "c", "c"], [False] * 6)
    for replicas in place(image, 30, 3, Random(5)):
        assert {image.brokers[each].rack for each in replicas} == {"a", "b", "c"}


def test_fenced_brokers_are_taken_last() -> None:
    image = a_cluster([None] * 3, [False, True, False])
    assert all(1 not in replicas for replicas in place(image, 10, 2, Random(1)))
    assert all(replicas[2] == 1 for replicas in place(image, 10, 3, Random(1)))


def test_too_few_brokers_are_told_with_how_many_live() -> None:
    with pytest.raises(InvalidReplicationFactor, match="3 replicas need 3 brokers, but only 2 are registered and 1"):
        place(a_cluster([None] * 2, [False, True]), 1, 3, Random(1))
    with pytest.raises(InvalidReplicationFactor, match="all brokers are currently fenced"):
        place(a_cluster([None], [True]), 1, 1, Random(1))
    with pytest.raises(InvalidReplicationFactor, match="at least 1"):
        place(a_cluster([None], [False]), 1, 0, Random(1))


def test_one_broker_is_told_as_one() -> None:
    with pytest.raises(InvalidReplicationFactor, match="but only 1 is registered and 1 of them alive"):
        place(a_cluster([None], [False]), 1, 3, Random(1))


def test_a_single_directory_is_known_before_the_broker_tells() -> None:
    image = cluster(Broker(1, (), directories=(b"\1" * 16,)), Broker(2, (), directories=(b"\2" * 16, b"\3" * 16)))
    assert default_directory(image, 1) == b"\1" * 16
    assert default_directory(image, 2) == UNASSIGNED_DIRECTORY


def test_the_ids_that_are_no_directorys_are_kafkas() -> None:
    assert [uuid_to_text(each) for each in (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY)] == [
        "AAAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAAQ",
        "AAAAAAAAAAAAAAAAAAAAAg",
    ]
    assert default_directory(cluster(Broker(1, ())), 1) == MIGRATING_DIRECTORY, "it has named none"


def test_a_broker_that_shuts_down_gets_no_leadership() -> None:
    image = cluster(Broker(1, (), in_controlled_shutdown=True), Broker(2, ()))
    partition = new_partition(image, (1, 2))
    assert partition is not None
    assert (partition.leader, partition.isr) == (2, (2,))
    assert new_partition(image, (1,)) is None


def test_the_directory_of_ones_own_replica_is_told_where_it_is_another() -> None:
    here, there = b"h" * 16, b"t" * 16
    partitions = (
        Partition((1, 2), (1, 2), 1, directories=(there, UNASSIGNED_DIRECTORY)),
        Partition((2, 1), (2, 1), 2, directories=(here, there)),
        Partition((1,), (1,), 1),
    )
    image = apply_all(ClusterImage("c"), [CreateTopic(Topic("t", b"i" * 16, partitions))])
    moved = {change.index: change.partition for change in moved_replicas(image, 2, lambda name: here)}
    assert {index: partition.directories for index, partition in moved.items()} == {0: (there, here)}
    assert moved[0].partition_epoch == 1
    assert not list(moved_replicas(image, 2, lambda name: None)), "nobody knows"
