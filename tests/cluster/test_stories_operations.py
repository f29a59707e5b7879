"""Stories of what operators do to a cluster while clients work: restarts, growth, moves, elections, deletion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cluster.truths import ONLY_QUORUM
from tests.patience import HANG_S

import ottla
from ottla import TopicPartition
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.errors import OttlaError, TopicAlreadyExists
from ottla.testing import KafkaCluster
from ottla.testing.promises import GroupReading, NumberedLoad

PARTITIONS = 3
EVERYWHERE = {number: [0, 1, 2] for number in range(PARTITIONS)}


def test_a_rolling_restart_refuses_and_loses_nothing(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers
    with (
        GroupReading(servers, "clicks", "readers") as reading,
        NumberedLoad(servers, "clicks", PARTITIONS, retries=50) as load,
    ):
        for number in range(3):
            load.wait_for(50)
            cluster.stop_broker(number)
            load.wait_for(50)
            cluster.start_broker(number)
            cluster.wait_for_copies("clicks", PARTITIONS)
        load.wait_for(50)
        load.end()
        reading.wait_for(load.count)
    load.check_cluster(cluster)


def test_below_min_insync_replicas_a_write_is_refused_and_comes_through_when_a_copy_is_back(
    cluster: KafkaCluster,
) -> None:
    with NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS, delivery_timeout_ms=60_000) as load:
        load.wait_for(50)
        cluster.crash(0)
        cluster.crash(1)
        cluster.wait_until(lambda: all(cluster.in_sync("clicks", each) == (2,) for each in range(PARTITIONS)))
        before = load.count
        with ottla.Producer(
            bootstrap_servers=cluster.bootstrap_servers, delivery_timeout_ms=800, request_timeout_ms=500, linger_ms=0
        ) as impatient:
            future = impatient.send("clicks", b"-1", partition=0)
            with pytest.raises(OttlaError):
                future.result(HANG_S)
        assert load.count - before < 50, "only what was on its way when the second copy went"
        cluster.start_broker(0)
        load.wait_for(100)
        cluster.start_broker(1)
        cluster.wait_for_copies("clicks", PARTITIONS)
    load.check_cluster(cluster)


@ONLY_QUORUM
def test_a_topic_that_is_deleted_while_a_broker_is_away_is_gone_when_it_comes_back(cluster: KafkaCluster) -> None:
    with NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS) as load:
        load.wait_for(50)
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        cluster.crash(2)
        admin.delete_topics(["clicks"], timeout=HANG_S)
        cluster.wait_until(lambda: "clicks" not in admin.list_topics(timeout=HANG_S), HANG_S)
        admin.create_topics([ottla.NewTopic("clicks", replica_assignments=EVERYWHERE)], timeout=HANG_S)
        cluster.start_broker(2)
        cluster.wait_for_copies("clicks", PARTITIONS)
    with NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS) as anew:
        anew.wait_for(50)
    anew.check_cluster(cluster)


def can_be_made(admin: ottla.Admin, topic: str) -> bool:
    try:
        admin.create_topics([ottla.NewTopic(topic, PARTITIONS, 3)], timeout=HANG_S)
    except TopicAlreadyExists:
        return False
    return True


def test_in_zookeeper_a_name_is_free_when_the_last_copy_is_gone(on_zookeeper: KafkaCluster) -> None:
    with ottla.Admin(bootstrap_servers=on_zookeeper.bootstrap_servers) as admin:
        on_zookeeper.crash(2)
        admin.delete_topics(["clicks"], timeout=HANG_S)
        on_zookeeper.wait_until(lambda: "clicks" not in admin.list_topics(timeout=HANG_S), HANG_S)
        with pytest.raises(TopicAlreadyExists):
            admin.create_topics([ottla.NewTopic("clicks", PARTITIONS, 3)], timeout=HANG_S)
        on_zookeeper.start_broker(2)
        on_zookeeper.wait_until(lambda: can_be_made(admin, "clicks"), HANG_S)


def test_new_partitions_are_replicated_and_used(cluster: KafkaCluster) -> None:
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_partitions({"clicks": 9}, timeout=HANG_S)
    cluster.wait_for_copies("clicks", 9)
    with NumberedLoad(cluster.bootstrap_servers, "clicks", 9) as load:
        load.wait_for(90)
    load.check_cluster(cluster)


def test_a_partition_moves_to_other_brokers_under_load(make_cluster: Callable[..., KafkaCluster]) -> None:
    with make_cluster(4) as cluster, ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("clicks", replica_assignments={0: [0, 1, 2]})], timeout=HANG_S)
        with NumberedLoad(cluster.bootstrap_servers, "clicks", 1) as load:
            load.wait_for(50)
            admin.alter_partition_reassignments({TopicPartition("clicks", 0): [3, 2, 1]}, timeout=HANG_S)
            cluster.wait_until(lambda: not admin.list_partition_reassignments(timeout=HANG_S), HANG_S)
            load.wait_for(50)
            cluster.wait_until(lambda: cluster.leader_of("clicks", 0) != 0, HANG_S)
            load.wait_for(50)
        (found,) = admin.describe_topics(["clicks"], timeout=HANG_S)["clicks"].partitions
        assert found.replicas == (3, 2, 1)
        load.check_cluster(cluster)
        cluster.wait_until(
            lambda: cluster.call(lambda: cluster.server(0).broker.replicas.get(("clicks", 0)) is None), 10
        )


def test_preferred_leaders_lead_again_after_an_election(cluster: KafkaCluster) -> None:
    with (
        ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
        NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS) as load,
    ):
        preferred = [
            each.replicas[0] for each in admin.describe_topics(["clicks"], timeout=HANG_S)["clicks"].partitions
        ]
        load.wait_for(20)
        cluster.stop_broker(preferred[0])
        load.wait_for(20)
        cluster.start_broker(preferred[0])
        cluster.wait_for_copies("clicks", PARTITIONS)
        assert cluster.leader_of("clicks", 0) != preferred[0]
        given = admin.elect_leaders([TopicPartition("clicks", each) for each in range(PARTITIONS)], timeout=HANG_S)
        assert given[TopicPartition("clicks", 0)] is None
        cluster.wait_until(
            lambda: [cluster.leader_of("clicks", each) for each in range(PARTITIONS)] == preferred, HANG_S
        )
        load.wait_for(50)
    load.check_cluster(cluster)


def test_more_fetchers_share_the_partitions_out_while_records_come(cluster: KafkaCluster) -> None:
    """num.replica.fetchers changes while running: everything is followed anew, by as many loops."""

    def are_shared_out(count: int) -> bool:
        found = [cluster.server(number).broker.link.replication for number in range(3)]
        used = [{fetcher for _, fetcher in each._loops} for each in found]
        return all(len(each._connections) == count for each in found) and all(
            1 < len(each) <= count and max(each) < count for each in used
        )

    every_broker = ConfigResource(ConfigResourceType.BROKER, "")
    with (
        ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
        NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS) as load,
    ):
        admin.create_topics([ottla.NewTopic("many", 12, 3)], timeout=HANG_S)
        load.wait_for(50)
        for count in (4, 2):
            admin.incremental_alter_configs(
                {every_broker: [AlterConfig("num.replica.fetchers", str(count))]}, timeout=HANG_S
            )
            cluster.wait_until(lambda count=count: are_shared_out(count), HANG_S)
            load.wait_for(50)
    load.check_cluster(cluster)
    cluster.check_replicas("many", 12)
