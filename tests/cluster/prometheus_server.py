"""Prometheus of Debian's package, for tests in which it reads our metrics.

    with Prometheus(scratch, ["127.0.0.1:9644"], rules) as prometheus:
        prometheus.query("sum(up)")                     # the values that it has now
        prometheus.firing()                             # names of alerts
    python -m tests.cluster.prometheus_server           # fetches it, which `make setup-prometheus` does

1. What is installed is taken; else the package is downloaded once with apt-get, which needs no rights for that, and
   unpacked into <the user's cache>/ottla/prometheus. Nothing is installed.
2. Where that cannot be, PrometheusMissing says why, and a test skips itself with that sentence.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.patience import HANG_S

DOWNLOAD_LIMIT_S = 120


class PrometheusMissing(Exception):
    """There is no Prometheus on this machine, and none can be fetched."""


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla" / "prometheus"


def find_prometheus(command: str = "prometheus") -> Path:
    """The program, or promtool beside it."""
    found = shutil.which(command)
    if found is not None:
        return Path(found)
    unpacked = cache_directory() / "usr" / "bin" / command
    if not unpacked.exists():
        reason = _fetch_once()
        if reason is not None:
            raise PrometheusMissing(reason)
    return unpacked


@functools.cache
def _fetch_once() -> str | None:
    """Why it could not be fetched; None when it was."""
    for needed in ("apt-get", "dpkg-deb"):
        if shutil.which(needed) is None:
            return f"needs Prometheus (Debian: apt install prometheus), and there is no {needed} to fetch it"
    wanted = cache_directory()
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wanted.parent) as scratch:
        done = subprocess.run(
            ["apt-get", "download", "prometheus"], cwd=scratch, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S
        )
        packages = list(Path(scratch).glob("*.deb"))
        if done.returncode or not packages:
            return f"needs Prometheus (Debian: apt install prometheus): {done.stderr.strip()[-200:]}"
        subprocess.run(["dpkg-deb", "-x", str(packages[0]), f"{scratch}/unpacked"], check=True)
        if not wanted.exists():
            Path(scratch, "unpacked").rename(wanted)
    return None


class Prometheus:
    """Reads `targets` every second, and evaluates rules as often."""

    def __init__(self, scratch: Path, targets: Sequence[str], rules: str) -> None:
        self._program = find_prometheus()
        self._scratch = scratch
        (scratch / "rules.yml").write_text(rules)
        (scratch / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
            "rule_files: [rules.yml]\n"
            f"scrape_configs: [{{job_name: ottla, static_configs: [{{targets: {json.dumps(list(targets))}}}]}}]\n"
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        command = [str(self._program), f"--config.file={self._scratch}/prometheus.yml"]
        options = [f"--storage.tsdb.path={self._scratch}/tsdb", f"--web.listen-address={self._address}"]
        with (self._scratch / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen([*command, *options], stdout=log, stderr=log)
        self._wait_until_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(HANG_S)

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + HANG_S
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=5):
                return
            time.sleep(0.1)
        raise AssertionError((self._scratch / "prometheus.log").read_text()[-2000:])

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The series that an expression has now, with their values; AssertionError when it is wrong."""
        found = self._ask("query", query=expression)["result"]
        return [(series["metric"], float(series["value"][1])) for series in found]

    def label_values(self, name: str) -> list[str]:
        return self._ask(f"label/{name}/values")

    def firing(self) -> set[str]:
        return {each["labels"]["alertname"] for each in self._ask("alerts")["alerts"] if each["state"] == "firing"}

    def _ask(self, path: str, **arguments: str):
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=HANG_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {error.read().decode()}") from None


if __name__ == "__main__":
    print(find_prometheus())
