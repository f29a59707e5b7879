"""Streams groups (KIP-1071): the members of a Kafka Streams application share out the tasks of its topology.

A task is one subtopology on one partition. A group has the same three layers as a consumer group, with the topology
before them:

    its topology, and the topics it needs      topology epoch     topology.py, configuring.py, partition_counts.py
    its members                                group epoch        heartbeat.py, heartbeat_check.py
    where each task should be                  assignment epoch   target.py, assignor.py
    where each task is                         member epoch       reconciliation.py

protocol.py is the door for the shard. group.py is the state, and only what records.py can write changes it.
endpoints.py says to members where they find each other's state (interactive queries), describe.py what tools show.
"""
