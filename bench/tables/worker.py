"""The worker's whole way: a broker in another process, a topic, and a table that gets all of it, by formats and modes.

What is counted is the processor time of this process, which is the worker with all its threads; the broker's is not.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.tables.records import AVRO, as_avro, as_json, clicks

import ottla
from ottla.clock import SystemClock
from ottla.schemas.model import SchemaText
from ottla.table_settings import TableSettings
from ottla.tables.cluster import Cluster
from ottla.tables.finding import table_of
from ottla.tables.loop import TableLoop

FRAME = b"\0\0\0\0\1"
BARS = {"raw": 60, "json": 40, "schema_id": 60}


class Registry:
    """The one schema of the bench, without a server."""

    def schema(self, schema_id: int) -> SchemaText:
        return SchemaText("AVRO", json.dumps(AVRO))

    def imports(self, schema: SchemaText) -> dict[str, str]:
        return {}


class Way(NamedTuple):
    """Megabytes of values and thousands of records per CPU second of the worker, and megabytes per second."""

    mb: float
    records: float
    wall_mb: float
    commits: int


class Broker:
    """A broker in a process of its own."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-m", "ottla", "broker", "start", "--data", str(directory / "data")]
        command += ["--listen", "127.0.0.1:0", "--set", "ottla.admin.listener="]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None, "it has a pipe"
        self.servers = self._process.stdout.readline().partition(" is ready at ")[2].split(" ")[0]
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def values_of(mode: str, size: int, count: int) -> list[bytes]:
    """Some thousand different records; what comes more often is the same for both sides."""
    if mode == "schema_id":
        import fastavro

        schema = fastavro.parse_schema(AVRO)
        return [FRAME + as_avro(schema, click) for click in clicks(count, max(size - 42, 0))]
    return [as_json(click) for click in clicks(count, max(size - 135, 0))]


def fill(servers: str, topic: str, values: Sequence[bytes], megabytes: float) -> tuple[int, int]:
    """Write so much; how many records and bytes of values that is."""
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([ottla.NewTopic(topic, 1)])
    records = size = 0
    with ottla.Producer(bootstrap_servers=servers, linger_ms=20, batch_size=262_144) as producer:
        while size < megabytes * 1e6:
            for value in values:
                producer.send(topic, value)
            records += len(values)
            size += sum(map(len, values))
        producer.flush()
    return records, size


def measured(servers: str, topic: str, mode: str, form: str, directory: Path, size: int, records: int) -> Way:
    """A table from nothing to the end of the topic."""
    settings = TableSettings(
        {
            "ottla.table.mode": mode,
            "ottla.table.format": form,
            "ottla.table.location": f"{directory}/{form}-{mode}/{{topic}}",
            "ottla.table.lag.ms": "1000",
        }
    )
    cluster = Cluster({"bootstrap.servers": servers})
    registry: Any = Registry()
    loop = TableLoop(topic, settings, table_of(topic, settings), cluster, registry, SystemClock())
    while loop.status.epoch == 0:
        loop.step()
    begin, wall = time.process_time(), time.monotonic()
    while loop.status.state != "current":
        wait_ms = loop.step()
        if loop.status.state != "current" and wait_ms:
            time.sleep(min(wait_ms, 100.0) / 1_000)
    cpu, took = time.process_time() - begin, time.monotonic() - wall
    assert loop.status.rows == records, loop.status
    cluster.close()
    return Way(size / cpu / 1e6, records / cpu / 1e3, size / took / 1e6, loop.status.commits)


def main(megabytes: float, sizes: Sequence[int], form: str) -> None:
    """A line for each size, mode and format."""
    directory = Path(tempfile.mkdtemp(prefix="bench-tables-"))
    broker = Broker(directory)
    print(form.format("mode", "bytes", "format", "MB/CPU s", "k/CPU s", "MB/s", "commits", "bar"))
    try:
        for size in sizes:
            for mode, bar in BARS.items():
                values = values_of(mode, size, 5_000)
                topic = f"{mode}-{size}"
                records, written = fill(broker.servers, topic, values, megabytes)
                mean = written // records
                for kind in ("delta", "iceberg"):
                    way = measured(broker.servers, topic, mode, kind, directory, written, records)
                    row = (mode, mean, kind, f"{way.mb:.0f}", f"{way.records:,.0f}", f"{way.wall_mb:.0f}", way.commits)
                    print(form.format(*row, bar), flush=True)
    finally:
        broker.stop()
        shutil.rmtree(directory)
