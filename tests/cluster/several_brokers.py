"""`ottla broker start --brokers N` as a process of a test: started, watched by what it writes, ended for sure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.patience import HANG_S

from ottla.cli.brokers.status import ProcessStatus, Status, is_running, read_status

QUICK = {
    "replica.lag.time.max.ms": 3_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "ottla.log.format": "text",
}


class SeveralBrokers:
    """See above. Data stays when it is stopped and started again."""

    def __init__(self, directory: Path, brokers: int, *options: str, settings: dict[str, object] | None = None) -> None:
        self.data = directory / "data"
        self.output = directory / "output.txt"
        pairs = [word for name, value in {**QUICK, **(settings or {})}.items() for word in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "ottla", "broker", "start", "--brokers", str(brokers), "--data"]
        self._command = [*command, str(self.data), "--listen", "127.0.0.1:0", *pairs, *options]
        self.process: subprocess.Popen[bytes]
        self._known: set[int] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            print(self.text)
        self.process.kill()
        self.process.wait(HANG_S)
        for pid in self._known | self.pids():
            self.wait_until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]

    def start(self) -> None:
        self.begin()
        self.wait_until(lambda: "brokers are ready at" in self.text or self.process.poll() is not None)
        assert self.process.poll() is None, self.text

    def begin(self) -> None:
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(self._command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    @property
    def text(self) -> str:
        return self.output.read_text("utf-8")

    @property
    def status(self) -> Status:
        found = read_status(self.data)
        assert found is not None, self.text
        return found

    @property
    def bootstrap_servers(self) -> str:
        return self.status.bootstrap_servers

    def pids(self) -> set[int]:
        """The processes of now, but for the supervisor."""
        found = {each.pid for each in self._places() if each.pid is not None} if read_status(self.data) else set()
        self._known |= found
        return found

    def pid_of(self, broker: int) -> int:
        found = self.status.brokers[broker].pid
        assert found is not None
        return found

    def signal_and_wait(self, pid: int, what: signal.Signals = signal.SIGKILL) -> None:
        """End a process, and wait until it was started again and all serve."""
        before = self._restarts()
        os.kill(pid, what)
        self.wait_until(lambda: self._restarts() > before and self._all_serve())

    def _restarts(self) -> int:
        return sum(each.restarts for each in self._places())

    def _all_serve(self) -> bool:
        return all(each.state == "serving" for each in self._places())

    def _places(self) -> list[ProcessStatus]:
        status = self.status
        return status.brokers

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.pids()
        self.process.terminate()
        return self.process.wait(HANG_S)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + HANG_S
        while not condition():
            assert time.monotonic() < end, self.text
            time.sleep(0.05)
