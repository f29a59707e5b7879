"""A worker that kills itself (SIGKILL) at a step, as `python killed_worker.py SERVERS TOPIC FORM DIRECTORY POINT`.

POINT is a step and how often it is passed before, such as "after data:1"; "never" runs until the table is current, with
a round of upkeep. "random:MS" ends after so many milliseconds, wherever it is then.
"""

import os
import signal
import sys
import threading
import time

from pyiceberg.catalog import MetastoreCatalog

from ottla.clock import SystemClock
from ottla.table_settings import TableSettings
from ottla.tables import delta, iceberg
from ottla.tables.cluster import Cluster
from ottla.tables.finding import table_of
from ottla.tables.formats import UpkeepRules
from ottla.tables.loop import TableLoop

HANG_S = 60.0


def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(HANG_S)


class Point:
    def __init__(self, text):
        self.name, _, count = text.partition(":")
        self.left = int(count or 0)

    def passed(self, name):
        if name == self.name:
            if not self.left:
                die()
            self.left -= 1


def hooked(owner, name, point, before="", after=""):
    """The method, with a step before and one behind it."""
    original = getattr(owner, name)

    def method(*arguments, **named):
        point.passed(before)
        found = original(*arguments, **named)
        point.passed(after)
        return found

    setattr(owner, name, method)


def in_the_middle(owner, name, point, step):
    """Killed at some moment while the method runs, which is one call of native code."""
    original = getattr(owner, name)

    def method(*arguments, **named):
        if point.name == step and not point.left:
            threading.Timer(int.from_bytes(os.urandom(1)) / 255 * 0.01, die).start()
        elif point.name == step:
            point.left -= 1
        return original(*arguments, **named)

    setattr(owner, name, method)


def hook(point):
    for kind in (delta.DeltaFormat, iceberg.IcebergFormat):
        hooked(kind, "stage", point, "before data", "after data")
        hooked(kind, "commit", point, "before commit", "after commit")
        hooked(kind, "_compact", point, "before compaction", "after compaction")
    in_the_middle(delta.DeltaTable, "create_write_transaction", point, "in commit")
    in_the_middle(delta.DeltaTable, "vacuum", point, "in expiry")
    written = MetastoreCatalog._write_metadata

    def write_metadata(*arguments, **named):
        written(*arguments, **named)
        point.passed("in commit")

    MetastoreCatalog._write_metadata = staticmethod(write_metadata)
    hooked(iceberg.IcebergFormat, "_remove_unnamed", point, "in expiry")
    hooked(iceberg, "_delete", point, after="in expiry")
    for kind in (delta.DeltaFormat, iceberg.IcebergFormat):
        original = kind._compact

        def compact(self, *arguments, original=original, kind=kind):
            write = kind._write

            def written(*inner):
                found = write(*inner)
                point.passed("in compaction")
                return found

            kind._write = written
            try:
                return original(self, *arguments)
            finally:
                kind._write = write

        kind._compact = compact


def main(servers, topic, form, directory, text):
    point = Point(text)
    hook(point)
    if point.name == "random":
        threading.Timer(point.left / 1_000, die).start()
    settings = TableSettings(
        {
            "ottla.table.mode": "json",
            "ottla.table.format": form,
            "ottla.table.location": f"{directory}/{{topic}}",
            "ottla.table.lag.ms": "1",
            "ottla.table.commit.bytes": "2000",
        }
    )
    cluster = Cluster({"bootstrap.servers": servers})
    loop = TableLoop(topic, settings, table_of(topic, settings), cluster, None, SystemClock())
    end = time.monotonic() + HANG_S
    while time.monotonic() < end:
        wait_ms = loop.step()
        if loop.status.state in ("current", "halted"):
            break
        time.sleep(wait_ms / 1_000)
    assert loop.status.state == "current", loop.status
    rules = UpkeepRules(file_bytes=1_000_000, retention_ms=1, orphan_ms=3_600_000)
    loop._table().upkeep(rules, int(time.time() * 1_000))
    print("current", loop.status.commits, flush=True)
    cluster.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
