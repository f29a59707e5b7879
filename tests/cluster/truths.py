"""Where a cluster's truth is kept, for stories that have the fixture `cluster`: on a quorum, or in ZooKeeper.

A story is told of both, unless ONLY_QUORUM says that it is about something that clusters in ZooKeeper do not have.
"""

from __future__ import annotations

import pytest

QUORUM, ZOOKEEPER = TRUTHS = "quorum", "zookeeper"
ONLY_QUORUM = pytest.mark.parametrize("truth", [QUORUM], indirect=True)
