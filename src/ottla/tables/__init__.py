"""Topics as tables: what `ottla table` does, as values and decisions. The design is docs/decisions/0251.

    finding.py       the contract of readers: where a topic's table is, how far, and its columns
    marker.py        how far a table is, as it stands in the table itself
    reach.py         what of a topic can be read now, and what can never be read any more
    worker.py        the worker of one table: a machine without clock, network and files
    loop.py          does what the worker says
    cluster.py       what it asks of a cluster
    decoding.py      records become rows: json_fields.py where no schema says how, columns.py the types of tables
    formats.py       what a format has to do; delta.py and iceberg.py do it, partitioning.py for both
    process.py       a thread for each table, and the group that says whose it is
    checking.py      is each record in the table, once?

A worker is a guest of the cluster, as every client is: it knows no broker from inside, and works beside Apache Kafka.
"""
