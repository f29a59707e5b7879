"""Makes the virtual environment and installs Ottla into it, and says what it does meanwhile: for the Makefile.

    python3 packaging/install.py .venv '.[spark]'

1. Never silent for long: what pip reports is shown as one short line each, and whenever QUIET_S pass without one, a
   line says what is still going on and since when.
2. It needs nothing but Python's own library, because nothing is installed yet.
3. When a step fails, all that it printed is shown, and the exit code is its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

QUIET_S = 6.0
BUILDING = "building ottla"
BIG = r"[\d.]+ GB|\d{2,}[\d.]* MB"  # what is worth a line
KEPT_LINES = 400
OLDEST_PYTHON = (3, 11)
WHEEL = r"(\S+?)-[\d.]\S*\.(?:whl|tar\.gz)"
# What pip says, the line that is made of it (or none), and what goes on from then on, as in "still ...".
SHOWN = (
    (rf"Downloading {WHEEL} \(({BIG})\)", "downloading {0}, {1}", "downloading {0}"),
    (rf"(?:Using cached|Downloading) {WHEEL}", None, "getting {0}"),
    (r"Collecting ([\w.-]+)", None, "looking for {0}"),
    (r"Installing build dependencies.*started", "getting what is needed to build ottla", None),
    (r"Preparing editable metadata .*started", "reading what ottla needs", None),
    (r"Building (?:wheel|editable) for (\S+) .*started", "building {0}", None),
    (r"Building (?:wheel|editable) for (\S+) .*finished", None, "putting {0} into pip's cache"),
    (r"Installing collected packages: (.*)", "unpacking {count} packages; Spark is the largest", "unpacking packages"),
    (r"Successfully installed", "all packages are unpacked", "cleaning up"),
)


class Said(NamedTuple):
    """A line for somebody who waits, if there is one, and what goes on from then on."""

    text: str | None
    doing: str


def short(line: str) -> Said | None:
    """What pip's line means for somebody who waits; None for what is of no interest."""
    for pattern, text, doing in SHOWN:
        if found := re.match(rf"\s*{pattern}", line):
            count = found[1].count(",") + 1 if found.groups() else 1
            told, going_on = (part and part.format(*found.groups(), count=count) for part in (text, doing))
            return Said(told, going_on or told or "")
    return None


class Story:
    """Lines with the seconds since the beginning, and one more whenever it was quiet for too long; `notes` is a file
    in which setup.py writes how far it is."""

    def __init__(self, say: Callable[[str], object], quiet_s: float = QUIET_S, notes: Path | None = None) -> None:
        self._say, self._quiet_s, self._notes = say, quiet_s, notes
        self._began_s = time.monotonic()
        self._doing, self._since_s = "", self._began_s
        self._spoke, self._ended = threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def line(self, text: str | None, doing: str | None = None) -> None:
        """Something new is done from now on; without a text, only whoever waits long hears of it."""
        with self._lock:
            self._doing, self._since_s = doing or text or "", time.monotonic()
            if text is None:
                return
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
                how_far = how_far_the_build_is(self._notes) if self._doing == BUILDING else ""
                lasted = f"({now_s - self._since_s:.0f} s)"
                self._say(f"[{now_s - self._began_s:3.0f} s]    still {self._doing}{how_far} {lasted}")


def how_far_the_build_is(notes: Path | None) -> str:
    """What the notes say, if there are any yet."""
    if notes is None or not notes.exists():
        return ""
    total, *done = notes.read_text("utf-8").split() or ["0"]
    return f", {len(done)} of {total} native parts are compiled" if total != "0" else ""


def run(
    command: Sequence[str], story: Story, show: Callable[[Iterable[str]], object], notes: Path | None = None
) -> int:
    """Run a command and tell its lines; all of them when it fails."""
    seen: deque[str] = deque(maxlen=KEPT_LINES)
    environment = {**os.environ, "OTTLA_BUILD_NOTES": "" if notes is None else str(notes)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(line)
            if said := short(line):
                story.line(*said)
    if process.returncode:
        show(seen)
    return process.returncode


def too_old(version: Sequence[int]) -> str | None:
    """Why this Python is not enough, if it is not."""
    if tuple(version[:2]) >= OLDEST_PYTHON:
        return None
    wanted, found = (".".join(map(str, each[:2])) for each in (OLDEST_PYTHON, version))
    another = f"With another one: make PYTHON=python{wanted} ..."
    return f"Ottla needs Python {wanted} or newer, and python3 is {found}. {another}"


def main(folder: str, what: str) -> int:
    if fault := too_old(sys.version_info):
        print(fault, file=sys.stderr)
        return 1
    python = str(Path(folder) / "bin" / "python")
    steps = []
    # Without pip: somebody's first try ended before it was there (Debian has it in python3-venv); venv completes it.
    if not Path(python).with_name("pip").exists():
        text = f"making a virtual environment in {folder}"
        steps.append((text, text, [sys.executable, "-m", "venv", folder]))
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "--editable", what]
    text = f"installing Ottla and what it needs into {folder}, this once; the largest part is Spark, 450 MB"
    steps.append((text, "asking pip", pip))
    with tempfile.TemporaryDirectory(prefix="ottla-install-") as scratch:
        notes = Path(scratch) / "notes"
        with Story(lambda line: print(line, flush=True), notes=notes) as story:
            for text, doing, command in steps:
                story.line(text, doing)
                if code := run(command, story, sys.stderr.writelines, notes):
                    return code
            story.line(f"everything is installed in {folder}; the next call goes on from here")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
