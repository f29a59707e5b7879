"""Assignors: what Kafka's give where they are deterministic, and what must be true of every assignment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.membership.assignors import (
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    common_protocol,
    in_order,
)
from ottla.client.consumer.membership.decisions import TopicView
from ottla.client.consumer.membership.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.client.consumer.membership.strategies import BUILT_IN, find_assignors
from ottla.client.consumer.membership.subscriptions import (
    MemberSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from ottla.errors import InvalidSetting, MalformedMessage
from ottla.values import TopicPartition

RACKS = ["rack0", "rack1", "rack2"]


def view(racks=(), factor=1, **topics):
    """Replicas are laid out one broker further for each partition, over all topics, one broker per rack."""
    result, place = {}, 0
    for name, count in sorted(topics.items()):
        spread = tuple(
            frozenset(racks[(place + index + copy) % len(racks)] for copy in range(factor)) if racks else frozenset()
            for index in range(count)
        )
        result[name] = TopicView(spread)
        place += count
    return result


def wants(*topics, **how):
    return MemberSubscription(frozenset(topics), **how)


def text(assignment):
    return [", ".join(sorted(str(each) for each in found)) for _, found in sorted(assignment.items())]


def named(partitions):
    found = [each.rpartition("-") for each in partitions.split(", ") if each]
    return frozenset(TopicPartition(topic, int(index)) for topic, _, index in found)


# --- range and round robin: known answers of Kafka's -----------------------------------------------------------------


def test_range_gives_neighbouring_partitions_of_each_topic():
    members = {"C0": wants("t0", "t1"), "C1": wants("t0", "t1")}
    assert text(RangeAssignor().assign(view(t0=3, t1=3), members)) == ["t0-0, t0-1, t1-0, t1-1", "t0-2, t1-2"]


def test_round_robin_deals_all_topics_in_one_row():
    members = {"C0": wants("t0", "t1"), "C1": wants("t0", "t1")}
    assert text(RoundRobinAssignor().assign(view(t0=3, t1=3), members)) == ["t0-0, t0-2, t1-1", "t0-1, t1-0, t1-2"]


def test_round_robin_skips_members_that_do_not_want_the_topic():
    members = {"C0": wants("t0"), "C1": wants("t0", "t1"), "C2": wants("t0", "t1", "t2")}
    assert text(RoundRobinAssignor().assign(view(t0=1, t1=2, t2=3), members)) == [
        "t0-0",
        "t1-0",
        "t1-1, t2-0, t2-1, t2-2",
    ]


def test_static_members_come_first_in_the_order_of_their_instance_ids():
    members = {
        "a": wants("t"),
        "b": wants("t", group_instance_id="y"),
        "c": wants("t", group_instance_id="x"),
    }
    assert in_order(members) == ["c", "b", "a"]
    assert text(RangeAssignor().assign(view(t=3), members)) == ["t-2", "t-1", "t-0"]


ALL3 = ("t1", "t2", "t3")
ALL4 = ("t1", "t2", "t3", "t4")
UNEVEN = {"t1": 6, "t2": 7, "t3": 2}
EVEN = {"t1": 5, "t2": 5, "t3": 5}
PAIRS = {"t1": 6, "t2": 6, "t3": 2, "t4": 2}
CROSSED = [RACKS[0], RACKS[1], RACKS[1], RACKS[0]]


@pytest.mark.parametrize(
    ("topics", "factor", "brokers", "racks", "wanted", "expected"),
    [
        (
            UNEVEN,
            1,
            RACKS,
            RACKS,
            [ALL3, ALL3, ALL3],
            [
                "t1-0, t1-3, t2-0, t2-3, t2-6",
                "t1-1, t1-4, t2-1, t2-4, t3-0",
                "t1-2, t1-5, t2-2, t2-5, t3-1",
            ],
        ),
        (
            UNEVEN,
            2,
            RACKS,
            RACKS,
            [ALL3, ALL3, ALL3],
            [
                "t1-0, t1-2, t2-0, t2-2, t2-3, t3-1",
                "t1-1, t1-3, t2-1, t2-4, t3-0",
                "t1-4, t1-5, t2-5, t2-6",
            ],
        ),
        (
            UNEVEN,
            1,
            RACKS,
            RACKS,
            [ALL3, ALL3, ("t1", "t3")],
            [
                "t1-0, t1-3, t2-0, t2-2, t2-3, t2-6",
                "t1-1, t1-4, t2-1, t2-4, t2-5, t3-0",
                "t1-2, t1-5, t3-1",
            ],
        ),
        (
            EVEN,
            1,
            RACKS,
            RACKS,
            [ALL3, ALL3, ALL3],
            [
                "t1-0, t1-1, t2-0, t2-1, t3-0, t3-1",
                "t1-2, t1-3, t2-2, t2-3, t3-2, t3-3",
                "t1-4, t2-4, t3-4",
            ],
        ),
        (
            EVEN,
            2,
            RACKS,
            RACKS,
            [ALL3, ALL3, ("t1", "t3")],
            ["t1-2, t2-0, t2-1, t2-3, t3-2", "t1-0, t1-3, t2-2, t2-4, t3-0, t3-3", "t1-1, t1-4, t3-1, t3-4"],
        ),
        (
            PAIRS,
            1,
            RACKS[:2],
            CROSSED,
            [("t1", "t2"), ("t1", "t2"), ("t3", "t4"), ("t3", "t4")],
            [
                "t1-0, t1-2, t1-4, t2-0, t2-2, t2-4",
                "t1-1, t1-3, t1-5, t2-1, t2-3, t2-5",
                "t3-1, t4-1",
                "t3-0, t4-0",
            ],
        ),
        (
            PAIRS,
            1,
            RACKS,
            CROSSED,
            [ALL4, ALL4, ALL4, ALL4],
            [
                "t1-0, t1-3, t2-0, t2-3, t3-0, t4-0",
                "t1-1, t1-4, t2-1, t2-4, t3-1, t4-1",
                "t1-2, t2-2",
                "t1-5, t2-5",
            ],
        ),
    ],
)
def test_range_prefers_near_replicas_exactly_as_kafka_does(topics, factor, brokers, racks, wanted, expected):
    members = {f"consumer{index}": wants(*wanted[index], rack=rack) for index, rack in enumerate(racks)}
    assert text(RangeAssignor().assign(view(brokers, factor, **topics), members)) == expected


def test_racks_change_nothing_when_every_rack_has_everything():
    members = {f"consumer{index}": wants("t", rack=rack) for index, rack in enumerate(RACKS)}
    assert text(RangeAssignor().assign(view(RACKS, 3, t=6), members)) == ["t-0, t-1", "t-2, t-3", "t-4, t-5"]


# --- every assignor --------------------------------------------------------------------------------------------------

topic_counts = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 7), max_size=4)
subscriptions = st.frozensets(st.sampled_from(["a", "b", "c", "d", "missing"]), max_size=4)


@st.composite
def groups(draw, same_topics=False):
    counts = draw(topic_counts)
    names = draw(st.lists(st.sampled_from("mnopqr"), min_size=1, max_size=5, unique=True))
    shared = draw(subscriptions)
    racks = st.sampled_from([None, *RACKS])
    members = {
        name: MemberSubscription(shared if same_topics else draw(subscriptions), rack=draw(racks)) for name in names
    }
    return view(RACKS, draw(st.integers(1, 3)), **counts), members


def check_valid(cluster, members, assignment):
    assert set(assignment) == set(members)
    given_out = [partition for found in assignment.values() for partition in found]
    assert len(given_out) == len(set(given_out))
    wanted = {topic for member in members.values() for topic in member.topics}
    expected = {
        TopicPartition(name, index)
        for name, topic in cluster.items()
        if name in wanted
        for index in range(topic.partition_count)
    }
    assert set(given_out) == expected
    for name, found in assignment.items():
        assert {partition.topic for partition in found} <= members[name].topics


def check_even(members, assignment):
    """Nobody who could have a partition has two less than the one who has it."""
    for found in assignment.values():
        for partition in found:
            for other, member in members.items():
                if partition.topic in member.topics:
                    assert len(assignment[other]) >= len(found) - 1


@pytest.mark.parametrize("name", sorted(BUILT_IN))
@given(group=groups())
def test_every_partition_goes_to_exactly_one_member_that_wants_it(name, group):
    check_valid(*group, BUILT_IN[name].assign(*group))


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@given(group=groups())
def test_sticky_assignments_are_even(name, group):
    check_even(group[1], BUILT_IN[name].assign(*group))


@pytest.mark.parametrize("name", ["roundrobin", "sticky", "cooperative-sticky"])
@given(group=groups(same_topics=True))
def test_members_that_want_the_same_get_the_same_number_or_one_more(name, group):
    sizes = [len(found) for found in BUILT_IN[name].assign(*group).values()]
    assert max(sizes) - min(sizes) <= 1


def claiming(members, assignment, generation):
    """The same members as they join again: with what they have (cooperative) or had (sticky)."""
    return {
        name: MemberSubscription(
            member.topics,
            owned=frozenset(assignment.get(name, ())),
            generation=generation,
            user_data=StickyAssignor().user_data(member.topics, frozenset(assignment.get(name, ())), generation),
        )
        for name, member in members.items()
    }


@pytest.mark.parametrize("assignor", [StickyAssignor(), CooperativeStickyAssignor()])
@given(group=groups())
def test_nothing_moves_when_nothing_changed(assignor, group):
    cluster, members = group
    first = assignor.assign(cluster, members)
    again = assignor.assign(cluster, claiming(members, first, 1))
    assert {name: set(found) for name, found in again.items()} == {name: set(found) for name, found in first.items()}


@given(group=groups(same_topics=True))
def test_only_what_must_move_moves_when_a_member_comes(group):
    cluster, members = group
    first = StickyAssignor().assign(cluster, members)
    more = claiming(members, first, 1) | {"z": next(iter(members.values()))}
    second = StickyAssignor().assign(cluster, more)
    check_valid(cluster, more, second)
    check_even(more, second)
    for name in members:
        assert set(second[name]) <= set(first[name])


@given(group=groups(), data=st.data())
def test_what_moves_is_given_to_nobody_before_its_owner_gave_it_up(group, data):
    cluster, members = group
    assignor = CooperativeStickyAssignor()
    owned = assignor.assign(cluster, members)
    changed = {
        name: MemberSubscription(data.draw(subscriptions)) if data.draw(st.booleans()) else member
        for name, member in members.items()
    }
    for generation in range(1, 4):
        round_members = claiming(changed, owned, generation)
        result = assignor.assign(cluster, round_members)
        for name, found in result.items():
            for partition in set(found) - round_members[name].owned:
                assert not any(partition in other.owned for other in round_members.values())
        owned = result
    check_valid(cluster, changed, owned)
    check_even(changed, owned)


def test_an_older_claim_gives_way_to_a_newer_one():
    old = wants("t", owned=named("t-0, t-1"), generation=3)
    new = wants("t", owned=named("t-1"), generation=5)
    result = CooperativeStickyAssignor().assign(view(t=2), {"old": old, "new": new})
    assert result == {"old": [TopicPartition("t", 0)], "new": [TopicPartition("t", 1)]}


def test_two_claims_of_one_generation_are_both_doubted():
    members = {name: wants("t", owned=named("t-0"), generation=3) for name in ("a", "b")}
    result = CooperativeStickyAssignor().assign(view(t=1), members)
    assert sum(len(found) for found in result.values()) <= 1


def test_the_generation_of_old_cooperative_members_is_read_from_their_user_data():
    old = wants("t", owned=named("t-0"), user_data=(9).to_bytes(4, "big"))
    older = wants("t", owned=named("t-0, t-1"), user_data=(2).to_bytes(4, "big"))
    result = CooperativeStickyAssignor().assign(view(t=2), {"old": old, "older": older})
    assert result == {"old": [TopicPartition("t", 0)], "older": [TopicPartition("t", 1)]}


def test_sticky_user_data_is_byte_for_byte_kafkas():
    data = StickyAssignor().user_data(frozenset({"t"}), named("t-0, t-2"), 7)
    assert data.hex() == "0000000100017400000002000000000000000200000007"
    assert StickyAssignor().claim(wants("t", user_data=data)) == (named("t-0, t-2"), 7)
    assert StickyAssignor().claim(wants("t", user_data=data[:-4])) == (named("t-0, t-2"), -1)
    assert StickyAssignor().claim(wants("t", user_data=b"\xff")) == (frozenset(), -1)


def test_cooperative_user_data_is_the_generation():
    assert CooperativeStickyAssignor().user_data(frozenset(), frozenset(), 258) == b"\0\0\1\2"


# --- names and bytes -------------------------------------------------------------------------------------------------


def test_a_member_is_cooperative_only_when_all_its_strategies_are():
    assert common_protocol(find_assignors(["cooperative-sticky"], {})) is RebalanceProtocol.COOPERATIVE
    assert common_protocol(find_assignors(["range", "cooperative-sticky"], {})) is RebalanceProtocol.EAGER
    with pytest.raises(InvalidSetting):
        find_assignors([], {})


def test_the_names_of_other_clients_are_understood():
    names = ["org.apache.kafka.clients.consumer.StickyAssignor", "cooperative_sticky", "roundrobin", "range"]
    assert [each.name for each in find_assignors(names, {})] == ["sticky", "cooperative-sticky", "roundrobin", "range"]


def test_a_subscription_is_byte_for_byte_kafkas():
    member = MemberSubscription(frozenset({"t"}), named("t-1"), 5, "r", b"u")
    expected = "000300000001000174000000017500000001000174000000010000000100000005000172"
    assert write_subscription(member).hex() == expected
    assert read_subscription(write_subscription(member)) == member


@given(
    owned=st.frozensets(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 9))),
    generation=st.integers(-1, 9),
    rack=st.none() | st.text(min_size=1, max_size=3),
    topics=st.frozensets(st.text(max_size=5)),
    newer=st.binary(max_size=8),
)
def test_subscriptions_and_assignments_come_back_even_with_fields_of_newer_versions(
    owned, generation, rack, topics, newer
):
    member = MemberSubscription(topics, owned, generation, rack)
    written = write_subscription(member)
    assert read_subscription(b"\0\7" + written[2:] + newer) == member
    assert read_assignment(write_assignment(owned) + newer) == owned


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\3\0"])
def test_bytes_that_are_no_assignment_are_refused(data):
    with pytest.raises(MalformedMessage):
        read_assignment(data)
