"""What is measured on both brokers, turn by turn."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.walk import throughput
from bench.walk.processes import ENVIRONMENT, BrokerProcess, load
from bench.walk.throughput import CELLS, FETCH_BYTES, new_directory

TURNS: Final = 5
WORSE_BY: Final = 0.05
TOOL_BYTES: Final = 320 << 20
TOOL_RECORD_BYTES: Final = (100, 1_024)
LATENCY_RECORDS: Final = 10_000


@dataclass(frozen=True)
class Sides:
    """The two trees, and where brokers may write."""

    before: Path
    after: Path
    scratch: Path

    @contextmanager
    def both_up(self, *, after_first: bool) -> Iterator[dict[str, BrokerProcess]]:
        """A broker of each tree, in directories that are removed."""
        trees = {"after": self.after, "before": self.before}
        names = sorted(trees, reverse=not after_first)
        with new_directory(self.scratch) as directory, ExitStack() as stack:
            brokers = {}
            for name in names:
                brokers[name] = stack.enter_context(TreeBroker(trees[name], directory / name))
            yield brokers


class TreeBroker(BrokerProcess):
    """The broker of one tree."""

    def __init__(self, tree: Path, directory: Path) -> None:
        self.directory = tree
        self.environment = {
            **ENVIRONMENT,
            "PYTHONPATH": f"{tree}/src:{tree}",
            "PYTHONPYCACHEPREFIX": f"{tempfile.gettempdir()}/ottla-turns-bytecode-{os.getpid()}-{tree.name}",
        }
        super().__init__(directory)


@dataclass
class Ratio:
    """This tree's figure over that of the commit, in every turn."""

    what: str
    more_is_better: bool
    unit: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)

    @property
    def quartiles(self) -> list[float]:
        ratios = [new / old for old, new in zip(self.before, self.after, strict=True)]
        return statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3

    @property
    def is_worse(self) -> bool:
        median = self.quartiles[1]
        return median < 1 - WORSE_BY if self.more_is_better else median > 1 + WORSE_BY

    def add(self, side: str, value: float) -> None:
        (self.before if side == "before" else self.after).append(value)

    def row(self) -> str:
        low, median, high = self.quartiles
        values = f"{statistics.median(self.after):,.4g} / {statistics.median(self.before):,.4g} {self.unit}"
        mark = " worse" if self.is_worse else ""
        return f"{self.what:44} {median:6.3f}   {low:.2f} to {high:.2f}   {values}{mark}"


def table(ratios: list[Ratio]) -> str:
    head = f"{'this tree / the commit':44} median   middle half    medians"
    return "\n".join([head, *(each.row() for each in ratios)])


def walk(sides: Sides, rounds: int) -> list[Ratio]:
    """The loads of bench.walk: produce in four ways, and fetch."""
    found: dict[str, tuple[Ratio, Ratio]] = {}
    for number in range(rounds):
        with sides.both_up(after_first=number % 2 == 0) as brokers:
            for broker in brokers.values():
                broker.create_topic(throughput.CONNECTIONS)
            for name, batch_bytes, acks, _ in CELLS:
                what = name.partition(":")[0]
                pair = found.setdefault(what, _rate_and_cpu(what))
                for turn in range(TURNS):
                    for side in sorted(brokers, reverse=turn % 2 == 0):
                        rate, cpu_us = throughput.produce_once(brokers[side], brokers[side].port, batch_bytes, acks)
                        pair[0].add(side, rate)
                        pair[1].add(side, cpu_us)
            pair = found.setdefault("fetch 1 MB", _rate_and_cpu("fetch 1 MB"))
            _fetch_turns(brokers, pair)
    return [each for pair in found.values() for each in pair]


def _rate_and_cpu(what: str) -> tuple[Ratio, Ratio]:
    return Ratio(what, True, "MB/s"), Ratio(f"{what}, CPU", False, "us per request")


def _fetch_turns(brokers: dict[str, BrokerProcess], pair: tuple[Ratio, Ratio]) -> None:
    for turn in range(TURNS):
        for side in sorted(brokers, reverse=turn % 2 == 0):
            broker, before_s = brokers[side], brokers[side].cpu_s
            seen = load("fetch", broker.port, fetch_bytes=FETCH_BYTES, partition=0, warm_s=0.2, seconds=0.7)
            pair[0].add(side, seen["bytes"] / seen["seconds"] / 1e6)
            pair[1].add(side, (broker.cpu_s - before_s) / seen["bytes"] * FETCH_BYTES * 1e6)


def start(sides: Sides, rounds: int) -> list[Ratio]:
    """Start to the first answer, and the CPU of it; the first start of each is not counted."""
    answered, cpu = Ratio("start to the first answer", False, "s"), Ratio("start, CPU", False, "s")
    for number in range(rounds + 1):
        for side, tree in sorted({"after": sides.after, "before": sides.before}.items(), reverse=number % 2 == 0):
            with new_directory(sides.scratch) as directory, TreeBroker(tree, directory / side) as broker:
                if number:
                    answered.add(side, broker.answered_s)
                    cpu.add(side, broker.start_cpu_s)
    return [answered, cpu]


def tools(sides: Sides, rounds: int) -> list[Ratio]:
    """The loads of bench.compare: Apache's own programs, with 100 B and 1 KB records."""
    from bench.compare.tools import Amount, Tools
    from tests.conformance.kafka_jars import find_jars

    programs = Tools(find_jars("4.3"), sides.scratch)
    found: dict[str, Ratio] = {}

    def note(what: str, side: str, value: float, *, more_is_better: bool = True, unit: str = "MB/s") -> None:
        found.setdefault(what, Ratio(what, more_is_better, unit)).add(side, value)

    for number in range(rounds):
        with sides.both_up(after_first=number % 2 == 0) as brokers:
            for size in TOOL_RECORD_BYTES:
                records = TOOL_BYTES // size
                for side, broker in brokers.items():
                    os.sync()
                    topic = f"records-{size}"
                    programs.create_topic(broker.port, topic, 4)
                    amount = Amount(records, records // 2, size)
                    note(f"ProducerPerformance {size} B", side, programs.produce(broker.port, topic, amount))
                    total = amount.records + amount.warm_records
                    note(f"ConsumerPerformance {size} B", side, programs.consume(broker.port, topic, total))
            for side, broker in brokers.items():
                programs.create_topic(broker.port, "one-by-one", 1)
                mean_ms, _ = programs.end_to_end(broker.port, "one-by-one", LATENCY_RECORDS, 100)
                note("EndToEndLatency, mean", side, mean_ms, more_is_better=False, unit="ms")
    return list(found.values())
