"""Stories of what must hold when copies differ: divergence, transactions across brokers, reading from a follower."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tests.patience import HANG_S

import ottla
from ottla.broker.coordinators.placement import partition_for_name
from ottla.testing import KafkaCluster
from ottla.testing.promises import NumberedLoad, read_numbers

PARTITIONS = 3


def test_a_leader_that_comes_back_with_more_than_the_others_gives_it_up(cluster: KafkaCluster) -> None:
    """Written with acks=1 while nobody followed: never committed, so it may go, and must go from every copy."""
    leader = cluster.leader_of("clicks", 0)
    followers = [each for each in range(3) if each != leader]
    with NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS) as load:
        load.wait_for(50)
    cluster.wait_for_copies("clicks", PARTITIONS)
    for follower in followers:
        cluster.stop_following(follower, "clicks", 0)
    with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers, acks=1, enable_idempotence=False) as careless:
        careless.send("clicks", b"-7", partition=0).result(HANG_S)
        cluster.crash(leader)
    cluster.wait_until(lambda: cluster.leader_of("clicks", 0) in followers, HANG_S)
    with NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS) as more:
        more.wait_for(50)
    cluster.start_broker(leader)
    cluster.check_replicas("clicks", PARTITIONS)
    assert -7 not in read_numbers(cluster.bootstrap_servers, "clicks", PARTITIONS)[0]


class Transfers(threading.Thread):
    """Transactions of one number to every partition; every third one is aborted."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.servers = servers
        self.committed: list[int] = []
        self.unknown: list[int] = []
        self.ending = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error

    def _run(self) -> None:
        with ottla.Producer(bootstrap_servers=self.servers, transactional_id="transfers") as producer:
            producer.init_transactions(30)
            number = 0
            while not self.ending.is_set():
                self._transfer(producer, number)
                number += 1

    def _transfer(self, producer: Any, number: int) -> None:
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send("clicks", b"%d" % number, partition=partition)
        if number % 3 == 2:
            producer.flush(HANG_S)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            self.committed.append(number)

    def wait_for(self, more: int) -> None:
        wanted, end = len(self.committed) + more, time.monotonic() + HANG_S
        while len(self.committed) < wanted:
            if self.failure is not None:
                raise self.failure
            assert time.monotonic() < end, f"{len(self.committed)} of {wanted} were committed in time"
            time.sleep(0.01)

    def end(self) -> None:
        self.ending.set()
        self.join(HANG_S)
        assert not self.is_alive(), "the last transaction ends"
        if self.failure is not None:
            raise self.failure


def check_transfers(cluster: KafkaCluster, transfers: Transfers) -> None:
    cluster.check_replicas("clicks", PARTITIONS)
    found = read_numbers(cluster.bootstrap_servers, "clicks", PARTITIONS, isolation_level="read_committed")
    for partition in range(PARTITIONS):
        assert found[partition] == transfers.committed


def test_transactions_go_on_when_their_coordinator_crashes(cluster: KafkaCluster) -> None:
    transfers = Transfers(cluster.bootstrap_servers)
    transfers.start()
    transfers.wait_for(5)
    place = partition_for_name("transfers", 5)
    victim = cluster.leader_of("__transaction_state", place)
    cluster.crash(victim)
    transfers.wait_for(5)
    cluster.start_broker(victim)
    cluster.wait_for_copies("clicks", PARTITIONS)
    transfers.wait_for(5)
    transfers.end()
    check_transfers(cluster, transfers)


def test_transactions_go_on_through_a_rolling_restart(cluster: KafkaCluster) -> None:
    transfers = Transfers(cluster.bootstrap_servers)
    transfers.start()
    for number in range(3):
        transfers.wait_for(3)
        cluster.stop_broker(number)
        transfers.wait_for(3)
        cluster.start_broker(number)
        cluster.wait_for_copies("clicks", PARTITIONS)
    transfers.end()
    check_transfers(cluster, transfers)


def test_a_consumer_reads_from_the_copy_in_its_own_rack(make_cluster: Callable[..., KafkaCluster]) -> None:
    selector = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    with make_cluster(3, selector, racks=("a", "b", "c")) as cluster:
        servers = cluster.bootstrap_servers
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([ottla.NewTopic("clicks", replica_assignments={0: [0, 1, 2]})], timeout=HANG_S)
        with NumberedLoad(servers, "clicks", 1) as load:
            load.wait_for(50)
        load.check(read_numbers(servers, "clicks", 1, client_rack="c"))
        given = [cluster.server(each).broker.topic_metrics.of("clicks").bytes_out.value for each in range(3)]
        assert given[1] == 0, "nobody is in that rack"
        assert given[2] > 0


def test_every_copy_has_the_settings_that_its_topic_was_made_with(cluster: KafkaCluster) -> None:
    """Nobody tells them: the others read them when they are told to have a copy, and when they hear of the topic."""
    settings = {"cleanup.policy": "compact", "min.insync.replicas": "3"}
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("kept", 3, 3, configs=settings)], timeout=HANG_S)
        admin.create_topics([ottla.NewTopic("alone", 1, 1, configs=settings)], timeout=HANG_S)

    def in_effect(number: int, topic: str) -> tuple[Any, int]:
        broker = cluster.server(number).broker
        found = broker.topics_in_effect.of(broker.image, topic)
        return found.cleanup_policy, found.min_insync_replicas

    def of_copies(number: int) -> list[tuple[Any, int]]:
        found = [each.log.settings for each in cluster.server(number).broker.replicas if each.name.topic == "kept"]
        return [(each.cleanup_policy, each.min_insync_replicas) for each in found]

    for number in range(3):
        assert cluster.call(lambda number=number: of_copies(number)) == [(("compact",), 3)] * 3
    for number in range(3):
        cluster.wait_until(lambda number=number: in_effect(number, "alone") == (("compact",), 3), HANG_S)
