"""Debian's Chromium, driven by Playwright, and axe-core: for tests that open the console in a real browser.

    python -m tests.browser.chromium          # fetches what is missing, which `make setup-browser` does

1. The browser is the system's (`apt install chromium`); Playwright is a package, axe-core a file from the npm registry,
   kept in <the user's cache>/ottla/browser. Nothing of them is in the repository, and no page of ours loads them.
2. Where one of them is missing, BrowserMissing says which and how to get it, and the tests skip themselves with that
   sentence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.util import find_spec
from pathlib import Path

AXE = "axe-core@4.14.0"
NAMES = ("chromium", "chromium-browser", "google-chrome")


class BrowserMissing(Exception):
    """There is no browser on this machine, or not all that drives it."""


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla" / "browser"


def find_browser() -> Path:
    found = next((path for path in map(shutil.which, NAMES) if path is not None), None)
    if found is None:
        raise BrowserMissing("there is no Chromium: make setup-browser, or apt install chromium")
    if find_spec("playwright") is None:
        raise BrowserMissing("there is no Playwright: make setup-browser, or pip install playwright")
    return Path(found)


def axe_script() -> str:
    path = cache_directory() / "axe.min.js"
    if not path.exists():
        raise BrowserMissing("there is no axe-core: make setup-browser")
    return path.read_text()


def fetch() -> None:
    """Install and fetch what is missing; needs the right to install packages of the system."""
    if not any(map(shutil.which, NAMES)):
        command = ["apt-get", "install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
        subprocess.run(command if os.geteuid() == 0 else ["sudo", *command], check=True)
    if find_spec("playwright") is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "playwright"], check=True)
    if not (cache_directory() / "axe.min.js").exists():
        _fetch_axe()


def _fetch_axe() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["npm", "pack", "--silent", AXE], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        (packed,) = Path(scratch).glob("*.tgz")
        with tarfile.open(packed) as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None, "axe-core has no axe.min.js any more"
            cache_directory().mkdir(parents=True, exist_ok=True)
            (cache_directory() / "axe.min.js").write_bytes(member.read())


if __name__ == "__main__":
    fetch()
    print(f"{find_browser()}, {AXE}")
