"""The processes of a service: one for each pipeline, and what they report.

1. A child is `ottla pipeline run FILE --continuous`, in a session of its own: Ctrl-C at the terminal reaches only the
   service, which ends its children in order.
2. Its standard input is a pipe of ours that nobody writes to. When we die, it ends, and so does the child: a service
   that is killed leaves no pipeline behind that its successor would meet in the storage.
3. What it says on stderr (its error at the end) goes where ours goes. Its status stands in its storage.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.serving.supervision import Action, Phase, Supervision
from ottla.spark.pipelines.statuses import RUNNING, RunStatus
from ottla.spark.pipelines.storage import Storage

COMMAND: Final = (sys.executable, "-m", "ottla", "pipeline", "run")


@dataclass(frozen=True, slots=True)
class Served:
    """A pipeline that is served: its name, its storage, and the words of its process."""

    name: str
    storage: Storage
    words: Sequence[str]


class Child:
    """A pipeline with its process, when it has one."""

    def __init__(self, served: Served, now_s: float, start: Callable[[Sequence[str]], subprocess.Popen[bytes]]) -> None:
        self.name = served.name
        self.storage = served.storage
        self.supervision = Supervision(now_s)
        self.last_code: int | None = None
        self._words = served.words
        self._start = start
        self._process: subprocess.Popen[bytes] | None = None

    def turn(self, now_s: float) -> list[str]:
        """Do what is due; returns lines for the log."""
        lines = self._reap(now_s)
        action = self.supervision.due(now_s)
        if action is Action.START:
            self._process = self._start(self._words)
            lines.append(f"{self.name}: started, process {self._process.pid}")
        elif action is Action.STOP and self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            lines.append(f"{self.name}: stopping")
        elif action is Action.KILL and self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            lines.append(f"{self.name}: killed, because it did not stop; the next run repeats its batch")
        return lines

    def _reap(self, now_s: float) -> list[str]:
        """Take note of a process that has ended."""
        if self._process is None or (code := self._process.poll()) is None:
            return []
        status = self.status()
        pid, self.last_code = self._process.pid, code
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
        has_progress = status is not None and status.pid == pid and any(flow.batches for flow in status.flows)
        self.supervision.ended(now_s, has_progress=has_progress)
        if self.supervision.is_over:
            return [f"{self.name}: stopped"]
        wait_s = self.supervision.start_at_s - now_s
        return [f"{self.name}: ended {_how(code)}; it is started again in {wait_s:.0f} s"]

    def status(self) -> RunStatus | None:
        """What it reported last, in this life or an earlier one."""
        return self.storage.last_status()

    def trouble(self) -> str | None:
        """Why it is not doing its work; None when it is."""
        status = self.status()
        if self.supervision.phase is not Phase.RUNNING:
            error = None if status is None else status.error
            return f"{self.supervision.phase.value}{f': {error}' if error else ''}"
        if status is None or self._process is None or status.pid != self._process.pid:
            return "starting"
        if status.state != RUNNING or any(flow.state != RUNNING for flow in status.flows):
            return "starting" if status.state == RUNNING else status.state
        return None


def start_process(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """A child, in a session and a process group of its own."""
    return subprocess.Popen(
        [*COMMAND, *words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )


def make_children(served: Iterable[Served], now_s: float) -> list[Child]:
    return [Child(each, now_s, start_process) for each in served]


def _how(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
