"""Where a cluster's truth is kept, for stories that have the fixture `cluster`: on a quorum, or in ZooKeeper.

A story is told of a quorum in every run, and of ZooKeeper in the long ones. With EVERY_RUN it is told of both in every
run; with ONLY_QUORUM it is about something that clusters in ZooKeeper do not have.
"""

from __future__ import annotations

import pytest

QUORUM, ZOOKEEPER = "quorum", "zookeeper"
TRUTHS = [QUORUM, pytest.param(ZOOKEEPER, marks=pytest.mark.long)]
EVERY_RUN = pytest.mark.parametrize("truth", [QUORUM, ZOOKEEPER], indirect=True)
ONLY_QUORUM = pytest.mark.parametrize("truth", [QUORUM], indirect=True)
