"""Many seeds, on several processes: says how far it is, writes down what it has, and goes on where it ended.

    ottla simulate --seeds 1-50000 --short --jobs 2 --report campaign.json

1. On a terminal one line says how far it is, elsewhere one every minute. A seed with an anomaly is reported at once.
2. The report (tally.py) is written every SAVE_S and at the end, also when the end is Ctrl-C or an error.
3. The same command again leaves out what its report says is done.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from ottla.simulation.tally import Outcome, Tally, read_tally
from ottla.simulation.workers import Workers

SAVE_S: Final = 10.0
SAY_S: Final = 60.0
SHOWN_S: Final = 0.5


class Campaign:
    """See the module. `total` is how many seeds there are, when that is known."""

    def __init__(
        self, asked: Mapping[str, Any], *, jobs: int, report: Path | None, total: int | None, output: TextIO
    ) -> None:
        self._asked = asked
        self._jobs = jobs
        self._report = report
        self._total = total
        self._output = output
        self.tally = Tally(asked) if report is None else read_tally(report, asked)
        self._before_s = self.tally.elapsed_s
        self._before_runs = self.tally.runs
        self._began_s = self._saved_s = self._said_s = time.monotonic()
        self._is_line_open = False

    def run(self, seeds: Iterable[int], *, ends_at_first: bool = False) -> int:
        """Run all that is not done; the exit code: 1 when one has an anomaly, 130 after Ctrl-C."""
        left = (seed for seed in seeds if seed not in self.tally.done)
        previous = signal.signal(signal.SIGTERM, _interrupt)
        try:
            with Workers(self._jobs) as workers:
                self._count(workers.run(left, self._asked), ends_at_first)
        except KeyboardInterrupt:
            self._say("stopped; the same command with the same --report goes on from here")
            return 130
        finally:
            signal.signal(signal.SIGTERM, previous)
            self._end()
        return 1 if self.tally.failed else 0

    def _count(self, outcomes: Iterator[Outcome], ends_at_first: bool) -> None:
        for outcome in outcomes:
            self.tally.add(outcome)
            self.tally.elapsed_s = self._before_s + time.monotonic() - self._began_s
            if outcome["anomalies"]:
                self._say_failure(outcome)
                if ends_at_first:
                    return
            self._show()
            self._save_sometimes()

    def _say_failure(self, outcome: Outcome) -> None:
        self._say(f"seed {outcome['seed']}, {outcome['brokers']} broker(s), {', '.join(outcome['loads'])}:")
        for name, story in outcome["anomalies"]:
            self._say(f"  {name}: {story}")
        self._say(f"  repeat with: {outcome['repeat']}")

    def _say(self, line: str) -> None:
        if self._is_line_open:
            self._output.write("\r\x1b[K")
            self._is_line_open = False
        print(line, file=self._output, flush=True)

    def _show(self) -> None:
        now_s, is_terminal = time.monotonic(), self._output.isatty()
        if now_s - self._said_s < (SHOWN_S if is_terminal else SAY_S):
            return
        self._said_s = now_s
        if is_terminal:
            self._output.write(f"\r\x1b[K{self.progress()}")
            self._output.flush()
            self._is_line_open = True
        else:
            self._say(self.progress())

    def progress(self) -> str:
        """How far it is, in one line."""
        tally = self.tally
        runs, took_s = tally.runs - self._before_runs, max(tally.elapsed_s - self._before_s, 1e-9)
        of_all, left = "", ""
        if self._total is not None:
            of_all = f" of {self._total}"
            left_s = int((self._total - tally.runs) * took_s / max(runs, 1))
            left = f", {left_s // 3_600}:{left_s // 60 % 60:02}:{left_s % 60:02} left"
        return f"{tally.runs}{of_all} seeds, {runs / took_s:.1f}/s, {tally.failed} with anomalies{left}"

    def _save_sometimes(self) -> None:
        if self._report is not None and time.monotonic() - self._saved_s >= SAVE_S:
            self._saved_s = time.monotonic()
            self.tally.save(self._report)

    def _end(self) -> None:
        if self._report is not None:
            self.tally.save(self._report)
        for line in self.tally.lines():
            self._say(line)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def run_campaign(
    seeds: Iterable[int],
    asked: Mapping[str, Any],
    *,
    jobs: int,
    report: Path | None,
    total: int | None,
    ends_at_first: bool = False,
    output: TextIO | None = None,
) -> int:
    """Run them; the exit code."""
    campaign = Campaign(asked, jobs=jobs, report=report, total=total, output=output or sys.stdout)
    return campaign.run(seeds, ends_at_first=ends_at_first)
