"""Makes the virtual environment and installs Ottla into it, and says what it does meanwhile: for the Makefile.

    python3 packaging/install.py .venv '.[spark]'

1. Never silent for long: what pip reports is shown as one short line each, and whenever QUIET_S pass without one, a
   line says what is still going on and since when.
2. It needs nothing but Python's own library, because nothing is installed yet.
3. When a step fails, all that it printed is shown, and the exit code is its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

QUIET_S = 5.0
KEPT_LINES = 400
SHOWN = (
    (re.compile(r"^\s*Downloading (\S+?)(?:-[\d.].*)? \(([\d.]+ [kMG]B)\)"), "downloading {0}, {1}"),
    (re.compile(r"^\s*(?:Using cached|Downloading) (\S+)\.(?:whl|tar\.gz)"), None),
    (re.compile(r"^\s*Building (?:wheel|editable) for (\S+) .*started"), "building {0}"),
    (re.compile(r"^\s*Preparing editable metadata .*started"), "reading what ottla needs"),
    (re.compile(r"^Installing collected packages: (.*)"), "unpacking {count} packages, the largest is pyspark"),
    (re.compile(r"^\s*Installing build dependencies"), "getting what is needed to build"),
    (re.compile(r"^Successfully installed"), "installed"),
)


def short(line: str) -> str | None:
    """What pip's line means for somebody who waits; None for what is of no interest."""
    for pattern, text in SHOWN:
        if found := pattern.match(line):
            count = found[1].count(",") + 1 if pattern.groups else 1
            return None if text is None else text.format(*found.groups(), count=count)
    return None


class Story:
    """Lines with the seconds since the beginning, and one more whenever it was quiet for too long."""

    def __init__(self, say: Callable[[str], object], quiet_s: float = QUIET_S) -> None:
        self._say, self._quiet_s = say, quiet_s
        self._began_s = time.monotonic()
        self._doing, self._since_s = "", self._began_s
        self._spoke, self._ended = threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def line(self, text: str) -> None:
        """Something new is done from now on."""
        with self._lock:
            self._doing, self._since_s = text, time.monotonic()
            self._say(f"[{self._since_s - self._began_s:3.0f} s] {text}")
        self._spoke.set()

    def __enter__(self) -> Story:
        self._thread = threading.Thread(target=self._remind, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._spoke.set()
        self._thread.join()

    def _remind(self) -> None:
        while not self._ended.is_set():
            if self._spoke.wait(self._quiet_s):
                self._spoke.clear()
                continue
            with self._lock:
                now_s = time.monotonic()
                self._say(f"[{now_s - self._began_s:3.0f} s]    still {self._doing} ({now_s - self._since_s:.0f} s)")


def run(command: Sequence[str], story: Story, show: Callable[[Iterable[str]], object]) -> int:
    """Run a command and tell its lines; all of them when it fails."""
    seen: deque[str] = deque(maxlen=KEPT_LINES)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(line)
            if text := short(line):
                story.line(text)
    if process.returncode:
        show(seen)
    return process.returncode


def main(folder: str, what: str) -> int:
    python = str(Path(folder) / "bin" / "python")
    steps = []
    if not Path(python).exists():
        steps.append(("making a virtual environment in " + folder, [sys.executable, "-m", "venv", folder]))
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "--editable", what]
    steps.append((f"installing {what} (this once; the largest part is Spark, 450 MB)", pip))
    with Story(lambda line: print(line, flush=True)) as story:
        for text, command in steps:
            story.line(text)
            if code := run(command, story, sys.stderr.writelines):
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
