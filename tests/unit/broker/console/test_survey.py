"""What is counted over all partitions: right, once for all who ask, and never for long at a time."""

import asyncio

from ottla.broker.console.rates import Sample, rates_between
from ottla.broker.console.survey import NAMES_LIMIT, ClusterCounts, Survey, in_slices
from ottla.cluster.model import NO_LEADER, Partition, Topic


def topic(name, *partitions):
    made = [Partition(replicas, isr, leader) for replicas, isr, leader in partitions]
    return Topic(name=name, id=bytes(16), partitions=tuple(made))


def test_partitions_without_leaders_and_copies_are_counted_and_named():
    counts = ClusterCounts()
    counts.add(topic("whole", ((0, 1), (0, 1), 0), ((1, 0), (1, 0), 1)))
    counts.add(topic("short", ((0, 2), (0,), 0)))
    counts.add(topic("dark", ((2,), (2,), NO_LEADER)))
    assert (counts.topics, counts.partitions, counts.under_replicated, counts.without_leader) == (3, 4, 1, 1)
    assert (dict(counts.leads), dict(counts.behind)) == ({0: 2, 1: 1, NO_LEADER: 1}, {2: 1})
    assert counts.behind_names == [("short-0", [2])]
    assert counts.leaderless_names == ["dark-0"]
    assert (counts.single_copy, counts.single_copy_name) == (1, "dark")


def test_names_are_bounded_and_counts_are_not():
    counts = ClusterCounts()
    for number in range(2 * NAMES_LIMIT):
        counts.add(topic(f"t{number}", ((0, 1), (0,), 0)))
    assert (len(counts.behind_names), counts.under_replicated) == (NAMES_LIMIT, 2 * NAMES_LIMIT)


def test_everybody_else_has_a_turn_between_slices():
    async def scenario():
        seen = []

        async def walk():
            async for number in in_slices(range(6), 2):
                seen.append(number)

        walking = asyncio.create_task(walk())
        while not walking.done():
            await asyncio.sleep(0)
            seen.append("other")
        return seen

    seen = asyncio.run(scenario())
    assert [each for each in seen if each != "other"] == list(range(6))
    assert max(len(run) for run in "".join("o" if each == "other" else "w" for each in seen).split("o")) <= 2


def test_rates_are_differences_of_samples():
    was = Sample(1_000, 10, 100, 0, 5, 2, 8.0, 1, 3.0)
    now = Sample(3_000, 30, 500, 0, 9, 4, 18.0, 1, 3.0)
    rates = rates_between(was, now)
    assert (rates.at_ms, rates.messages_in, rates.bytes_in, rates.produce_ms, rates.sync_ms) == (3_000, 10, 200, 5, 0)


def test_the_cluster_is_counted_when_it_changed_and_copies_now_and_then(make_broker):
    made = make_broker()
    survey = Survey(made.broker)

    def counted():
        return made.loop.run_until_complete(survey.cluster()), made.loop.run_until_complete(survey.copies())

    made.create_topic("one", 3)
    cluster, copies = counted()
    assert (cluster.partitions, sum(copies.counts.values())) == (3, 3)
    assert [each is other for each, other in zip(counted(), (cluster, copies), strict=True)] == [True, True]
    made.create_topic("two", 2)
    made.later(2)
    assert [each is other for each, other in zip(counted(), (cluster, copies), strict=True)] == [False, True]
    made.later(1)
    assert sum(counted()[1].counts.values()) == 5
