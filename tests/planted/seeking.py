"""One planted bug on a copy of src: which seed finds it?

1. Only schedules run that can show the bug (Bug.shows); what they do is what the campaign would do.
2. An anomaly counts when the same seed does not have it without the patch; otherwise the search goes on.
3. The search ends after so many schedules, or so many seconds of CPU.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.planted.bug import SOURCE, Bug

from ottla.simulation.plan import Plan

ROOT = SOURCE.parent
WITHOUT_PATCH: dict[tuple[int, int | None, bool], set[str]] = {}  # what seeds have by themselves; many bugs share seeds


@dataclass(frozen=True)
class Outcome:
    """`seed` is None when none of the schedules found it."""

    bug: Bug
    schedules: int
    seed: int | None = None
    anomalies: tuple[str, ...] = ()
    cpu_s: float = 0.0
    next_seed: int = 1  # where the search would go on

    def line(self) -> str:
        if self.seed is None:
            return f"NOT FOUND  {self.bug.name} in {self.schedules} schedules, {self.cpu_s:.0f} s of CPU"
        names = ", ".join(self.anomalies)
        spent = f"{self.schedules} schedules, {self.cpu_s:.0f} s of CPU"
        return f"found      {self.bug.name} by seed {self.seed} after {spent}: {names}"

    def plain(self) -> dict[str, Any]:
        """As values for JSON."""
        return {
            "seed": self.seed,
            "brokers": self.bug.brokers,
            "schedules": self.schedules,
            "anomalies": list(self.anomalies),
            "cpu_s": round(self.cpu_s, 1),
            "next": self.next_seed,
        }


def fitting_seeds(bug: Bug, first: int = 1) -> Iterator[int]:
    """Seeds whose plan has what the bug needs, in the order of their numbers."""
    return (seed for seed in count(first) if bug.shows(Plan.drawn(seed, bug.brokers)))


def seek(bug: Bug, *, limit: int, cpu_s: float, first: int = 1) -> Outcome:
    """Run fitting seeds until one finds it."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        source = Path(directory) / "src"
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("*.c", "*.egg-info"))
        bug.apply(source)
        return _Search(bug, source, cpu_s).run(limit, first)


class _Search:
    def __init__(self, bug: Bug, source: Path, cpu_s: float) -> None:
        self._bug = bug
        self._source = source
        self._left_s = cpu_s
        self._spent_s = 0.0
        self._schedules = 0
        self._next = 1

    def run(self, limit: int, first: int) -> Outcome:
        seeds = fitting_seeds(self._bug, first)
        wanted = [next(seeds) for _ in range(limit)]
        while wanted and self._left_s > 0:
            lines = self._lines(self._source, wanted, self._left_s)
            self._schedules += len(lines)
            self._next = lines[-1]["seed"] + 1
            wanted = wanted[len(lines) :]
            last = lines[-1]
            names = {name for name, _ in last["anomalies"]}
            if names and (new := names - self._without_patch(last["seed"])):
                return self._outcome(last["seed"], tuple(sorted(new)))
        return self._outcome(None, ())

    def _outcome(self, seed: int | None, anomalies: tuple[str, ...]) -> Outcome:
        return Outcome(self._bug, self._schedules, seed, anomalies, self._spent_s, self._next)

    def _without_patch(self, seed: int) -> set[str]:
        key = seed, self._bug.brokers, self._bug.python
        if key not in WITHOUT_PATCH:
            (line,) = self._lines(SOURCE, [seed], 60.0)
            WITHOUT_PATCH[key] = {name for name, _ in line["anomalies"]}
        return WITHOUT_PATCH[key]

    def _lines(self, source: Path, seeds: list[int], cpu_s: float) -> list[dict[str, Any]]:
        """What a process says that runs these seeds until one of them has an anomaly."""
        task = json.dumps({"seeds": seeds, "brokers": self._bug.brokers, "cpu_s": cpu_s})
        command = [sys.executable, "-m", "tests.planted.run_seeds", task]
        path = os.pathsep.join((str(source), str(ROOT)))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        if self._bug.python:
            environment["OTTLA_RECORDS"] = "python"
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise RuntimeError(f"{self._bug.name}: {' '.join(command)} printed nothing\n{done.stderr[-2000:]}")
        spent_s = sum(float(line["cpu_s"]) for line in lines)
        self._spent_s += spent_s
        self._left_s -= spent_s
        return lines
