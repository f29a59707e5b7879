"""What is measured on both brokers, side after side, and the bars.

Both brokers are up for the whole of a part, one works while the other is idle: a JVM that was started for each figure
would be measured before it is compiled. The sides take turns, and who begins changes from round to round. Before each
turn the disk is given what was written before (sync), so that nobody pays for the other. What is compared is the
median of the ratios of the rounds.

Figures that say `whole ms` come from tools that cut off; see tools.py. Those of single requests are timed by
bench.walk.load, to the microsecond, one Produce request at a time.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.compare.brokers import ApacheKafka, Broker, Ottla
from bench.compare.tools import Amount, Tools
from bench.walk import requests
from bench.walk.figures import Figure
from bench.walk.processes import ask, load
from bench.walk.throughput import new_directory, warm

PARTITIONS: Final = 4
SIZES: Final = (("100 B", 100), ("1 KB", 1_024))
PACE: Final = 2_000  # records a second: far below what either can
REQUEST_PACE: Final = 500
SETTLE_S: Final = 5.0
MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True)
class Plan:
    """How long everything takes."""

    jars: Path
    root: Path
    rounds: int
    produce_bytes: int = 640 * MEBIBYTE
    consume_bytes: int = 1_536 * MEBIBYTE
    latency_records: int = 20_000

    def shortened(self) -> Plan:
        """A quarter of the load, to see whether it works."""
        parts = self.produce_bytes // 4, self.consume_bytes // 4, self.latency_records // 4
        return Plan(self.jars, self.root, self.rounds, *parts)


class Samples:
    """What both sides did, round by round."""

    def __init__(self) -> None:
        self.ours: list[float] = []
        self.theirs: list[float] = []

    def add(self, broker: Broker, value: float) -> None:
        (self.ours if isinstance(broker, Ottla) else self.theirs).append(value)

    def ratio(self, cut_off: float = 0.0) -> float:
        pairs = zip(self.ours, self.theirs, strict=True)
        return statistics.median((ours + cut_off) / (theirs + cut_off) for ours, theirs in pairs)

    def text(self, form: str = ",.0f") -> str:
        return f"{statistics.median(self.ours):{form}} / {statistics.median(self.theirs):{form}}"

    def spread(self) -> str:
        ratios = sorted(ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True))
        return f"rounds {ratios[0]:.2f} to {ratios[-1]:.2f}"


@contextmanager
def both_up(plan: Plan) -> Iterator[list[Broker]]:
    with new_directory(plan.root) as one, new_directory(plan.root) as two:
        warm(plan.root)
        with ApacheKafka(plan.jars, one) as kafka, Ottla(two) as ottla:
            yield [kafka, ottla]


def turns(plan: Plan, brokers: list[Broker], turn: Callable[[Broker, str], None]) -> None:
    """Every broker once per round, with a topic name that no other turn has."""
    for number in range(plan.rounds):
        for broker in brokers if number % 2 else brokers[::-1]:
            os.sync()
            turn(broker, f"round-{number}")


def produce(plan: Plan) -> list[Figure]:
    tools = Tools(plan.jars, plan.root)
    figures = []
    for label, record_bytes in SIZES:
        samples, cpu = Samples(), Samples()
        records = plan.produce_bytes // record_bytes
        amount = Amount(records, records // 2, record_bytes)

        def turn(broker: Broker, topic: str, amount: Amount = amount, samples: Samples = samples) -> None:
            tools.create_topic(broker.port, topic, PARTITIONS)
            samples.add(broker, tools.produce(broker.port, topic, amount))
            tools.delete_topic(broker.port, topic)

        with both_up(plan) as brokers:
            _warm_up(tools, brokers, amount)
            turns(plan, brokers, _counting_cpu(turn, cpu, (amount.records + amount.warm_records) * record_bytes))
        detail = f"{samples.text()} MB/s; CPU of the broker {cpu.text('.1f')} ms per MB; {samples.spread()}"
        figures.append(Figure(f"produce {label}", samples.ratio(), detail, at_least=1.0))
    return figures


def consume(plan: Plan) -> list[Figure]:
    tools = Tools(plan.jars, plan.root)
    figures = []
    for label, record_bytes in SIZES:
        samples, cpu = Samples(), Samples()
        records = plan.consume_bytes // record_bytes

        def turn(broker: Broker, _: str, records: int = records, samples: Samples = samples) -> None:
            samples.add(broker, tools.consume(broker.port, "read", records))

        with both_up(plan) as brokers:
            for broker in brokers:
                tools.create_topic(broker.port, "read", PARTITIONS)
                tools.produce(broker.port, "read", Amount(records - 1, 1, record_bytes))
                tools.consume(broker.port, "read", records)
            turns(plan, brokers, _counting_cpu(turn, cpu, records * record_bytes))
        detail = f"{samples.text()} MB/s; CPU of the broker {cpu.text('.1f')} ms per MB; {samples.spread()}"
        figures.append(Figure(f"consume {label}", samples.ratio(), detail, at_least=1.0))
    return figures


def _warm_up(tools: Tools, brokers: list[Broker], amount: Amount) -> None:
    for broker in brokers:
        tools.create_topic(broker.port, "warm", PARTITIONS)
        tools.produce(broker.port, "warm", amount)
        tools.delete_topic(broker.port, "warm")


def _counting_cpu(turn: Callable[[Broker, str], None], cpu: Samples, size_bytes: int) -> Callable[[Broker, str], None]:
    def counted(broker: Broker, topic: str) -> None:
        before_s = broker.cpu_s
        turn(broker, topic)
        cpu.add(broker, (broker.cpu_s - before_s) * 1e3 / (size_bytes / MEBIBYTE))

    return counted


def latency(plan: Plan) -> list[Figure]:
    tools = Tools(plan.jars, plan.root)
    whole, mean, paced, single = Samples(), Samples(), Samples(), Samples()
    amount = Amount(plan.latency_records, plan.latency_records // 2, 100)

    def turn(broker: Broker, topic: str) -> None:
        tools.create_topic(broker.port, topic, 1)
        mean_ms, p99_ms = tools.end_to_end(broker.port, topic, plan.latency_records, 100)
        mean.add(broker, mean_ms)
        whole.add(broker, p99_ms)
        paced.add(broker, tools.paced_p99_ms(broker.port, topic, amount, PACE))
        tools.delete_topic(broker.port, topic)
        single.add(broker, _single_p99_ms(broker))

    with both_up(plan) as brokers:
        for broker in brokers:
            ask(broker.port, requests.create_topic(1))
            tools.create_topic(broker.port, "warm", 1)
            tools.end_to_end(broker.port, "warm", plan.latency_records, 100)
        turns(plan, brokers, turn)
    return [
        Figure("p99, EndToEndLatency", whole.ratio(1), f"{whole.text()} whole ms", at_most=1.0),
        Figure("mean, EndToEndLatency", mean.ratio(), f"{mean.text('.3f')} ms"),
        Figure(f"p99, ProducerPerformance at {PACE:,}/s", paced.ratio(1), f"{paced.text()} whole ms", at_most=1.0),
        Figure(f"p99, single requests at {REQUEST_PACE}/s", single.ratio(), f"{single.text('.3f')} ms", at_most=1.0),
    ]


def _single_p99_ms(broker: Broker) -> float:
    task = {"batch_bytes": 0, "acks": -1, "rate": REQUEST_PACE, "warm_s": 0.5, "seconds": 4.0}
    times = sorted(load("pace", broker.port, **task)["times_s"])
    return float(times[int(0.99 * len(times))] * 1e3)


def start(plan: Plan) -> list[Figure]:
    """Start and idle memory, each broker alone on the machine; the first start of each is not counted."""
    starts, memory = Samples(), Samples()
    for number in range(1 + max(3, plan.rounds)):
        for side in (ApacheKafka, Ottla):
            with new_directory(plan.root) as directory:
                broker = ApacheKafka(plan.jars, directory) if side is ApacheKafka else Ottla(directory)
                with broker:
                    time.sleep(SETTLE_S)
                    if number:
                        starts.add(broker, broker.answered_s)
                        memory.add(broker, broker.rss_mb)
    when = f"{SETTLE_S:g} s after the first answer"
    return [
        Figure("start to first answered request", starts.ratio(), f"{starts.text('.2f')} s", at_most=0.1),
        Figure("idle memory (RSS)", memory.ratio(), f"{memory.text()} MB, {when}", at_most=0.2),
    ]
