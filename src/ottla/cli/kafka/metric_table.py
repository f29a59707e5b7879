"""The table of --print-metrics: every metric of a client by group, name and tags, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.metrics import MetricKey


def print_metrics(metrics: Mapping[MetricKey, float]) -> None:
    rows = {}
    for key, number in metrics.items():
        tags = ", ".join(f"{name}={text}" for name, text in key.tags)
        rows[f"{key.group}:{key.name}:{{{tags}}}"] = number
    width = max(map(len, rows), default=0)
    print(f"\n{'Metric Name':<{width}}   Value")
    for name in sorted(rows):
        print(f"{name:<{width}} : {rows[name]:.3f}")
