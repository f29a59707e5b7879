"""Clusters of three brokers in this process, with one topic of three partitions that every broker has a copy of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest
from tests.cluster.truths import QUORUM, TRUTHS
from tests.cluster.zookeeper_cluster import ZooKeeperCluster
from tests.patience import HANG_S

import ottla
from ottla.testing import KafkaCluster
from ottla.testing.zookeeper import ZooKeeperServer, missing

CHROOTS = count()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One for all tests: each has a chroot of its own, and leaves the server as it is."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def chroot(zookeeper: ZooKeeperServer) -> str:
    """A place in ZooKeeper that nobody has been to."""
    return f"{zookeeper.connect}/cluster-{next(CHROOTS)}"


@pytest.fixture(params=TRUTHS)
def truth(request: pytest.FixtureRequest) -> str:
    """Where the truth of `cluster` is."""
    return str(request.param)


@pytest.fixture
def make_cluster(truth: str, request: pytest.FixtureRequest) -> Callable[..., KafkaCluster]:
    """A cluster with its truth there."""
    return KafkaCluster if truth == QUORUM else partial(ZooKeeperCluster, request.getfixturevalue("chroot"))


@pytest.fixture
def cluster(make_cluster: Callable[..., KafkaCluster]) -> Iterator[KafkaCluster]:
    with make_cluster(3) as cluster:
        create_clicks(cluster)
        yield cluster


@pytest.fixture
def several_controllers(truth: str, make_cluster: Callable[..., KafkaCluster]) -> Iterator[KafkaCluster]:
    """One controller may be gone. In ZooKeeper every broker may be controller."""
    with make_cluster(3, **({"controllers": 3} if truth == QUORUM else {})) as cluster:
        create_clicks(cluster)
        yield cluster


@pytest.fixture
def on_zookeeper(chroot: str) -> Iterator[ZooKeeperCluster]:
    """Brokers that take orders."""
    with ZooKeeperCluster(chroot) as cluster:
        create_clicks(cluster)
        yield cluster


def create_clicks(cluster: KafkaCluster) -> None:
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("clicks", 3, 3)], timeout=HANG_S)
    cluster.wait_for_copies("clicks", 3)
