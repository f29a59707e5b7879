"""What a topology needs: partitions of internal topics, statuses for topics that do not fit, errors for the rest."""

from __future__ import annotations

import pytest
from tests.unit.broker.coordinators.groups.streams.topologies import sub, topic, topology

from ottla.broker.coordinators.groups.streams.configuring import configure
from ottla.broker.coordinators.groups.streams.state import Status
from ottla.broker.coordinators.groups.streams.topology import (
    check_topology,
    record_of_request,
    topology_of_record,
)
from ottla.errors import StreamsInvalidTopology, StreamsInvalidTopologyEpoch


@pytest.fixture
def made(make_world):
    def make(*subtopologies, **topics):
        cluster = make_world().cluster
        cluster.known = {name: (bytes([index + 1]) * 16, each) for index, (name, each) in enumerate(topics.items())}
        known = topology_of_record(record_of_request(topology(*subtopologies)))
        return configure(known, 1, cluster)

    return make


def test_a_topology_on_topics_that_exist_is_ready_and_has_a_task_for_every_partition(made):
    found = made(sub("0", ["a", "b"]), sub("1", ["b"]), a=2, b=5)
    assert found.is_ready
    assert found.tasks == {"0": 5, "1": 5}
    assert not found.missing


def test_missing_source_topics_are_named_up_to_three(made):
    found = made(sub("0", ["a", "b", "c", "d", "e"]), a=1)
    assert found.problem.status is Status.MISSING_SOURCE_TOPICS
    assert found.problem.detail == "Source topics b, c, d and 1 additional topics are missing."
    assert not found.tasks
    assert not found.missing


def test_changelogs_get_as_many_partitions_as_their_subtopology_has_tasks(made):
    found = made(sub("0", ["a"], [topic("log", factor=2, cleanup_policy="compact")]), a=7)
    assert found.problem.status is Status.MISSING_INTERNAL_TOPICS
    assert found.problem.detail == "Internal topics are missing: log"
    made_topic = found.missing["log"]
    assert (made_topic.num_partitions, made_topic.replication_factor) == (7, 2)
    assert [(each.name, each.value) for each in made_topic.configs] == [("cleanup.policy", "compact")]


def test_a_replication_factor_of_zero_is_the_brokers_default(made):
    assert made(sub("0", ["a"], [topic("log")]), a=1).missing["log"].replication_factor == -1


def test_repartition_topics_get_the_partitions_of_the_largest_topic_that_feeds_them(made):
    chain = [
        sub("2", repartitions=[topic("second")], changelogs=[topic("log")]),
        sub("1", repartitions=[topic("first")], sinks=["second"]),
        sub("0", ["a", "b"], sinks=["first"]),
    ]
    found = made(*chain, a=3, b=6)
    assert found.partitions == {"first": 6, "second": 6, "log": 6}
    assert found.tasks == {"0": 6, "1": 6, "2": 6}


def test_a_repartition_topic_with_a_fixed_number_of_partitions_keeps_it(made):
    found = made(sub("0", ["a"], sinks=["r"]), sub("1", repartitions=[topic("r", 4)]), a=9)
    assert found.missing["r"].num_partitions == 4
    assert found.tasks == {"0": 9, "1": 4}


def test_topics_that_are_joined_must_have_equally_many_partitions(made):
    found = made(sub("0", ["a", "b"], joined=[([0, 1], [])]), a=2, b=3)
    assert found.problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert found.problem.detail == "Following topics do not have the same number of partitions: [{a=2, b=3}]"


def test_a_repartition_topic_follows_the_topic_that_it_is_joined_with(made):
    found = made(
        sub("0", ["a"], sinks=["r"]), sub("1", ["b"], repartitions=[topic("r")], joined=[([0], [0])]), a=9, b=4
    )
    assert found.partitions["r"] == 4
    assert found.tasks["1"] == 4


def test_joined_repartition_topics_all_get_the_largest_number(made):
    found = made(
        sub("0", ["a"], sinks=["r"]),
        sub("1", ["b"], sinks=["s"]),
        sub("2", repartitions=[topic("r"), topic("s")], joined=[([], [0, 1])]),
        a=9,
        b=4,
    )
    assert found.partitions == {"r": 9, "s": 9}


def test_a_free_repartition_topic_follows_a_fixed_one(made):
    found = made(
        sub("0", ["a"], sinks=["r", "s"]),
        sub("1", repartitions=[topic("r", 3), topic("s")], joined=[([], [0, 1])]),
        a=9,
    )
    assert found.partitions == {"r": 3, "s": 3}


def test_a_fixed_repartition_topic_that_does_not_fit_is_a_status(made):
    found = made(
        sub("0", ["a"], sinks=["r"]), sub("1", ["b"], repartitions=[topic("r", 3)], joined=[([0], [0])]), a=9, b=4
    )
    assert found.problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert "Number of partitions [3] of repartition topic [r] doesn't match" in found.problem.detail


def test_an_internal_topic_that_exists_with_another_number_of_partitions_is_a_status(made):
    found = made(sub("0", ["a"], [topic("log")]), a=2, log=3)
    assert found.problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert found.problem.detail == "Existing topic log has different number of partitions: expected 2, found 3"


@pytest.mark.parametrize(
    ("subtopologies", "why"),
    [
        ([sub("0", repartitions=[topic("r")], sinks=["r"])], "loops"),
        ([sub("0", ["a"], repartitions=[topic("r")])], "never used as a sink"),
        ([sub("0")], "No source topics"),
    ],
)
def test_a_topology_that_no_topics_could_help_is_an_error(made, subtopologies, why):
    with pytest.raises(StreamsInvalidTopology, match=why):
        made(*subtopologies, a=1)


@pytest.mark.parametrize(
    ("subtopologies", "why"),
    [
        ([sub("0", ["a"], [topic("log", 3)])], "Changelog topic log must have an undefined partition count"),
        ([sub("0", ["a"]), sub("0", ["b"])], "twice"),
        ([sub("0", ["a"], joined=[([1], [])])], "names a topic that it does not have"),
        ([sub("0", ["a"], joined=[([], [-1])])], "names a topic that it does not have"),
        ([sub("0", ["a"], repartitions=[topic("r", -1)])], "-1 partitions"),
    ],
)
def test_what_is_no_topology_is_an_error(subtopologies, why):
    with pytest.raises(StreamsInvalidTopology, match=why):
        check_topology(topology(*subtopologies))


def test_a_topology_epoch_is_not_negative():
    with pytest.raises(StreamsInvalidTopologyEpoch):
        check_topology(topology(epoch=-1))
