"""Topics as tables: what `ottla table` does, as values and decisions. The design is docs/decisions/0251.

    marker.py   how far a table is, as it stands in the table itself
    reach.py    what of a topic can be read now, and what can never be read any more
    worker.py   the worker of one table: a machine without clock, network and files

A worker is a guest of the cluster, as every client is: it knows no broker from inside, and works beside Apache Kafka.
"""
