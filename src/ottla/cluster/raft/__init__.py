"""Raft as Kafka does it: the metadata log of a node, its snapshots, and what it remembers of elections.

    quorum_state.py   the file quorum-state: epoch, leader and vote
    snapshots.py      snapshot files, written and read in steps; bootstrap.checkpoint
    log.py            the log `__cluster_metadata-0` with its snapshots: append, sync, cut, forget what is old
    solo.py           a quorum of one: the only voter leads its log and appends to it
    observer.py       who follows a leader without a vote: whom to ask what, and what an answer means
    format.py         what a formatted log directory has, before anybody starts on it

Files come in as an argument; nothing here has a clock or a socket.
"""
