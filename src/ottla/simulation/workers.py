"""Processes that run seeds beside each other, each in an interpreter of its own.

    with Workers(2) as workers:
        for outcome in workers.run(iter(range(1, 50_001)), asked):
            tally.add(outcome)

1. A process has one seed at a time, and is replaced by a new one after RUNS_PER_LIFE, so that memory stays bounded.
2. A process that dies, or does not answer within LIMIT_S of real time, is an anomaly of the seed that it had (`died`,
   `hung`), and is replaced.
3. Ctrl-C reaches whoever asked and not the processes; they end when `Workers` does, also when it is killed: the other
   end of their pipe is closed then.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection, wait
from types import MappingProxyType, TracebackType
from typing import Any, Final

from ottla.simulation.tally import Outcome, outcome_of

RUNS_PER_LIFE: Final = 400
LIMIT_S: Final = 600.0
JOIN_S: Final = 5.0

_PROCESSES: Final = multiprocessing.get_context("spawn")  # what a fork inherits is another world in every process


def run_one(seed: int, asked: Mapping[str, Any]) -> Outcome:
    """The outcome of a seed. `asked`: is_short, brokers, controllers, loads, faults, shown."""
    from ottla.light_dataclasses import replace
    from ottla.simulation.plan import Plan
    from ottla.simulation.run import run_plan

    plan = (Plan.short if asked.get("is_short") else Plan.drawn)(seed, asked.get("brokers"))
    if asked.get("controllers"):
        plan = plan.under_controllers(asked.get("brokers"))
    if asked.get("loads"):
        plan = replace(plan, loads=tuple(asked["loads"]))
    if asked.get("faults"):
        plan = plan.with_kinds(asked["faults"])
    return outcome_of(run_plan(plan), asked.get("shown", 10))


def serve(pipe: Connection, asked: Mapping[str, Any]) -> None:
    """A process: run what comes through the pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # every run collects its own rubbish; a search among everything else costs a tenth of its time
    try:
        while True:
            pipe.send(run_one(pipe.recv(), asked))
    except (EOFError, BrokenPipeError):
        return


class _Worker:
    """One process, and the seed that it has."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.pipe, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=serve, args=(theirs, dict(asked)), daemon=True)
        self._process.start()
        theirs.close()
        self.asked = asked
        self.runs = 0
        self.seed: int | None = None
        self._began_s = 0.0

    def start(self, seed: int) -> None:
        self.seed, self._began_s = seed, time.monotonic()
        self.pipe.send(seed)

    def is_late(self) -> bool:
        return self.seed is not None and time.monotonic() - self._began_s > LIMIT_S

    def receive(self) -> Outcome:
        """Its answer; that it died when there is none."""
        seed, self.seed = self.seed, None
        assert seed is not None, "it has one"
        self.runs += 1
        try:
            outcome: Outcome = self.pipe.recv()
            return outcome
        except (EOFError, OSError):
            self._process.join(JOIN_S)
            return broken(seed, "died", f"the process that ran it ended with {self._process.exitcode}", self.asked)

    def end(self) -> None:
        self.pipe.close()
        self._process.terminate()
        self._process.join(JOIN_S)
        if self._process.is_alive():
            self._process.kill()


def broken(seed: int, name: str, story: str, asked: Mapping[str, Any] = MappingProxyType({})) -> Outcome:
    """The outcome of a seed that gave none."""
    nothing = {"virtual_s": 0.0, "cpu_s": 0.0, "steps": 0, "acknowledged": 0, "events": 0}
    words = ["ottla simulate", *(["--short"] if asked.get("is_short") else []), f"--seed {seed}"]
    words += [f"--brokers {asked['brokers']}"] if asked.get("brokers") else []
    words += ["--controllers"] if asked.get("controllers") else []
    words += [f"--loads {','.join(asked['loads'])}"] if asked.get("loads") else []
    words += [f"--faults {','.join(asked['faults'])}"] if asked.get("faults") else []
    found = {"anomalies": [[name, story]], "repeat": " ".join(words)}
    return {"seed": seed, "brokers": 0, "loads": [], "kinds": {}, "digest": "0", **nothing, **found}


class Workers:
    """See the module."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def run(self, seeds: Iterator[int], asked: Mapping[str, Any]) -> Iterator[Outcome]:
        """The outcomes, as they come."""
        for seed in seeds:
            self._add(seed, asked)
            if len(self._workers) == self._count:
                break
        while self._workers:
            for worker in self._ready():
                yield worker.receive() if not worker.is_late() else self._give_up(worker)
                self._go_on(worker, next(seeds, None), asked)

    def _add(self, seed: int, asked: Mapping[str, Any]) -> None:
        worker = _Worker(asked)
        self._workers.append(worker)
        worker.start(seed)

    def _ready(self) -> list[_Worker]:
        """Those that have an answer, or are late with it."""
        while True:
            pipes = wait([worker.pipe for worker in self._workers], timeout=1.0)
            ready = [worker for worker in self._workers if worker.pipe in pipes or worker.is_late()]
            if ready:
                return ready

    def _give_up(self, worker: _Worker) -> Outcome:
        assert worker.seed is not None, "it is late"
        worker.runs = RUNS_PER_LIFE
        return broken(worker.seed, "hung", f"no answer within {LIMIT_S:g} s", worker.asked)

    def _go_on(self, worker: _Worker, seed: int | None, asked: Mapping[str, Any]) -> None:
        if seed is not None and worker.runs < RUNS_PER_LIFE:
            try:
                worker.start(seed)
                return
            except OSError:
                pass  # it died
        self._workers.remove(worker)
        worker.end()
        if seed is not None:
            self._add(seed, asked)
