"""Our broker as a process of its own, as users start it: to be served by, to be killed, to be started again.

    with BrokerProcess(tmp_path) as broker:                 # `python -m ottla broker start` on a free port
        broker.bootstrap_servers
        broker.kill(); broker.start()                       # kill -9, then again on the same data and the same port

1. The port is chosen at the first start and kept, so that clients find the broker again.
2. `start` returns when the ready line is there, or raises with the end of the log.
3. `stop` is SIGTERM and must end with code 0; `kill` is kill -9. No process outlives the `with`.
4. `requests()` tells what was asked, by API and version, from the broker's own metrics.
"""

import contextlib
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.patience import HANG_S

START_LIMIT_S = 300
STOP_LIMIT_S = 300
LOG_TAIL_BYTES = 4000
READY = "is ready at"
# Few partitions of the internal topics and no wait for more members: what a test has no time for.
SETTINGS = {
    "broker.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
COUNTED = re.compile(r'requests_total\{request="(\w+)",version="(\d+)"\} (\d+)')


class BrokerProcess:
    """A process, its data and its log, all in one directory."""

    def __init__(self, scratch: Path, settings: Mapping[str, str] | None = None) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.data = scratch / "data"
        self.log = scratch / "broker.log"
        self.port, self._admin_port = free_ports(2)
        self._settings = {**SETTINGS, **(settings or {}), "ottla.admin.listener": f"127.0.0.1:{self._admin_port}"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def admin_address(self) -> str:
        return f"127.0.0.1:{self._admin_port}"

    def start(self) -> None:
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(self._command(), stdout=output, stderr=output)
        end_s = time.monotonic() + START_LIMIT_S
        while READY not in self._logged(before):
            if self._process.poll() is not None or time.monotonic() > end_s:
                self.kill()
                raise RuntimeError(f"our broker did not start: {self._logged(before)[-LOG_TAIL_BYTES:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            code = process.wait(STOP_LIMIT_S)
        finally:
            self.kill()
        assert code == 0, f"our broker ended with {code}: {self._logged(0)[-LOG_TAIL_BYTES:]}"

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def requests(self) -> dict[tuple[str, int], int]:
        """How often each API was asked at each version since the start."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._admin_port}/metrics", timeout=HANG_S) as answer:
            text = answer.read().decode()
        return {(api, int(version)): int(count) for api, version, count in COUNTED.findall(text)}

    def faults(self) -> list[str]:
        """Lines of the log that tell of something that must not happen."""
        return [line for line in self._logged(0).splitlines() if '"ERROR"' in line or "Traceback" in line]

    def _command(self) -> list[str]:
        given = [f"--set={name}={value}" for name, value in self._settings.items()]
        where = ["--data", str(self.data), "--listen", self.bootstrap_servers]
        return [sys.executable, "-m", "ottla", "broker", "start", *where, *given]

    def _logged(self, since: int) -> str:
        with self.log.open("rb") as written:
            written.seek(since)
            return written.read().decode(errors="replace")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free just now, all different."""
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
