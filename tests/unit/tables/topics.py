"""Topics, loops over them, and the checker: the offsets of a table are those of the log below its marker."""

import json
from collections import Counter
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

from ottla import Consumer, Producer
from ottla.table_settings import TableSettings
from ottla.tables.cluster import Cluster
from ottla.tables.finding import table_of
from ottla.tables.loop import TableLoop
from ottla.testing.clock import ManualClock
from ottla.values import TopicPartition

QUICK = {"ottla.table.lag.ms": "1"}


def write(servers, topic, values, partition=None, **more):
    with Producer(bootstrap_servers=servers, **more) as producer:
        for value in values:
            text = value if isinstance(value, bytes | None) else json.dumps(value).encode()
            producer.send(topic, text, partition=partition, key=b"k")
        producer.flush()


class Lake:
    """Tables of one broker below one directory."""

    def __init__(self, servers, directory, form):
        self.servers = servers
        self.cluster = Cluster({"bootstrap.servers": servers})
        self.directory = directory
        self.form = form
        self.clock = ManualClock()

    def settings(self, mode="raw", **more):
        fixed = {"ottla.table.mode": mode, "ottla.table.format": self.form}
        return TableSettings({**QUICK, **fixed, "ottla.table.location": f"{self.directory}/{{topic}}", **more})

    def loop(self, topic, settings, registry=None, **more):
        where = table_of(topic, settings)
        return TableLoop(topic, settings, where, self.cluster, registry, self.clock, **more)

    def snapshot(self, topic):
        return table_of(topic, self.settings()).snapshot()

    def rows(self, topic):
        """All rows, as a reader finds them who knows the contract alone."""
        found = []
        for file in self.snapshot(topic).files:
            found += pq.read_table(unquote(urlsplit(file.uri).path), partitioning=None).to_pylist()
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))

    def values(self, topic):
        fixed = ("partition", "offset", "timestamp", "headers", "key")
        return [{name: value for name, value in row.items() if name not in fixed} for row in self.rows(topic)]


def run(lake, loop, until="current", steps=1_000):
    """Until the loop says so; where it waits the clock goes on."""
    loop.status.state, loop.status.end_offsets = "", {}
    for _ in range(steps):
        lake.clock.move(loop.step())
        if loop.status.state == until and (loop.status.end_offsets or until != "current"):
            return
    raise AssertionError(f"it does not end: {loop.status}")


def log_offsets(servers, topic):
    """The records that a reader of the topic sees, read_committed."""
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        names = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        consumer.assign(names)
        ends = consumer.end_offsets(names)
        found = {name: set() for name in names}
        while any(consumer.position(name) < ends[name] for name in names):
            for record in consumer.poll(timeout=1.0):
                found[TopicPartition(record.topic, record.partition)].add(record.offset)
    return {name.partition: offsets for name, offsets in found.items()}


def check(lake, topic, without=()):
    """Exactly once: each offset of the log below the marker is in the table, once, and nothing else is."""
    snapshot = lake.snapshot(topic)
    marker = snapshot.marker.next_offsets
    counts = Counter((row["partition"], row["offset"]) for row in lake.rows(topic))
    assert [each for each, count in counts.items() if count > 1] == [], "doubled"
    wanted = {
        (partition, offset)
        for partition, offsets in log_offsets(lake.servers, topic).items()
        for offset in offsets
        if offset < marker.get(partition, 0)
    }
    assert set(counts) == wanted - set(without)
    return snapshot.marker
