"""Where replicas are put: for any cluster and any topics."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.placement import placed
from ottla.values import TopicPartition


@st.composite
def cases(draw):
    """Where replicas are, the brokers that are allowed with their racks, and how many replicas are wanted."""
    before = draw(st.integers(1, 5))
    allowed = draw(st.lists(st.integers(0, 6), min_size=1, max_size=6, unique=True))
    racks = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=6, max_size=6))
    has_racks = draw(st.booleans())
    wanted = draw(st.integers(1, len(allowed)))
    replicas = st.lists(st.integers(0, before - 1), min_size=1, max_size=before, unique=True)
    current = {TopicPartition("t", number): draw(replicas) for number in range(draw(st.integers(1, 12)))}
    brokers = {each: racks[place] if has_racks else None for place, each in enumerate(allowed)}
    return current, brokers, wanted


@given(cases())
def test_every_partition_has_the_wanted_replicas_on_allowed_brokers(case):
    current, brokers, wanted = case
    for replicas in placed(current, brokers, wanted).values():
        assert len(replicas) == len(set(replicas)) == wanted
        assert set(replicas) <= set(brokers)


@given(cases())
def test_no_broker_has_two_more_than_another_when_there_are_no_racks(case):
    current, brokers, wanted = case
    load = Counter(dict.fromkeys(brokers, 0))
    for replicas in placed(current, dict.fromkeys(brokers), wanted).values():
        load.update(replicas)
    assert max(load.values()) - min(load.values()) <= 1


@given(cases())
def test_replicas_are_on_as_many_racks_as_there_can_be(case):
    current, brokers, wanted = case
    if all(brokers.values()) and all(not set(each) & set(brokers) for each in current.values()):
        most = min(wanted, len(set(brokers.values())))
        for replicas in placed(current, brokers, wanted).values():
            assert len({brokers[each] for each in replicas}) == most


@given(cases())
def test_what_is_placed_stays_when_it_is_placed_again(case):
    current, brokers, wanted = case
    once = placed(current, brokers, wanted)
    assert placed(once, brokers, wanted) == once


def test_replicas_that_can_stay_do_and_the_leader_is_still_first():
    current = {TopicPartition("t", number): [number % 3, (number + 1) % 3] for number in range(3)}
    grown = placed(current, dict.fromkeys(range(3)), 3)
    assert all(grown[each][:2] == current[each] for each in current)


def test_a_broker_that_goes_gives_its_replicas_to_the_others():
    current = {TopicPartition("t", number): [0, 1] for number in range(4)}
    moved = placed(current, {1: None, 2: None})
    assert all(set(replicas) == {1, 2} for replicas in moved.values())
    assert Counter(replicas[0] for replicas in moved.values()) == {1: 2, 2: 2}
