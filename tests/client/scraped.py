"""What a broker's /metrics says, read as Prometheus reads it.

found = scrape(address)
found.value("kafka_log_log_size", topic="orders", partition="0")
found.kinds["kafka_log_log_size"]                                  # "gauge"
found.labels("kafka_log_log_size")                                 # {("partition", "topic")}
"""

from __future__ import annotations

import re
import urllib.request
from collections import defaultdict

from tests.patience import HANG_S

LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')


class Scraped:
    def __init__(self, text: str) -> None:
        self.kinds: dict[str, str] = {}
        self.series: dict[str, dict[tuple[tuple[str, str], ...], float]] = defaultdict(dict)
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in self.kinds, f"{name} has two headings"
                self.kinds[name] = kind
            elif line and not line.startswith("#"):
                self._add(line)

    def _add(self, line: str) -> None:
        match = LINE.match(line)
        assert match is not None, line
        labels = tuple(sorted(LABEL.findall(match[2] or "")))
        assert labels not in self.series[match[1]], f"twice: {line}"
        self.series[match[1]][labels] = float(match[3])

    def value(self, name: str, **labels: str) -> float:
        return self.series[name][tuple(sorted(labels.items()))]

    def sum(self, name: str, **labels: str) -> float:
        """Of all series that have these labels, among others."""
        return sum(value for key, value in self.series[name].items() if labels.items() <= dict(key).items())

    def labels(self, name: str) -> set[tuple[str, ...]]:
        return {tuple(sorted(label for label, _ in key)) for key in self.series[name]}


def scrape(address: str | tuple[str, int]) -> Scraped:
    host = address if isinstance(address, str) else f"{address[0]}:{address[1]}"
    with urllib.request.urlopen(f"http://{host}/metrics", timeout=HANG_S) as answer:
        return Scraped(answer.read().decode())
