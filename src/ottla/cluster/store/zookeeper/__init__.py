"""The truth of a cluster in ZooKeeper, exactly as Apache Kafka 3.9 keeps it there, so that both can share it.

    paths.py       where things are: names of znodes, and how names of topics and users stand in them
    znodes.py      what is in them: JSON both ways, byte for byte as Kafka 3.9 writes it; pure
    entities.py    settings, quotas and credentials: how they share the nodes below /config; pure
    reading.py     nodes to image, and nodes to the changes they mean; pure
    writes.py      changes to writes: which nodes a commit touches; pure
    facts.py       what a look at ZooKeeper means to a member with this image; pure
    session.py     kazoo: one session, pipelined reads and transactions; its threads end here
    bulk.py        many nodes in one question, which kazoo does not have
    watching.py    what others do becomes events, on one thread of ours
    election.py    registration, election, fencing
    everything.py  reading a whole cluster, making a new one
    store.py       ZooKeeperStore, the SharedStore made of these
    connecting.py  from zookeeper.* settings to what kazoo wants
    server.py      a real ZooKeeper for development and tests

kazoo is imported by session.py and bulk.py alone, and only when a store is opened (pip install 'ottla[zookeeper]').
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.cluster.store.zookeeper.store import ZooKeeperStore


def open_zookeeper_store(settings: Any, *, cluster_id: str | None = None) -> ZooKeeperStore:
    """The store that zookeeper.connect names, with a session; waits. With `cluster_id` it must be that cluster."""
    from ottla.cluster.store.zookeeper.connecting import connection_from
    from ottla.cluster.store.zookeeper.store import ZooKeeperStore

    store = ZooKeeperStore(connection_from(settings), cluster_id=cluster_id)
    try:
        store.start()
    except BaseException:
        store.close()
        raise
    return store
