"""A real ZooKeeper for tests: `ZooKeeperServer` as cluster/store/zookeeper/server.py has it, and why there is none.

if (reason := missing()) is not None:
    pytest.skip(reason)
with ZooKeeperServer(tmp_path) as zookeeper:
    ...
"""

from __future__ import annotations

import functools
import importlib.util

from ottla.cluster.store.zookeeper.server import Node, ZooKeeperMissing, ZooKeeperServer, find_jars, find_java

__all__ = ["Node", "ZooKeeperMissing", "ZooKeeperServer", "missing"]


@functools.cache
def missing() -> str | None:
    """Why there is no ZooKeeper on this machine; None when there is."""
    if importlib.util.find_spec("kazoo") is None:
        return "needs kazoo: pip install 'ottla[zookeeper]'"
    try:
        find_java()
        find_jars()
    except ZooKeeperMissing as reason:
        return f"needs ZooKeeper: {reason}"
    return None
