"""What checking rights costs: a broker with an authorizer and rules against one without, in turns.

Both run side by side and are measured one right after the other; which one is first changes with every round. The
client is no super user: a rule allows what it does, among RULES others of its kind, literal and prefixed. Rates of two
processes on one machine differ by chance more than the check costs, so the figure is the broker's CPU per request.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.walk import requests
from bench.walk.figures import Figure
from bench.walk.processes import BrokerProcess, ask, load
from bench.walk.throughput import CONNECTIONS, Samples, fetch_once, new_directory, produce_once, produce_task

RULES: Final = 1_000
AT_LEAST: Final = 0.98
OPEN: Final = ("ottla.admin.listener=",)
CHECKED: Final = (
    *OPEN,
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",  # for the topic, before there are rules about it
)
FIRST_BYTES: Final = 16_384


def access(root: Path, rounds: int) -> list[Figure]:
    with (
        new_directory(root) as one,
        new_directory(root) as two,
        BrokerProcess(one, OPEN) as without,
        BrokerProcess(two, CHECKED) as checked,
    ):
        for broker in (without, checked):
            broker.create_topic(CONNECTIONS)
        ask(checked.port, requests.create_rules(RULES))
        for broker in (without, checked):
            load("produce", broker.port, **produce_task(FIRST_BYTES, 1))
        return [_compare(name, without, checked, measure, rounds) for name, measure in CELLS.items()]


def _produce(batch_bytes: int) -> Callable[[BrokerProcess], tuple[float, float]]:
    return lambda broker: produce_once(broker, broker.port, batch_bytes, 1)


def _fetch(broker: BrokerProcess) -> tuple[float, float]:
    rates, cpus = list[float](), list[float]()
    fetch_once(broker, broker.port, rates, cpus)
    return rates[0], cpus[0]


CELLS: Final = {
    "produce 1 KB, acks=1": _produce(1_000),
    "produce 16 KB, acks=1": _produce(16_384),
    "fetch 1 MB at a time": _fetch,
}


def _compare(
    name: str,
    without: BrokerProcess,
    checked: BrokerProcess,
    measure: Callable[[BrokerProcess], tuple[float, float]],
    rounds: int,
) -> Figure:
    samples = Samples()
    for number in range(rounds):
        for broker in (without, checked) if number % 2 else (checked, without):
            rate, cpu_us = measure(broker)
            (samples.ours if broker is checked else samples.theirs).append(rate)
            (samples.cpu_ours if broker is checked else samples.cpu_theirs).append(cpu_us)
    ratios = sorted(theirs / ours for ours, theirs in zip(samples.cpu_ours, samples.cpu_theirs, strict=True))
    rates = statistics.median(ours / theirs for ours, theirs in zip(samples.ours, samples.theirs, strict=True))
    cpu = f"CPU {statistics.median(samples.cpu_theirs):.1f} / {statistics.median(samples.cpu_ours):.1f} us per request"
    spread = f"{ratios[len(ratios) // 4]:.3f}-{ratios[-len(ratios) // 4]:.3f}"
    return Figure(
        f"{name}: CPU without / with rules",
        statistics.median(ratios),
        f"{cpu}, quartiles {spread}; rate {rates:.3f}",
        at_least=AT_LEAST,
    )
