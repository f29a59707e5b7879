"""Real brokers in processes of their own on a real ZooKeeper, and what is done to them under load."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator, Sequence

import pytest
from tests.patience import HANG_S

import ottla
from ottla.client.admin.topics import PartitionDescription
from ottla.errors import UnknownTopicOrPartition
from ottla.testing.promises import GroupReading, NumberedLoad, check_numbers, read_numbers
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


def test_confluents_client_loses_nothing_either_when_a_leader_is_killed(lab: LabCluster) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="needs what pip install 'ottla[dev]' brings")
    topic = make_topic(lab, "confluent")
    acknowledged: list[set[int]] = [set() for _ in range(PARTITIONS)]
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": lab.bootstrap_servers, "enable.idempotence": True, "acks": "all", "linger.ms": 5}
    )
    victim = leader_of(lab, topic)
    for number in range(1_000):
        if number == 300:
            lab.signal(victim, signal.SIGKILL)
        for partition in range(PARTITIONS):

            def told(error: object, _: object, *, where: int = partition, what: int = number) -> None:
                if error is None:
                    acknowledged[where].add(what)

            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=told)
        producer.poll(0.001)
    assert producer.flush(HANG_S) == 0
    lab.start_broker(victim)
    wait_for_copies(lab, topic)
    found = read_numbers(lab.bootstrap_servers, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        assert len(acknowledged[partition]) == 1_000
        check_numbers(f"{topic}-{partition}", acknowledged[partition], found[partition])
