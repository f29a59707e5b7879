"""Where the truth about the cluster is kept.

`interface.py` says what a store promises. `kraft.py` keeps it in Kafka's metadata log beside the topics of a single
broker; brokers under controllers have no store, because the controllers' log is the truth. `zookeeper/` is for clusters
that come from Kafka 3.9: `shared.py`, `events.py` and `requests.py` are what it has in common with the simulation's
model of it.
"""
