"""Requests of one record on many connections, each of which waits for its answer: what a sync for all of them costs.

    Ottla, durable            answers after the sync, its default for one replica
    Ottla, replicated         answers when the kernel has it
    Kafka                     its defaults: it never syncs for a produce
    Kafka, flush.messages=1   syncs after every batch, each partition for itself

All four are up, one works while the others are idle. The load is bench.walk.load, one process for all connections:
without producer ids, as librdkafka sends by default, and as idempotent producers, which Java's client and ours are.
"""

from __future__ import annotations

import os
import statistics
from contextlib import ExitStack
from typing import Final

from bench.compare.brokers import ApacheKafka, Broker, Ottla
from bench.compare.parts import Plan
from bench.walk import requests
from bench.walk.figures import Figure
from bench.walk.processes import ask, load
from bench.walk.throughput import new_directory

CONNECTIONS: Final = 200
PARTITIONS: Final = 4
TASK: Final = {"connections": CONNECTIONS, "in_flight": 1, "partitions": PARTITIONS, "batch_bytes": 0, "acks": -1}
SECONDS: Final = 3.0
WARM_S: Final = 0.5
NO_ID, IDEMPOTENT = KINDS = "no producer id", "idempotent"
DURABLE, REPLICATED, KAFKA, SYNCED = "Ottla, durable", "Ottla, replicated", "Kafka", "Kafka, flush.messages=1"


class _Seen:
    """Requests a second and broker CPU of one side, round by round."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.cpu_us: list[float] = []

    def add(self, broker: Broker, seconds: float, *, idempotent: bool = False) -> None:
        before_s = broker.cpu_s
        found = load("produce", broker.port, **TASK, idempotent=idempotent, warm_s=WARM_S, seconds=seconds)
        rate = sum(found["answers"]) / found["seconds"]
        self.rates.append(rate)
        self.cpu_us.append((broker.cpu_s - before_s) * 1e6 / (rate * (seconds + WARM_S)))


def durable(plan: Plan) -> list[Figure]:
    seen = {kind: {name: _Seen() for name in (DURABLE, REPLICATED, KAFKA, SYNCED)} for kind in KINDS}
    with ExitStack() as stack:
        at = [stack.enter_context(new_directory(plan.root)) for _ in range(4)]
        brokers: dict[str, Broker] = {
            DURABLE: stack.enter_context(Ottla(at[0], "ottla.durability=durable")),
            REPLICATED: stack.enter_context(Ottla(at[1])),
            KAFKA: stack.enter_context(ApacheKafka(plan.jars, at[2])),
            SYNCED: stack.enter_context(ApacheKafka(plan.jars, at[3], "log.flush.interval.messages=1")),
        }
        for broker in brokers.values():
            ask(broker.port, requests.create_topic(PARTITIONS))
            _Seen().add(broker, SECONDS)
        for number in range(plan.rounds):
            for kind, sides in seen.items():
                for name, broker in list(brokers.items())[:: 1 if number % 2 else -1]:
                    os.sync()
                    sides[name].add(broker, SECONDS, idempotent=kind == IDEMPOTENT)
    return [figure for kind, sides in seen.items() for figure in _figures(kind, sides)]


def _figures(kind: str, seen: dict[str, _Seen]) -> list[Figure]:
    durable, kafka, replicated = seen[DURABLE], seen[KAFKA], seen[REPLICATED]
    return [
        _rates(f"{kind}: durable / Kafka without a sync", durable, kafka, at_least=1.0),
        _cpu(f"{kind}: the same, CPU of the broker", durable, kafka, at_most=0.6),
        _rates(f"{kind}: durable / Kafka with flush.messages=1", durable, seen[SYNCED]),
        _rates(f"{kind}: replicated / Kafka without a sync", replicated, kafka),
        _rates(f"{kind}: durable / replicated", durable, replicated),
        _cpu(f"{kind}: the same, CPU of the broker", durable, replicated),
    ]


def _rates(name: str, ours: _Seen, theirs: _Seen, at_least: float | None = None) -> Figure:
    medians = f"{statistics.median(ours.rates):,.0f} / {statistics.median(theirs.rates):,.0f} requests/s"
    ratio = statistics.median(a / b for a, b in zip(ours.rates, theirs.rates, strict=True))
    return Figure(f"one record a request, {name}", ratio, f"{medians}, {CONNECTIONS} connections", at_least=at_least)


def _cpu(name: str, ours: _Seen, theirs: _Seen, at_most: float | None = None) -> Figure:
    medians = f"{statistics.median(ours.cpu_us):.0f} / {statistics.median(theirs.cpu_us):.0f} us per request"
    ratio = statistics.median(a / b for a, b in zip(ours.cpu_us, theirs.cpu_us, strict=True))
    return Figure(f"one record a request, {name}", ratio, medians, at_most=at_most)
