"""`ottla table run`: the worker as a process of its own, with a progress line on a terminal while tables are behind."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import sentences, settings_of
from ottla.cli.output import FAILED, OK
from ottla.cli.tables.common import cluster_of, ensure_library, overrides_of, registry_of, storage_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from ottla.tables.loop import TableStatus

SESSION_MS: Final = 10_000
"""So long are the tables of a killed worker nobody's."""
LOG_FORM: Final = "%(asctime)s %(levelname)s %(message)s"


def run_tables(options: argparse.Namespace, stop: threading.Event, ready: Callable[[], None] = lambda: None) -> int:
    """Until `stop`, or with --once until the tables are current."""
    import logging
    import sys

    ensure_library()
    from ottla.client.consumer.consumer import Consumer
    from ottla.clock import SystemClock
    from ottla.tables.process import ProcessRules, TableProcess

    logging.basicConfig(level=logging.INFO, format=LOG_FORM, stream=sys.stderr)
    for quiet in ("pyiceberg", "ottla.client"):
        logging.getLogger(quiet).setLevel(logging.WARNING)
    client = settings_of(options)
    group = None if options.group == "none" or options.once else options.group
    rules = ProcessRules(
        tuple(options.topics), overrides_of(options), storage_of(options), group=group, once=options.once
    )

    def member() -> Consumer:
        return Consumer(
            {
                **client,
                "group.id": group,
                "partition.assignment.strategy": "roundrobin",
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": SESSION_MS // 5,
            }
        )

    with sentences(), cluster_of(options) as cluster:
        process = TableProcess(cluster, registry_of(options), SystemClock(), rules, member)
        ready()
        with _Shown() as shown:
            process.run(stop, shown.tick)
        return _ended(process.statuses(), options)


def _ended(statuses: Sequence[TableStatus], options: argparse.Namespace) -> int:
    """What --once has to say."""
    if not options.once:
        return OK
    halted = [status for status in statuses if status.reason]
    for status in statuses:
        words = status.reason or f"current, {status.rows:,} records in {status.commits} commits"
        print(f"{status.topic}: {words}")
    return FAILED if halted else OK


class _Shown:
    """A progress line on a terminal, as long as tables are behind."""

    def __init__(self) -> None:
        from ottla.cli.progress import Progress

        self._make = Progress
        self._line: Any = None
        self._total = 0

    def __enter__(self) -> _Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self._take_away()

    def _take_away(self) -> None:
        if self._line is not None:
            self._line.__exit__()
            self._line = None

    def tick(self, statuses: Sequence[TableStatus]) -> None:
        behind = sum(status.records_behind for status in statuses)
        if not behind:
            self._take_away()
            return
        if self._line is None:
            self._total = behind
            self._line = self._make("tables", total=float(behind), unit="records")
        self._total = max(self._total, behind)
        slowest = max(statuses, key=lambda status: status.records_behind)
        self._line.reach(self._total - behind, slowest.topic)
