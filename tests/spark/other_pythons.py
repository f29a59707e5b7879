"""Virtual environments beside the one of the tests: for drivers and executors that do not share a Python.

An environment is made in a moment, because nothing is installed: packages of the test's own environment are linked into
it, or whole directories are put on its path.
"""

from __future__ import annotations

import os
import sysconfig
import venv
from collections.abc import Iterable
from pathlib import Path

import ottla

SOURCES = Path(ottla.__file__).parent.parent
PACKAGES = Path(sysconfig.get_paths()["purelib"])
NEEDED = ("crc32c", "cramjam", "cryptography", "lz4", "zstandard", "uvloop", "_cffi_backend*.so", "cffi")
"""What ottla requires, as directories of site-packages."""
FOR_JAVA = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS")
"""Options of a Java that lives for seconds (tests/conftest.py); they lead to no Python."""


def make_environment(directory: Path, *, links: Iterable[str] = (), paths: Iterable[Path] = ()) -> Path:
    """A virtual environment with these packages (patterns of names) and directories; returns its interpreter."""
    venv.create(directory, with_pip=False, symlinks=True)
    site = next(directory.glob("lib/python3*/site-packages"))
    for pattern in links:
        for package in PACKAGES.glob(pattern):
            (site / package.name).symlink_to(package)
    (site / "paths.pth").write_text("".join(f"{path}\n" for path in paths))
    return directory / "bin" / "python"


def driver_environment(directory: Path) -> Path:
    """One that has everything, as the tests' own."""
    return make_environment(directory, paths=(SOURCES, PACKAGES))


def bare_variables() -> dict[str, str]:
    """This process's environment variables without those that lead another Python to our packages."""
    hidden = ("PYTHONPATH", "PYSPARK_", "SPARK_", "OTTLA_SPARK", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name in FOR_JAVA or not name.startswith(hidden)}
