"""Who reads what in a share group: every partition has readers, every member something to read, and little moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.coordinators.groups.consumer.assignors import GroupSpec, MemberSpec
from ottla.broker.coordinators.groups.share.assignor import assign_simple

TOPICS = [bytes([number]) * 16 for number in range(3)]


def spec_of(members, counts, before=None):
    specs = {name: MemberSpec(frozenset(topics), (before or {}).get(name, {})) for name, topics in members.items()}
    wanted = {topic for topics in members.values() for topic in topics}
    return GroupSpec(specs, {topic: count for topic, count in counts.items() if topic in wanted})


def all_of(counts):
    return {topic: frozenset(range(count)) for topic, count in counts.items()}


def readers(targets):
    return Counter((topic, each) for target in targets.values() for topic, found in target.items() for each in found)


def sizes(targets):
    return [sum(map(len, target.values())) for target in targets.values()]


@settings(max_examples=60, deadline=None)
@given(
    members=st.dictionaries(st.sampled_from("abcdefg"), st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1),
    counts=st.fixed_dictionaries({topic: st.integers(1, 5) for topic in TOPICS}),
)
def test_every_partition_has_a_reader_and_every_member_something(members, counts):
    spec = spec_of(members, counts)
    targets = assign_simple(spec, all_of(counts))
    assert targets.keys() == members.keys()
    assert readers(targets).keys() == {(topic, each) for topic, n in spec.partition_counts.items() for each in range(n)}
    for name, target in targets.items():
        assert target.keys() <= members[name]
        assert target, "a member without anything to read"
    assert assign_simple(spec_of(members, counts, targets), all_of(counts)) == targets, "nothing moves without a reason"


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 12), names=st.sets(st.sampled_from("abcdefghijklm"), min_size=1))
def test_members_that_subscribe_alike_have_about_as_much(count, names):
    counts = {TOPICS[0]: count}
    targets = assign_simple(spec_of(dict.fromkeys(names, TOPICS[:1]), counts), all_of(counts))
    assert max(sizes(targets)) - min(sizes(targets)) <= 1
    shared = readers(targets).values()
    assert max(shared) - min(shared) <= 1


def test_a_newcomer_takes_and_a_leaver_leaves_little():
    counts = {TOPICS[0]: 6}
    first = assign_simple(spec_of(dict.fromkeys("ab", TOPICS[:1]), counts), all_of(counts))
    second = assign_simple(spec_of(dict.fromkeys("abc", TOPICS[:1]), counts, first), all_of(counts))
    assert all(second[name][TOPICS[0]] <= first[name][TOPICS[0]] for name in "ab")
    third = assign_simple(spec_of(dict.fromkeys("ab", TOPICS[:1]), counts, second), all_of(counts))
    assert all(second[name][TOPICS[0]] <= third[name][TOPICS[0]] for name in "ab")


def test_only_what_has_begun_is_assigned():
    counts = {TOPICS[0]: 4}
    spec = spec_of({"a": TOPICS[:1]}, counts)
    assert assign_simple(spec, {TOPICS[0]: frozenset({2})}) == {"a": {TOPICS[0]: frozenset({2})}}
    assert assign_simple(spec, {}) == {"a": {}}
