"""One of two log directories of a broker fails under load (KIP-112): only what is in it moves, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.patience import HANG_S

import ottla
from ottla.errors import KafkaStorageError
from ottla.testing import KafkaCluster
from ottla.testing.files import MemoryFiles, Operation
from ottla.testing.promises import NumberedLoad

PARTITIONS = 4
SETTINGS = {"log.dirs": "/one,/two", "metadata.log.dir": "/metadata", "ottla.durability": "durable"}
"""A broker ends when the directory of its metadata log fails, as in Kafka; it has one of its own."""


class Disk:
    """A directory of a broker in memory whose disk can break and be replaced."""

    def __init__(self, cluster: KafkaCluster, broker: int, path: str) -> None:
        self.path = path
        self.is_broken = False
        files = cluster.server(broker).broker_files
        assert isinstance(files, MemoryFiles)
        files.fail(self._hits, for_ever=True)

    def _hits(self, operation: Operation) -> bool:
        is_change = operation.kind in ("write", "sync", "sync_directory")
        return self.is_broken and is_change and operation.path.is_relative_to(Path(self.path))


def directories(admin: ottla.Admin, broker: int) -> dict[str, set[int]]:
    """Which partitions of clicks are in which directory; a directory that has failed is not named."""
    found = admin.describe_log_dirs([broker], timeout=HANG_S)[broker]
    return {
        path: {each.partition for each in shown.replicas if each.topic == "clicks"}
        for path, shown in found.items()
        if not isinstance(shown.error, KafkaStorageError)
    }


def test_only_what_is_in_a_failed_directory_gets_other_leaders(make_cluster: Callable[..., KafkaCluster]) -> None:
    with make_cluster(3, SETTINGS) as cluster, ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("clicks", PARTITIONS, 3)], timeout=HANG_S)
        with NumberedLoad(cluster.bootstrap_servers, "clicks", PARTITIONS, retries=100) as load:
            load.wait_for(50)
            cluster.wait_for_copies("clicks", PARTITIONS)
            victim = cluster.leader_of("clicks", 0)
            before = directories(admin, victim)
            (failing,) = [path for path, partitions in before.items() if 0 in partitions]
            lost, kept = before[failing], set(range(PARTITIONS)) - before[failing]
            assert kept, "the partitions of a topic are spread over the directories"
            disk = Disk(cluster, victim, failing)
            disk.is_broken = True
            cluster.wait_until(lambda: all(victim not in cluster.in_sync("clicks", each) for each in lost))
            cluster.wait_until(lambda: all(cluster.leader_of("clicks", each) not in (-1, victim) for each in lost))
            load.wait_for(50)
            assert directories(admin, victim).keys() == before.keys() - {failing}
            assert cluster.call(lambda: cluster.server(victim).failure) is None
            cluster.wait_until(lambda: all(victim in cluster.in_sync("clicks", each) for each in kept))
            cluster.stop_broker(victim)
            disk.is_broken = False
            cluster.start_broker(victim)
            cluster.wait_for_copies("clicks", PARTITIONS)
        load.check_cluster(cluster)
