"""What the console adds to the start of a broker: without HTTP, without the extra's packages, and with the console."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Final

from bench.console.brokers import ConsoleBroker
from bench.walk.figures import Figure
from bench.walk.processes import ENVIRONMENT, BrokerProcess
from bench.walk.throughput import new_directory

WITHOUT_EXTRA: Final = "import sys\nsys.modules['starlette'] = sys.modules['uvicorn'] = None\n"
"""Run by Python at its start, as if nobody had installed them."""


class WithoutExtra(ConsoleBroker):
    """A broker on a machine where the packages of the console are missing."""

    def __init__(self, directory: Path) -> None:
        hidden = directory.parent / "without-extra"
        hidden.mkdir(exist_ok=True)
        (hidden / "sitecustomize.py").write_text(WITHOUT_EXTRA)
        paths = [str(hidden), ENVIRONMENT.get("PYTHONPATH", "")]
        self.environment = {**ENVIRONMENT, "PYTHONPATH": ":".join(each for each in paths if each)}
        super().__init__(directory)


def starts(root: Path, turns: int) -> list[Figure]:
    kinds = {"no HTTP": BrokerProcess, "no extra": WithoutExtra, "console": ConsoleBroker}
    walls: dict[str, list[float]] = {name: [] for name in kinds}
    cpus: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(turns + 1):
        for name in sorted(kinds, reverse=turn % 2 == 0):
            with new_directory(root) as directory, kinds[name](directory / "data") as broker:
                if turn:  # the first writes its bytecode
                    walls[name].append(broker.answered_s * 1e3)
                    cpus[name].append(broker.start_cpu_s * 1e3)
    return [_ratio(name, walls, cpus) for name in ("no extra", "console")]


def _ratio(name: str, walls: dict[str, list[float]], cpus: dict[str, list[float]]) -> Figure:
    ratio = statistics.median(one / other for one, other in zip(cpus[name], cpus["no HTTP"], strict=True))
    wall = f"{statistics.median(walls[name]):.0f} / {statistics.median(walls['no HTTP']):.0f} ms to the first answer"
    cpu = f"CPU {statistics.median(cpus[name]):.0f} / {statistics.median(cpus['no HTTP']):.0f} ms"
    return Figure(f"start, CPU: {name} / no HTTP", ratio, f"{wall}; {cpu}", at_most=1.05)
