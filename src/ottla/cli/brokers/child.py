"""One process of the supervisor: how it is started, what it says when it serves, how it ends.

1. It has a session of its own, so that Ctrl-C reaches the supervisor alone, which stops everybody in order.
2. Its stdin is a pipe that nothing is written to. It ends when the supervisor closes it, or is killed: the process then
   stops in order. So no process is left behind.
3. One line of JSON on its stdout says that it serves, and where. Its log goes where the supervisor's goes,
   or is added to a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

READY_LIMIT_BYTES: Final = 1 << 16


class Child:
    """See above; one process after another in the same place."""

    def __init__(self, module: str, arguments: Sequence[str], log: Path | None = None) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self, *more: str) -> None:
        with contextlib.nullcontext() if self._log is None else self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                *more,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                limit=READY_LIMIT_BYTES,
            )

    async def serving(self) -> dict[str, Any] | None:
        """What it says when it serves; None when it ended before."""
        assert self._process is not None, "it was started"
        assert self._process.stdout is not None, "it has a pipe"
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            return None
        found: dict[str, Any] = json.loads(line)
        return found

    async def ended(self) -> int:
        """The exit code, when it has ended."""
        assert self._process is not None, "it was started"
        return await self._process.wait()

    async def stop(self, limit_s: float) -> bool:
        """Let it stop in order; False when it had to be killed."""
        if not self.is_running:
            return True
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(limit_s):
                await self.ended()
            return True
        except TimeoutError:
            self.kill()
            await self.ended()
            return False

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def signal(self, what: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(what)


def say_serving(**what: Any) -> None:
    """The child's side of `serving`."""
    print(json.dumps(what), flush=True)


def stop_with_supervisor(stop: asyncio.Event) -> None:
    """The child's side of 2: set `stop` when the supervisor is gone."""
    loop = asyncio.get_running_loop()

    def readable() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin.fileno())
            stop.set()

    loop.add_reader(sys.stdin.fileno(), readable)
