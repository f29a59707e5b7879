"""Real brokers in processes of their own on a real ZooKeeper, and what is done to them under load."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count

import pytest
from tests.cluster.share_work import STATE, ShareWork, begin_at_the_start
from tests.histories.loads import FollowingLoad, SendingLoad, final_read
from tests.patience import HANG_S

import ottla
from ottla.client.admin.topics import PartitionDescription
from ottla.errors import UnknownTopicOrPartition
from ottla.light_dataclasses import replace
from ottla.simulation.checker import check as check_history
from ottla.simulation.real.recording import SharedHistory
from ottla.testing.promises import GroupReading, NumberedLoad, read_numbers
from ottla.testing.zookeeper import ZooKeeperServer, missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from ottla.cli.lab_cluster import LabCluster

PARTITIONS = 3
SESSION_S = 3.0
SETTINGS = {
    "zookeeper.session.timeout.ms": int(SESSION_S * 1000),
    "replica.lag.time.max.ms": 3_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.num.partitions": 2,
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    directory = tmp_path_factory.mktemp("lab")
    with LabCluster(directory, settings=SETTINGS, zookeeper=ZooKeeperServer(directory / "zookeeper")) as lab:
        with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic("clicks", PARTITIONS, 3)], timeout=HANG_S)
        yield lab


def partitions_of(lab: LabCluster, topic: str) -> Sequence[PartitionDescription]:
    """As soon as the broker that is asked knows the topic: one that was just started hears of it a moment later."""
    end = time.monotonic() + HANG_S
    with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
        while time.monotonic() < end:
            with contextlib.suppress(UnknownTopicOrPartition):
                return admin.describe_topics([topic], timeout=HANG_S)[topic].partitions
            time.sleep(0.05)
    raise AssertionError(f"nobody knows {topic}")


def leader_of(lab: LabCluster, topic: str, partition: int = 0) -> int:
    found = partitions_of(lab, topic)[partition].leader
    assert found is not None
    return found


def controller_of(lab: LabCluster) -> int:
    with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
        found = admin.describe_cluster(timeout=HANG_S).controller
    assert found is not None
    return found


def wait_for_copies(lab: LabCluster, topic: str) -> None:
    end = time.monotonic() + HANG_S
    while not all(len(each.in_sync) == 3 for each in partitions_of(lab, topic)):
        assert time.monotonic() < end, "all copies are in sync again"
        time.sleep(0.1)


def make_topic(lab: LabCluster, name: str) -> str:
    with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(name, PARTITIONS, 3)], timeout=HANG_S)
    return name


def check(lab: LabCluster, load: NumberedLoad) -> None:
    wait_for_copies(lab, load.topic)
    assert not load.failures
    load.check(read_numbers(lab.bootstrap_servers, load.topic, PARTITIONS))


@pytest.mark.parametrize("who", ["leader", "controller"])
def test_a_broker_that_is_killed_is_replaced_and_nothing_is_lost(lab: LabCluster, who: str) -> None:
    topic = make_topic(lab, f"killed-{who}")
    with (
        GroupReading(lab.bootstrap_servers, topic, f"readers-{who}") as reading,
        NumberedLoad(lab.bootstrap_servers, topic, PARTITIONS) as load,
    ):
        load.wait_for(100)
        victim = leader_of(lab, topic) if who == "leader" else controller_of(lab)
        lab.signal(victim, signal.SIGKILL)
        load.wait_for(300)  # so others lead what it led, before it is back
        lab.start_broker(victim)
        wait_for_copies(lab, topic)
        load.wait_for(100)
        load.end()
        reading.wait_for(load.count)
    print(f"the longest wait for an answer was {load.longest_wait_s:.1f} s, the session {SESSION_S} s")
    check(lab, load)


def test_a_leader_that_is_paused_beyond_its_session_loses_its_office_and_comes_back(lab: LabCluster) -> None:
    topic = make_topic(lab, "paused")
    with NumberedLoad(lab.bootstrap_servers, topic, PARTITIONS, request_timeout_ms=3_000) as load:
        load.wait_for(100)
        victim = leader_of(lab, topic)
        lab.signal(victim, signal.SIGSTOP)
        time.sleep(SESSION_S * 1.5 + 1)
        lab.signal(victim, signal.SIGCONT)
        load.wait_for(300)
        wait_for_copies(lab, topic)
        load.wait_for(100)
    check(lab, load)


def test_records_go_on_while_zookeeper_is_away_and_leaders_move_when_it_is_back(lab: LabCluster) -> None:
    topic = make_topic(lab, "no-zookeeper")
    (node,) = lab.zookeeper.nodes
    with NumberedLoad(lab.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_for(100)
        lab.zookeeper.signal_node(node, signal.SIGKILL)
        load.wait_for(300)
        lab.zookeeper.start_node(node)
        lab.zookeeper.wait()
        load.wait_for(100)
        victim = leader_of(lab, topic)
        lab.signal(victim, signal.SIGTERM)
        load.wait_for(100)
        lab.start_broker(victim)
        wait_for_copies(lab, topic)
    check(lab, load)


def send_numbers(lab: LabCluster, topic: str, count: int) -> None:
    with ottla.Producer(bootstrap_servers=lab.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush(HANG_S)


@pytest.mark.long
def test_members_of_a_share_group_get_every_record_on_a_cluster_of_zookeeper(lab: LabCluster) -> None:
    topic = make_topic(lab, "shared")
    begin_at_the_start(lab, "sharers")
    send_numbers(lab, topic, 60)
    with ShareWork(lab, topic, "sharers") as work:
        work.until(60)
    assert {len(each.replicas) for each in partitions_of(lab, STATE)} == {3}, "it was made when it was needed"


@pytest.mark.long
@pytest.mark.parametrize("killed", ["records", "state"])
def test_members_of_a_share_group_go_on_when_a_leader_is_killed(lab: LabCluster, killed: str) -> None:
    topic, group = make_topic(lab, f"shared-{killed}"), f"sharers-{killed}"
    begin_at_the_start(lab, group)
    send_numbers(lab, topic, 300)
    with ShareWork(lab, topic, group) as work:
        for number in range(PARTITIONS):
            work.until(100 * number + 50)
            victim = leader_of(lab, topic if killed == "records" else STATE, number % (PARTITIONS - 1))
            lab.signal(victim, signal.SIGKILL)
            work.until(100 * number + 100)
            lab.start_broker(victim)
            wait_for_copies(lab, topic)
            wait_for_copies(lab, STATE)
        assert work.story.ended_count == 300


def test_the_simulations_checker_finds_nothing_in_histories_of_real_clients(lab: LabCluster) -> None:
    """The campaign (campaign.py) in small, and without its other loads: a leader is killed."""
    history, numbers, servers, clients = SharedHistory(), count(1), lab.bootstrap_servers, ("ottla", "confluent-kafka")
    topics = {client: make_topic(lab, f"history-{client}") for client in clients}
    with ExitStack() as stack:
        loads = []
        for client, topic in topics.items():
            loads.append(stack.enter_context(SendingLoad(client, servers, topic, PARTITIONS, history, numbers)))
            stack.enter_context(FollowingLoad(client, servers, topic, PARTITIONS, history))
        for load in loads:
            load.wait_for(100)
        victim = leader_of(lab, topics["confluent-kafka"])
        lab.signal(victim, signal.SIGKILL)
        for load in loads:
            load.wait_for(100)
        lab.start_broker(victim)
        for topic in topics.values():
            wait_for_copies(lab, topic)
    for client, topic in topics.items():
        assert final_read(client, servers, topic, PARTITIONS, history) >= 200
    assert check_history(history.events) == []
    assert "lost-write" in anomalies_without_one(history), "a history that lacks one record must not pass"


def anomalies_without_one(history: SharedHistory) -> list[str]:
    """What the checker says when nobody has read one of the first values that were acknowledged."""
    lost = min(event.number for event in history.events if event.action == "send" and event.kind == "ok")
    value = next(event.facts["value"] for event in history.events if event.number == lost)
    planted = []
    for event in history.events:
        if records := event.facts.get("records"):
            event = replace(event, facts={**event.facts, "records": [each for each in records if each[2] != value]})
        planted.append(event)
    return [anomaly.name for anomaly in check_history(planted)]
