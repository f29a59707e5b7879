"""Stories of a cluster that loses brokers without a word while clients work."""

from __future__ import annotations

import pytest
from tests.cluster.truths import QUORUM, ZOOKEEPER
from tests.patience import HANG_S

import ottla
from ottla.broker.coordinators.placement import partition_for_name
from ottla.testing import KafkaCluster
from ottla.testing.promises import GroupReading, NumberedLoad

PARTITIONS = 3
WAITED_S = 20
"""Less than the time after which a request that was forgotten is sent again."""


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_the_crash_of_a_leader_loses_nothing_that_was_acknowledged(cluster: KafkaCluster, partition: int) -> None:
    with NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS) as load:
        load.wait_for(50)
        victim = cluster.leader_of("clicks", partition)
        cluster.crash(victim)
        load.wait_for(100)
        cluster.start_broker(victim)
        cluster.wait_for_copies("clicks", PARTITIONS)
        load.wait_for(50)
    load.check_cluster(cluster)


def test_the_crash_of_the_controller_is_survived(several_controllers: KafkaCluster) -> None:
    cluster = several_controllers
    with NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS) as load:
        load.wait_for(50)
        victim = cluster.controller()
        cluster.crash(victim)
        cluster.wait_until(lambda: cluster.controller() not in (-1, victim), HANG_S)
        load.wait_for(100)
        cluster.start_broker(victim)
        cluster.wait_for_copies("clicks", PARTITIONS)
    load.check_cluster(cluster)


def test_every_broker_crashes_in_turn_and_a_group_reads_on(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers
    with (
        GroupReading(servers, "clicks", "readers", session_timeout_ms=6_000) as reading,
        NumberedLoad(servers, "clicks", PARTITIONS) as load,
    ):
        for victim in range(3):
            load.wait_for(50)
            cluster.crash(victim)
            load.wait_for(50)
            cluster.start_broker(victim)
            cluster.wait_for_copies("clicks", PARTITIONS)
        load.end()
        reading.wait_for(load.count)
    load.check_cluster(cluster)


@pytest.mark.parametrize(
    ("truth", "protocol"),
    [
        (QUORUM, "classic"),
        (QUORUM, "consumer"),  # a feature that a cluster in ZooKeeper does not begin with
        (ZOOKEEPER, "classic"),
    ],
    indirect=["truth"],
)
def test_a_group_reads_on_when_its_coordinator_crashes(cluster: KafkaCluster, protocol: str) -> None:
    servers = cluster.bootstrap_servers
    with (
        GroupReading(servers, "clicks", "readers", group_protocol=protocol) as reading,
        NumberedLoad(servers, "clicks", PARTITIONS) as load,
    ):
        load.wait_for(50)
        reading.wait_for(50)
        victim = cluster.leader_of("__consumer_offsets", partition_for_name("readers", 5))
        cluster.crash(victim)
        load.wait_for(200)
        reading.wait_for(load.count)
        cluster.start_broker(victim)
        load.wait_for(50)
        reading.wait_for(load.count)
    load.check_cluster(cluster)


def nobody_leads(cluster: KafkaCluster, asked: int) -> bool:
    found = cluster.server(asked).broker.image.partition("clicks", 0)
    return found is not None and found.leader < 0


def test_who_lost_its_memory_does_not_lead_while_another_may_have_more(cluster: KafkaCluster) -> None:
    """The last replica in sync loses its machine and comes back first, with less than what was acknowledged. It waits
    for one that left when the set was too small for anything more to be acknowledged (KIP-966)."""
    with NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS) as load:
        load.wait_for(100)
        load.end()
    cluster.wait_for_copies("clicks", PARTITIONS)
    last = cluster.leader_of("clicks", 0)
    first, second = (each for each in range(3) if each != last)
    cluster.crash(first)
    cluster.wait_until(lambda: first not in cluster.in_sync("clicks", 0), HANG_S)
    cluster.crash(second)
    cluster.wait_until(lambda: cluster.in_sync("clicks", 0) == (last,), HANG_S)
    cluster.crash(last, machine=True)
    cluster.start_broker(last)
    cluster.wait_until(lambda: nobody_leads(cluster, last), HANG_S)
    cluster.start_broker(second)
    cluster.wait_until(lambda: cluster.leader_of("clicks", 0) == second, HANG_S)
    cluster.start_broker(first)
    load.check_cluster(cluster)


def test_what_waits_for_a_broker_that_is_gone_is_acknowledged_when_it_is_fenced(cluster: KafkaCluster) -> None:
    """Nothing else is sent that would show the leader that its record is committed now."""
    cluster.wait_for_copies("clicks", PARTITIONS)
    leader = cluster.leader_of("clicks", 0)
    gone = (leader + 1) % 3
    cluster.crash(gone, session_stays=True)
    with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        sent = producer.send("clicks", b"1", partition=0)
        partition = cluster.call(lambda: cluster.server(leader).broker.replicas.get(("clicks", 0)))
        assert partition is not None
        cluster.wait_until(lambda: cluster.call(lambda: partition.log_end_offset) == 1)
        assert not sent.done()
        cluster.end_session(gone)
        assert sent.result(WAITED_S).offset == 0
