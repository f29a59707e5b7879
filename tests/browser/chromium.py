"""Debian's Chromium, driven by Playwright, and axe-core: for tests that open the console in a real browser.

    python -m tests.browser.chromium          # fetches what is missing, which `make setup-browser` does

1. The browser is the system's (`apt install chromium`); Playwright is a package, axe-core a file from the npm registry,
   kept in <the user's cache>/ottla/browser. Nothing of them is in the repository, and no page of ours loads them.
2. Where one of them is missing, BrowserMissing says which and how to get it, and the tests skip themselves with that
   sentence. Fetching ends within minutes where a registry does not answer, and says which one it was.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

AXE = "axe-core@4.14.0"
NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core", "fonts-inter")
STEP_LIMIT_S = 300
PATIENT_APT = ("-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "-o", "DPkg::Lock::Timeout=120")

# No sandbox: tests run as root in containers. The others keep Chromium from asking Google for anything, which a closed
# network refuses many times a second, and from a shared memory that containers make small.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


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
        _install_chromium()
    if find_spec("playwright") is None:
        _run("Playwright from PyPI", [sys.executable, "-m", "pip", "install", "--quiet", "playwright"])
        invalidate_caches()
    if not (cache_directory() / "axe.min.js").exists():
        _fetch_axe()


def _install_chromium() -> None:
    """A new machine may have no lists of packages, or old ones: then they are fetched, and it is tried once more."""
    apt = [*([] if os.geteuid() == 0 else ["sudo", "--non-interactive"]), "apt-get", *PATIENT_APT, "--quiet"]
    install = [*apt, "install", "-y", "--no-install-recommends", *PACKAGES]
    try:
        _run("Chromium from Debian's packages", install)
    except BrowserMissing:
        _run("the lists of Debian's packages", [*apt, "update"])
        _run("Chromium from Debian's packages", install)


def _fetch_axe() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        _run("axe-core from the npm registry", ["npm", "pack", "--silent", "--fetch-retries=1", AXE], scratch)
        (packed,) = Path(scratch).glob("*.tgz")
        with tarfile.open(packed) as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None, "axe-core has no axe.min.js any more"
            cache_directory().mkdir(parents=True, exist_ok=True)
            (cache_directory() / "axe.min.js").write_bytes(member.read())


def _run(what: str, command: list[str], directory: str | None = None) -> None:
    """BrowserMissing with the last lines that a command said, where it fails or takes too long."""
    settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, cwd=directory, env=settings, capture_output=True, text=True, errors="replace", timeout=STEP_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrowserMissing(f"{what} could not be fetched: {error}") from None
    if done.returncode:
        said = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:])
        raise BrowserMissing(f"{what} could not be fetched: {said}")


def main() -> int:
    try:
        fetch()
        print(f"{find_browser()}, {AXE}")
    except BrowserMissing as missing:
        print(f"no browser: {missing}; the tests of the console's pages (tests/browser) are skipped", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
