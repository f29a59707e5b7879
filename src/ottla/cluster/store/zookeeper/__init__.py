"""The truth of a cluster in ZooKeeper, exactly as Apache Kafka 3.9 keeps it there, so that both can share it.

    paths.py       where things are: names of znodes, and how names of topics and users stand in them
    znodes.py      what is in them: JSON both ways, byte for byte as Kafka 3.9 writes it; pure
    entities.py    settings, quotas and credentials: how they share the nodes below /config; pure
    reading.py     nodes to image, and nodes to the changes they mean; pure
    writes.py      changes to writes: which nodes a commit touches; pure
    session.py     kazoo: one session, pipelined reads and transactions; its threads end here
    watching.py    what others do becomes events, on one thread of ours
    election.py    registration, election, fencing
    store.py       ZooKeeperStore, the SharedStore made of these
    connecting.py  from zookeeper.* settings to what kazoo wants

kazoo is imported by session.py alone, and only when a session is opened (pip install 'ottla[zookeeper]').
"""
