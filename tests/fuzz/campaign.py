"""A fuzz campaign over every target, with a table at the end: `make fuzz INPUTS=5000000`.

    python -m tests.fuzz.campaign --inputs 5000000               all targets, one after the other
    python -m tests.fuzz.campaign --inputs 200000 --only scan    some of them; the table has what ran before, too
    python -m tests.fuzz.campaign --seconds 60                   each target for a minute at most
    python -m tests.fuzz.campaign --table                        only the table

1. Every target runs in a process of its own (worker.py), with atheris where it is installed, else with mutations; the
   table says which. What it found new is kept in build/fuzz, and the next campaign goes on from there.
2. A row counts inputs and seconds of all runs, the edges that the last one covered, the highest memory, and by how much
   memory grew from the first fifth of a run to its end: more than GROWTH_LIMIT_MIB is a finding.
3. A finding (an exception that is not declared, a crash, TIME_LIMIT_S without an end, growth) is printed with its input
   in hex; the exit code is 1. Put it into a test of its own before mending what it found.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.fuzz.all_targets import all_targets, shared_out

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "fuzz"
GROWTH_LIMIT_MIB = 64.0
MIB = 1 << 20
START_S, INPUT_S = 600.0, 0.5  # how long a worker may take: for itself, and for each input on average
COVERED = re.compile(r"\bcov: (\d+)")


@dataclass
class Row:
    """What is known of one target."""

    name: str
    engine: str
    inputs: int = 0
    seconds: float = 0.0
    edges: int = 0
    peak_mib: float = 0.0
    growth_mib: float = 0.0
    findings: int = 0

    def line(self) -> str:
        edges = f"{self.edges:,}" if self.edges else "-"
        return (
            f"| {self.name} | {self.engine} | {self.inputs:,} | {self.seconds:.0f} | {edges} | {self.peak_mib:.0f} | "
            f"{self.growth_mib:.0f} | {self.findings} |"
        )


HEAD = (
    "| target | engine | inputs | seconds | edges | peak MiB | growth MiB | findings |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def table(rows: Sequence[Row]) -> str:
    whole = Row(f"all {len(rows)}", "", sum(r.inputs for r in rows), sum(r.seconds for r in rows))
    whole.peak_mib = max((r.peak_mib for r in rows), default=0.0)
    whole.growth_mib = max((r.growth_mib for r in rows), default=0.0)
    whole.findings = sum(r.findings for r in rows)
    return "\n".join([HEAD, *(row.line() for row in rows), whole.line()])


def folder_of(name: str, root: Path = FOLDER) -> Path:
    found = root / re.sub(r"\W+", "-", name)
    found.mkdir(parents=True, exist_ok=True)
    return found


def known(name: str, engine: str, root: Path = FOLDER) -> Row:
    """What earlier campaigns counted, by this engine."""
    file = folder_of(name, root) / f"{engine}.json"
    return Row(**json.loads(file.read_text())) if file.exists() else Row(name, engine)


def fuzz(name: str, inputs: int, engine: str, seed: str, root: Path = FOLDER, *, seconds: int = 0) -> tuple[Row, str]:
    """Run a target; its row, and what was found, or nothing."""
    folder, row = folder_of(name, root), known(name, engine, root)
    (folder / "stats.json").unlink(missing_ok=True)
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.worker"]
    command += [name, str(inputs), str(folder), engine, seed, str(seconds)]
    with (folder / "output.txt").open("w+") as output:
        try:
            limit_s = START_S + inputs * INPUT_S
            code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output, timeout=limit_s, check=False)
            ended = code.returncode
        except subprocess.TimeoutExpired:
            ended = -1
        output.seek(0)
        said = output.read()
    finding = _count(row, folder, said) if ended == 0 else _story(folder, ended, said)
    row.findings += bool(finding)
    (folder / f"{engine}.json").write_text(json.dumps(asdict(row)))
    return row, finding


def _count(row: Row, folder: Path, said: str) -> str:
    """Add what a run did to its row; a finding when memory grew."""
    stats = json.loads((folder / "stats.json").read_text())
    grown_mib = (stats["end_bytes"] - stats["warm_bytes"]) / MIB
    done = re.search(r"Done (\d+) runs", said)  # libFuzzer also counts what it reads again of its corpus
    row.inputs += int(done[1]) if done else stats["inputs"]
    row.seconds += stats["seconds"]
    row.edges = max([row.edges, *(int(each) for each in COVERED.findall(said)[-1:])])
    row.peak_mib = max(row.peak_mib, stats["peak_bytes"] / MIB)
    row.growth_mib = max(row.growth_mib, grown_mib)
    return f"memory grew by {grown_mib:.0f} MiB" if grown_mib > GROWTH_LIMIT_MIB else ""


def _story(folder: Path, ended: int, said: str) -> str:
    current = (folder / "current").read_bytes() if (folder / "current").exists() else bytes(4)
    data = current[4 : 4 + int.from_bytes(current[:4], "big")]
    return f"the worker ended with {ended}; its last input was {data.hex()}\n{said[-4_000:]}"


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=5_000_000, help="of all targets together (default 5,000,000)")
    parser.add_argument("--only", action="append", metavar="TARGET", help="run this one; may be there several times")
    parser.add_argument("--engine", choices=("atheris", "mutation"), default="atheris" if has_atheris() else "mutation")
    parser.add_argument("--seed", default=str(time.time_ns()), help="of the mutations; printed")
    parser.add_argument("--seconds", type=int, default=0, help="end each target after so long; 0: after its inputs")
    parser.add_argument("--report", type=Path, default=FOLDER / "report.md", help="where the table goes")
    parser.add_argument("--table", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    names = [target.name for target in all_targets()]
    if unknown := set(arguments.only or ()) - set(names):
        parser.error(f"no target is named {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    found = {} if arguments.table else _run(arguments, [n for n in names if n in (arguments.only or names)])
    FOLDER.mkdir(parents=True, exist_ok=True)
    every = [known(name, engine) for name in names for engine in ("atheris", "mutation")]
    text = table([row for row in every if row.inputs or row.findings])
    arguments.report.write_text(f"{text}\n")
    print(text)
    return 1 if any(found.values()) else 0


def _run(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, str]:
    if arguments.engine == "mutation":
        print("atheris is not used: mutations without coverage")
    print(f"seed {arguments.seed}", flush=True)
    os.environ.setdefault("PYTHONHASHSEED", "0")
    found = {}
    for name, inputs in shared_out(arguments.inputs, list(names)).items():
        row, found[name] = fuzz(name, inputs, arguments.engine, arguments.seed, seconds=arguments.seconds)
        print(row.line(), flush=True)
        if found[name]:
            print(f"FOUND in {name}: {found[name]}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
