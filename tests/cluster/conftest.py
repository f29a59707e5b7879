"""Clusters of three brokers in this process, with one topic of three partitions that every broker has a copy of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster.stored_cluster import StoredCluster
from tests.patience import HANG_S

import ottla
from ottla.testing import KafkaCluster


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as cluster:
        create_clicks(cluster)
        yield cluster


@pytest.fixture
def stored() -> Iterator[StoredCluster]:
    """Brokers that take orders, as in ZooKeeper."""
    with StoredCluster(3) as cluster:
        create_clicks(cluster)
        yield cluster


@pytest.fixture
def quorum() -> Iterator[KafkaCluster]:
    """With three controllers: one may be gone."""
    with KafkaCluster(3, controllers=3) as cluster:
        create_clicks(cluster)
        yield cluster


def create_clicks(cluster: KafkaCluster) -> None:
    with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("clicks", 3, 3)], timeout=HANG_S)
