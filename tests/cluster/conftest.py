"""A cluster of three in this process, with one topic of three partitions that every broker has a copy of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.patience import HANG_S

import ottla
from ottla.testing import KafkaCluster


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as cluster:
        with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic("clicks", 3, 3)], timeout=HANG_S)
        yield cluster
