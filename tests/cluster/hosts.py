"""Hosts of one machine: network namespaces on a bridge, each with an address, a directory and processes of its own.

    with Hosts(directory, ("host-1", "host-2", "clients")) as hosts:
        node = hosts.begin("host-1", ["ottla", "broker", "start", ...], output, errors)
        hosts.isolate("host-1"); hosts.heal()

1. A process runs in the directory of its host, so that a line that somebody prints for another machine can be typed
   there as it is.
2. The test itself is at the bridge and reaches all of them: it is the operator.
3. An isolated host has its cable out of the switch: nothing of it arrives anywhere and nothing arrives there. Nobody is
   told, connections stay open.
4. Needs root and the program ip; nothing is left of it at the end.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from tests.cluster.namespace_lab import ip
from tests.patience import HANG_S

FIRST: Final = 10


class Hosts:
    """See the module."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        number = os.getpid() % 250 + 1
        self._bridge = f"ottlah{number}"
        self.address = {name: f"10.78.{number}.{FIRST + at}" for at, name in enumerate(names)}
        self._own = f"10.78.{number}.1"
        self._directory = directory
        self._isolated: set[str] = set()
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait(HANG_S)
        self._take_down()

    def _build(self) -> None:
        ip(f"link add {self._bridge} type bridge")
        ip(f"addr add {self._own}/24 dev {self._bridge}")
        ip(f"link set {self._bridge} up")
        for name, address in self.address.items():
            self.directory(name).mkdir()
            space, cable = self._namespace(name), self._cable(name)
            ip(f"netns add {space}")
            ip(f"link add {cable} type veth peer name eth0 netns {space}")
            ip(f"link set {cable} master {self._bridge} up")
            ip(f"-n {space} addr add {address}/24 dev eth0")
            ip(f"-n {space} link set eth0 up")
            ip(f"-n {space} link set lo up")

    def _take_down(self) -> None:
        for name in self.address:
            subprocess.run(["ip", "netns", "del", self._namespace(name)], capture_output=True)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True)

    def directory(self, name: str) -> Path:
        return self._directory / name

    # --- processes ---

    def command(self, name: str, words: Sequence[str]) -> list[str]:
        """How something runs on a host; the process is that of the command itself."""
        return ["ip", "netns", "exec", self._namespace(name), *words]

    def begin(
        self,
        name: str,
        words: Sequence[str],
        output: IO[bytes],
        errors: IO[bytes],
        *,
        stdin: int = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self.command(name, words),
            cwd=self.directory(name),
            stdin=stdin,
            stdout=output,
            stderr=errors,
            env={**os.environ, **(environment or {})},
        )
        self._processes.append(process)
        return process

    # --- the network ---

    def isolate(self, name: str) -> None:
        ip(f"link set {self._cable(name)} nomaster")
        self._isolated.add(name)

    def heal(self) -> None:
        for name in self._isolated:
            ip(f"link set {self._cable(name)} master {self._bridge}")
        self._isolated.clear()

    def _namespace(self, name: str) -> str:
        return f"{self._bridge}-{name}"

    def _cable(self, name: str) -> str:
        return f"{self._bridge}v{list(self.address).index(name)}"
