"""The metrics that Apache Kafka has through the JMX exporter: name, kind and labels, after some work.

names = recorded_names()                         # from tests/golden/jmx, names only
names = names_of_kafka(scratch)                  # from a Kafka that is started here, with the exporter's agent
python -m tests.conformance.jmx_names            # writes the file again
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from tests.client.metrics_workload import worked
from tests.client.scraped import Scraped, scrape
from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.kafka_jars import find_jars

RULES = Path(__file__).with_name("jmx_rules.yml")
RECORDED = Path(__file__).parent.parent / "golden" / "jmx" / "kafka-4.3.1.txt"


class Name(NamedTuple):
    """A metric as Kafka shows it. A summary is what has quantiles."""

    name: str
    kind: str
    labels: frozenset[str]

    def __str__(self) -> str:
        return f"{self.name} {self.kind} {','.join(sorted(self.labels))}".strip()


def recorded_names() -> list[Name]:
    lines = [line.split() for line in RECORDED.read_text().splitlines() if not line.startswith("#")]
    return [Name(name, kind, frozenset(labels[0].split(",") if labels else ())) for name, kind, *labels in lines]


def names_in(found: Scraped) -> list[Name]:
    """Every name with all labels that any of its series has; those of the exporter and of Java are left out."""
    names = []
    for heading, kind in found.kinds.items():
        # The agent writes x_count_total over series that are called x_count.
        name = heading if heading in found.series else heading.removesuffix("_total")
        if name.startswith(("jmx_", "jvm_", "java_")):
            continue
        labels = {label for series in found.labels(name) for label in series}
        if "quantile" in labels:
            names.append(Name(name, "summary", frozenset(labels - {"quantile"})))
        elif not (name.endswith("_count") and "quantile" in _all_labels(found, name.removesuffix("_count"))):
            names.append(Name(name, "gauge" if kind == "untyped" else kind, frozenset(labels)))
    return sorted(names)


def _all_labels(found: Scraped, name: str) -> set[str]:
    return {label for series in found.labels(name) for label in series} if name in found.series else set()


@contextmanager
def watched_kafka(scratch: Path) -> Iterator[tuple[KafkaBroker, str]]:
    """Apache Kafka 4.3.1 with the agent; and the address of its metrics."""
    agent = next(find_jars("jmx", "jmx").glob("*.jar"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    broker = KafkaBroker(find_jars("4.3"), scratch, scratch / "data")
    broker.format()
    option = f"-javaagent:{agent}=127.0.0.1:{port}:{RULES}"
    with mock.patch.dict(os.environ, {"JAVA_TOOL_OPTIONS": option}):
        broker.start()
    try:
        yield broker, f"127.0.0.1:{port}"
    finally:
        broker.stop()


def names_of_kafka(scratch: Path) -> list[Name]:
    with watched_kafka(scratch) as (broker, address), worked(broker.bootstrap):
        return names_in(scrape(address))


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        names = names_of_kafka(Path(scratch))
    RECORDED.parent.mkdir(exist_ok=True)
    head = "# Metrics of Apache Kafka 4.3.1: name, kind, labels (python -m tests.conformance.jmx_names).\n"
    RECORDED.write_text(head + "".join(f"{each}\n" for each in names))


if __name__ == "__main__":
    main()
