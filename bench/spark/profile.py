"""What a micro-batch through our source and sink is made of: which process works when, and what of it is ours.

Spark's Python processes load stamps/sitecustomize.py, which notes every piece of work; this adds the notes up for each
batch and puts Spark's own durations beside them. What no Python process did is the JVM's: planning, scheduling, files.
"""

from __future__ import annotations

import json
import os
import statistics
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.walk.figures import Figure

if TYPE_CHECKING:
    from bench.spark.both import Both

STAMPS: Final = "OTTLA_STAMPS"
WHOLE: Final = "triggerExecution"


def prepare(directory: Path) -> None:
    """Before the session begins: its Python processes get the environment of this one."""
    place = directory / "stamps"
    place.mkdir()
    here = Path(__file__).parent / "stamps"
    os.environ[STAMPS] = str(place)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])


def profile(both: Both) -> list[Figure]:
    from bench.spark.parts import EXACTLY_ONCE, run_batches

    found: dict[str, list[float]] = defaultdict(list)
    for number in range(both.rounds + 1):
        batches = run_batches(both, "ottla", sink=EXACTLY_ONCE)
        notes = _notes()
        for batch in batches if number else []:
            for name, spent_ms in _parts(batch, notes).items():
                found[name].append(spent_ms)
    return [Figure(name, statistics.median(each), f"{len(each)} batches", unit=" ms") for name, each in found.items()]


def _notes() -> list[tuple[str, float, float]]:
    lines = [line for path in Path(os.environ[STAMPS]).iterdir() for line in path.read_text().splitlines()]
    return [(what, begin, end) for what, begin, end in map(json.loads, lines)]


def _parts(batch: dict[str, Any], notes: list[tuple[str, float, float]]) -> dict[str, float]:
    """What Spark says of a batch, and what Python processes did in its time."""
    durations = dict(batch["durationMs"])
    begin = datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp()
    end = begin + durations[WHOLE] / 1000
    spent: dict[str, float] = {f"Spark: {name}": float(value) for name, value in durations.items()}
    within = [(what, start, stop) for what, start, stop in notes if begin <= start and stop <= end + 0.001]
    for what, start, stop in within:
        spent[f"Python: {what}"] = spent.get(f"Python: {what}", 0.0) + (stop - start) * 1000
    spent["any Python process at work"] = _covered(
        [(start, stop) for what, start, stop in within if not what.startswith("gc")]
    )
    return spent


def _covered(spans: list[tuple[float, float]]) -> float:
    """Milliseconds in which at least one of the spans runs."""
    total, reached = 0.0, 0.0
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return total * 1000
