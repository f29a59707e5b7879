"""Where Spark lies, and the same without what makes its Python processes slow to start."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ottla.errors import OttlaError
from ottla.java import cache_directory

_PARTS: Final = ("bin", "jars", "sbin", "conf", "data")


class SparkMissing(OttlaError):
    """PySpark is not installed. Install it: pip install 'ottla[spark]'."""


def spark_home() -> Path:
    """Where the PySpark package lies, unless the environment names another home."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkMissing
    return Path(os.environ.get("SPARK_HOME") or Path(spec.origin).parent)


def light_home() -> Path:
    """The same without its copy of Python's part, as links in the user's cache.

    Spark's Python processes take PySpark from a zip in its home, where nothing is compiled: 0.8 s of work for each.
    When the zip is not there they take the installed package: 0.3 s. A home that the environment names stays.
    """
    home = spark_home()
    if "SPARK_HOME" in os.environ:
        return home
    light = cache_directory() / "spark" / hashlib.sha256(str(home).encode()).hexdigest()[:16]  # one for each place
    light.mkdir(parents=True, exist_ok=True)
    for name in _PARTS:
        if (home / name).is_dir() and not (light / name).is_symlink():
            with suppress(FileExistsError):
                (light / name).symlink_to(home / name)
    return light
