"""One planted bug on a copy of src: which seed finds it?"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from tests.planted.bug import SOURCE, Bug

from ottla.simulation.plan import Plan


@dataclass(frozen=True)
class Outcome:
    """`seed` is None when none of the schedules found it."""

    bug: Bug
    schedules: int
    seed: int | None = None
    anomalies: tuple[str, ...] = ()
    cpu_s: float = 0.0

    def line(self) -> str:
        if self.seed is None:
            return f"NOT FOUND  {self.bug.name} in {self.schedules} schedules, {self.cpu_s:.0f} s of CPU"
        names = ", ".join(self.anomalies)
        spent = f"{self.schedules} schedules, {self.cpu_s:.0f} s of CPU"
        return f"found      {self.bug.name} by seed {self.seed} after {spent}: {names}"


def fitting_seeds(bug: Bug, first: int = 1) -> Iterator[int]:
    """Seeds whose plan has what the bug needs, in the order of their numbers."""
    for seed in count(first):
        plan = Plan.drawn(seed, bug.brokers)
        if set(bug.needs) <= set(plan.loads) and set(bug.kinds) <= set(plan.kinds) and plan.kinds + plan.client_kinds:
            yield seed


def seek(bug: Bug, *, limit: int, timeout_s: float, first: int = 1) -> Outcome:
    """Run fitting seeds until one finds it."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        source = Path(directory) / "src"
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__", "*.c", "*.egg-info"))
        bug.apply(source)
        return _run(bug, source, list(islice(fitting_seeds(bug, first), limit)), timeout_s)


def _run(bug: Bug, source: Path, seeds: list[int], timeout_s: float) -> Outcome:
    wanted = ",".join(map(str, [*seeds, seeds[-1]]))
    command = [sys.executable, "-m", "ottla.simulation", "--seeds", wanted, "--first", "--json", "--show", "40"]
    if bug.brokers is not None:
        command += ["--brokers", str(bug.brokers)]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{") and line.endswith("}")]
    if not lines:
        raise RuntimeError(f"{bug.name}: {' '.join(command)} printed nothing\n{errors[-2000:]}")
    return _outcome(bug, lines[: len(seeds)])


def _outcome(bug: Bug, lines: list[dict[str, object]]) -> Outcome:
    cpu_s = sum(float(str(line["cpu_s"])) for line in lines)
    last = lines[-1]
    found = last["anomalies"]
    assert isinstance(found, list)
    if not found:
        return Outcome(bug, len(lines), cpu_s=cpu_s)
    return Outcome(bug, len(lines), int(str(last["seed"])), tuple(sorted({name for name, _ in found})), cpu_s)
