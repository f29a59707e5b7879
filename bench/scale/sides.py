"""The two brokers as bench.scale needs them: started, stopped, killed and started again on the same data.

    side = OttlaSide(directory)                   # or KafkaSide(jars, directory)
    with side.start(topics) as broker: ...        # returns when the last partition of every topic takes a record

1. A start has ended when a record is acknowledged by the last partition of every topic: a broker that answers questions
   and has not opened its logs is not ready. `ready_s` is the time from the start of the process until then.
2. Both have their defaults for one node, as bench.compare has them.
3. `bounded` ends any step that takes longer than its limit, with the step's name.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from bench.compare.brokers import ApacheKafka, Ottla
from bench.scale.asking import error_of_produce
from bench.walk import requests
from bench.walk.processes import ask, free_port

START_LIMIT_S: Final = 240.0
STEP_LIMIT_S: Final = 240.0
AGAIN_S: Final = 0.01
Topics = Mapping[str, int]
"""How many partitions each topic has."""


class StepTookTooLong(Exception):
    """A step of the bench did not end within its limit."""


@contextmanager
def bounded(step: str, limit_s: float = STEP_LIMIT_S) -> Iterator[None]:
    """Raise StepTookTooLong in the main thread when the step has not ended in time."""

    def too_late(_: int, __: FrameType | None) -> None:
        raise StepTookTooLong(f"{step} took longer than {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class PatientKafka(ApacheKafka):
    start_limit_s = START_LIMIT_S
    stop_limit_s = START_LIMIT_S
    ready_s = 0.0
    ready_cpu_s = 0.0


class PatientOttla(Ottla):
    start_limit_s = START_LIMIT_S
    stop_limit_s = START_LIMIT_S
    ready_s = 0.0
    ready_cpu_s = 0.0


Running = PatientKafka | PatientOttla


class Side(Protocol):
    """A make of brokers, with one data directory."""

    name: str

    def start(self, topics: Topics) -> Running: ...


class OttlaSide:
    name = "Ottla"

    def __init__(self, directory: Path, *settings: str) -> None:
        self._directory = directory
        self._settings = settings

    def start(self, topics: Topics) -> PatientOttla:
        broker = PatientOttla(self._directory, *self._settings)
        make_ready(broker, topics)
        return broker


class KafkaSide:
    name = "Kafka"

    def __init__(self, jars: Path, directory: Path) -> None:
        self._jars = jars
        self._directory = directory
        self._ports = free_port(), free_port()

    def start(self, topics: Topics) -> PatientKafka:
        broker = PatientKafka(self._jars, self._directory, ports=self._ports)
        make_ready(broker, topics)
        return broker


def make_ready(broker: Running, topics: Topics) -> None:
    """Wait until the last partition of every topic takes a record."""
    try:
        with bounded("the start", START_LIMIT_S):
            wait_for(broker.port, topics)
    except BaseException:
        broker.kill()
        raise
    broker.ready_s = time.perf_counter() - broker.begun_s
    broker.ready_cpu_s = broker.cpu_s


def wait_for(port: int, topics: Topics) -> None:
    for name, partitions in topics.items():
        request = requests.produce(0, partitions - 1, -1, name)
        while error_of_produce(ask(port, request), name):
            time.sleep(AGAIN_S)
