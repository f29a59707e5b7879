"""`python -m bench.registry`: a schema registry with ten thousand schemas.

    python -m bench.registry                  10,000 schemas in 1,000 subjects
    python -m bench.registry --count 2000
    python -m bench.registry --markdown       as docs/performance.md has it

1. One client, one connection, one request after the other over HTTP, on a broker of its own process. Every registration
   is committed before it is answered; compatibility is checked at the default level with the version before.
2. Memory is the broker's resident set before and after; a start is timed from fork to the first answer that needs all
   schemas (the last id), so the replay of the topic is in it.
3. Other work on the machine disturbs the times; CPU is the broker's own, user and system.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.our_broker import BrokerProcess, free_ports

VERSIONS = 10
ASKED = 500
HEADERS = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


class Row(NamedTuple):
    what: str
    value: str


class Registry:
    """One connection; `ask` gives the answer and the milliseconds it took."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[Any, float]:
        begin = time.perf_counter()
        self._connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
        answer = self._connection.getresponse()
        content = answer.read()
        took = (time.perf_counter() - begin) * 1_000
        assert answer.status == 200, content[:300]
        return json.loads(content), took

    def close(self) -> None:
        self._connection.close()


def schema(number: int, count: int) -> dict[str, str]:
    """Version by version one field more, with a default."""
    subjects = max(1, count // VERSIONS)
    fields = [{"name": f"f{each}", "type": "int", "default": 0} for each in range(number // subjects + 1)]
    return {"schema": json.dumps({"type": "record", "name": "R", "fields": fields, "own": number % subjects})}


def process_id(process: BrokerProcess) -> int:
    assert process._process is not None, "it runs"
    return process._process.pid


def usage(pid: int) -> tuple[float, float]:
    """Resident MB and CPU seconds of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(parts[11]) + int(parts[12])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, ticks / os.sysconf("SC_CLK_TCK")


def measured(count: int, directory: Path) -> list[Row]:
    (port,) = free_ports(1)
    process = BrokerProcess(directory, {"ottla.schema.registry.listener": f"127.0.0.1:{port}"})
    rows: list[Row] = []
    with process:
        registry, pid = Registry(port), process_id(process)
        registry.ask("GET", "/subjects")
        registry.ask("POST", "/subjects/first/versions", schema(0, count))  # the libraries are loaded with the first
        before_mb, before_s = usage(pid)
        subjects = max(1, count // VERSIONS)
        times = [
            registry.ask("POST", f"/subjects/subject-{number % subjects}/versions", schema(number, count))[1]
            for number in range(count)
        ]
        after_mb, after_s = usage(pid)
        rows.append(Row("a registration: median, 99th, longest", _three(times)))
        rows.append(Row("a registration: CPU of the broker", f"{(after_s - before_s) / count * 1_000:.2f} ms"))
        rows.append(Row("memory before and after", f"{before_mb:.0f} and {after_mb:.0f} MB"))
        rows += questions(registry, count)
        registry.close()
        process.kill()
        begin = time.perf_counter()
        process.start()
        again = Registry(port)
        again.ask("GET", f"/schemas/ids/{count}")
        rows.append(Row("kill -9, start, and the last schema", f"{time.perf_counter() - begin:.2f} s"))
        again.close()
    return rows


def questions(registry: Registry, count: int) -> list[Row]:
    subjects = max(1, count // VERSIONS)
    numbers = [number * 7_919 % count for number in range(ASKED)]
    names = [f"/subjects/subject-{number % subjects}" for number in numbers]
    asked = {
        "by id": [("GET", f"/schemas/ids/{number + 1}", None) for number in numbers],
        "the newest of a subject": [("GET", f"{name}/versions/latest", None) for name in names],
        "a lookup": [("POST", name, schema(each, count)) for name, each in zip(names, numbers, strict=True)],
        "all subjects": [("GET", "/subjects", None)] * 20,
        "all schemas": [("GET", "/schemas", None)] * 3,
    }  # fmt: skip
    return [
        Row(f"{name}: median, 99th, longest", _three([registry.ask(*each)[1] for each in calls]))
        for name, calls in asked.items()
    ]


def _three(times: list[float]) -> str:
    ordered = sorted(times)
    return f"{statistics.median(ordered):.2f}, {ordered[int(len(ordered) * 0.99)]:.2f}, {ordered[-1]:.2f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rows = measured(chosen.count, Path(directory))
    for row in rows:
        print(f"| {row.what} | {row.value} |" if chosen.markdown else f"{row.what:45} {row.value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
