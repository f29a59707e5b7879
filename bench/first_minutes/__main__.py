"""`python -m bench.first_minutes`: a stranger's first minutes, from a fresh clone to the end of `make demo`.

    python -m bench.first_minutes                   clone what is committed, run make demo, judge its silences
    python -m bench.first_minutes --show            the lines of the demo too, each with its second, as they come
    python -m bench.first_minutes -- make test      another command in the clone

1. The clone is deleted in the end. Packages come from pip's cache if it has them: run it twice for a warm one.
2. A silence is the time between two lines, also before the first and after the last. A dot is no line.
3. Exit code 1 when the command fails, when a silence is longer than SILENCE_S, or all of it longer than TOTAL_S.
The bars are for a quiet machine; on a busy one the silences still count, the total tells about the neighbours, and the
processor time says what was worked.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SILENCE_S = 10.0
TOTAL_S = 180.0
START, END = "(its start)", "(its end)"


class Line(NamedTuple):
    """A line, and when it was read, in seconds since the command began."""

    at_s: float
    text: str


class Silence(NamedTuple):
    """How long nothing was said, and between which lines."""

    length_s: float
    after: str
    before: str


class Run(NamedTuple):
    """What a command said, how it ended and when."""

    lines: Sequence[Line]
    code: int
    total_s: float
    processor_s: float = 0.0


def longest_silence(run: Run) -> Silence:
    """The longest of them, with the start and the end of the command as lines."""
    said = [Line(0.0, START), *run.lines, Line(run.total_s, END)]
    return max(
        Silence(later.at_s - earlier.at_s, earlier.text, later.text) for earlier, later in itertools.pairwise(said)
    )


def faults_of(run: Run) -> list[str]:
    """What is wrong with it, a sentence each."""
    silence = longest_silence(run)
    found = [f"it ended with {run.code}"] if run.code else []
    if silence.length_s > SILENCE_S:
        found.append(f"silent for {silence.length_s:.1f} s (at most {SILENCE_S:.0f}) after: {silence.after.strip()}")
    if run.total_s > TOTAL_S:
        found.append(f"it took {run.total_s:.0f} s (at most {TOTAL_S:.0f} on a quiet machine)")
    return found


def listen(source: Iterable[str], now_s: Callable[[], float], heard: Callable[[Line], object]) -> list[Line]:
    lines = []
    for text in source:
        lines.append(Line(now_s(), text.rstrip("\n")))
        heard(lines[-1])
    return lines


def show(line: Line) -> None:
    print(f"{line.at_s:7.1f}  {line.text}", flush=True)


def run(command: Sequence[str], folder: Path, heard: Callable[[Line], object] = lambda _: None) -> Run:
    began_s, worked_s = time.monotonic(), _processor_s()
    # As a stranger's shell has it: not told by a make around this one that it is the second.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        lines = listen(process.stdout, lambda: time.monotonic() - began_s, heard)
    return Run(lines, process.returncode, time.monotonic() - began_s, _processor_s() - worked_s)


def _processor_s() -> float:
    """What processes that this one started and that have ended have worked."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.first_minutes")
    parser.add_argument("--show", action="store_true", help="all lines, each with its second")
    parser.add_argument("command", nargs="*", default=["make", "demo"], help="instead of make demo")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="ottla-clone-") as folder:
        clone = Path(folder) / "ottla"
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), str(clone)], check=True)
        done = run(options.command, clone, show if options.show else lambda _: None)
    if done.code and not options.show:
        for line in done.lines:
            show(line)
    silence = longest_silence(done)
    command = " ".join(options.command)
    print(f"{command}: {done.total_s:.0f} s, {done.processor_s:.0f} s of a processor, {len(done.lines)} lines")
    print(f"longest silence: {silence.length_s:.1f} s, after: {silence.after.strip()}")
    for fault in (faults := faults_of(done)):
        print(f"FAULT: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
