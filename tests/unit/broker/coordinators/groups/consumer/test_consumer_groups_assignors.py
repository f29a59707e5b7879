"""What every assignor promises, and what each promises beyond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinators.groups.consumer.assignors import (
    ASSIGNORS,
    GroupSpec,
    MemberSpec,
    assign_range,
    assign_uniform,
)

TOPICS = [bytes([number]) * 16 for number in range(1, 5)]
NAMES = "abcdefg"

counts = st.fixed_dictionaries(dict.fromkeys(TOPICS, st.integers(0, 9)))
wishes = st.dictionaries(st.sampled_from(NAMES), st.frozensets(st.sampled_from(TOPICS)), max_size=7)


def spec(members, counts, targets=None):
    return GroupSpec(
        {name: MemberSpec(frozenset(topics), (targets or {}).get(name, {})) for name, topics in members.items()}, counts
    )


def alike(names, counts, targets=None):
    return spec(dict.fromkeys(names, frozenset(TOPICS)), counts, targets)


def flat(target):
    return {(topic, index) for topic, indexes in target.items() for index in indexes}


def sizes(targets):
    return {name: len(flat(target)) for name, target in targets.items()}


@given(wishes, wishes, counts, st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_goes_to_one_member_that_wants_it(before, after, counts, name):
    assign = ASSIGNORS[name]
    targets = assign(spec(after, counts, assign(spec(before, counts))))
    assert targets.keys() == after.keys()
    given_out = [each for target in targets.values() for each in flat(target)]
    wanted = {topic for topics in after.values() for topic in topics}
    assert sorted(given_out) == sorted((topic, index) for topic in wanted for index in range(counts[topic]))
    assert all(target.keys() <= after[member] for member, target in targets.items())
    assert all(indexes for target in targets.values() for indexes in target.values())


@given(wishes, counts, st.sampled_from(sorted(ASSIGNORS)))
def test_an_assignment_is_settled_by_the_first_time(members, counts, name):
    assign = ASSIGNORS[name]
    once = assign(spec(members, counts))
    assert assign(spec(members, counts, once)) == once


@given(st.sets(st.sampled_from(NAMES), min_size=1), st.sets(st.sampled_from(NAMES), min_size=1), counts)
def test_uniform_differs_by_one_at_most_and_moves_no_more_than_it_must(before, after, counts):
    old = assign_uniform(alike(before, counts))
    new = assign_uniform(alike(after, counts, old))
    loads = sizes(new)
    assert max(loads.values()) - min(loads.values()) <= 1
    least, more = divmod(sum(counts.values()), len(after))
    stays = sorted((len(flat(old[name])) for name in after & before), reverse=True)
    quotas = [least + 1] * more + [least] * (len(after) - more)
    could_stay = sum(min(has, quota) for has, quota in zip(stays, quotas, strict=False))
    did_stay = sum(len(flat(old[name]) & flat(new[name])) for name in after & before)
    assert did_stay == could_stay


@given(wishes, wishes, counts)
def test_uniform_leaves_nothing_that_one_move_would_better(before, after, counts):
    targets = assign_uniform(spec(after, counts, assign_uniform(spec(before, counts))))
    loads = sizes(targets)
    for member, target in targets.items():
        for topic in target:
            readers = [name for name, topics in after.items() if topic in topics]
            assert loads[member] - min(loads[name] for name in readers) <= 1


def test_uniform_takes_from_nobody_when_members_leave():
    counts = {TOPICS[0]: 6}
    members = dict.fromkeys("abc", frozenset(TOPICS[:1]))
    old = assign_uniform(spec(members, counts))
    new = assign_uniform(spec({"a": members["a"], "c": members["c"]}, counts, old))
    assert flat(old["a"]) <= flat(new["a"])
    assert flat(old["c"]) <= flat(new["c"])


@given(st.sets(st.sampled_from(NAMES), min_size=1), counts)
def test_range_gives_neighbours_in_the_order_of_members(names, counts):
    targets = assign_range(alike(names, counts))
    for topic, count in counts.items():
        in_order = [index for name in sorted(names) for index in sorted(targets[name].get(topic, ()))]
        assert in_order == list(range(count))


def test_range_puts_static_members_first():
    members = {
        "a": MemberSpec(frozenset(TOPICS[:1]), {}),
        "z": MemberSpec(frozenset(TOPICS[:1]), {}, "static"),
    }
    targets = assign_range(GroupSpec(members, {TOPICS[0]: 3}))
    assert targets == {"z": {TOPICS[0]: frozenset({0, 1})}, "a": {TOPICS[0]: frozenset({2})}}


def test_a_topic_without_partitions_is_nobodys():
    for assign in ASSIGNORS.values():
        assert assign(spec({"a": TOPICS[:1]}, {TOPICS[0]: 0})) == {"a": {}}
        assert assign(GroupSpec({}, {})) == {}
