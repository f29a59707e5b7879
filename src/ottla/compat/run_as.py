"""Run a program for another library on Ottla without editing it.

    python -m ottla.compat.run_as confluent_kafka program.py --its arguments
    python -m ottla.compat.run_as kafka,aiokafka -m package.module

Inside the program `import confluent_kafka` (and everything below it) means ottla.compat.confluent_kafka, whether the
original is installed or not. Libraries: confluent_kafka, kafka, aiokafka; several with commas between.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Final

LIBRARIES: Final = ("confluent_kafka", "kafka", "aiokafka")
USAGE: Final = "usage: python -m ottla.compat.run_as LIBRARY[,LIBRARY] (program.py | -m module) [arguments]"


class _Alias(importlib.abc.Loader):
    """Gives our module under the name of theirs."""

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # it was run under its own name, and keeps it


class Aliases(importlib.abc.MetaPathFinder):
    """Finds libraries, and modules below them, in ottla.compat."""

    def __init__(self, libraries: Sequence[str]) -> None:
        self._libraries = frozenset(libraries)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self._libraries:
            return None
        ours = f"ottla.compat.{fullname}"
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise ModuleNotFoundError(f"No module named {fullname!r}: ottla.compat does not have it", name=fullname)
        is_package = found.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(fullname, _Alias(ours), is_package=is_package)


def alias(*libraries: str) -> None:
    """From now on these names mean ours, in this process."""
    for name in libraries:
        if name not in LIBRARIES:
            raise ValueError(f"{name!r} is none of {', '.join(LIBRARIES)}")
        for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[loaded]
    sys.meta_path.insert(0, Aliases(libraries))


def main(arguments: Sequence[str]) -> int:
    """What the command does; its result is the program's."""
    if len(arguments) < 2 or (arguments[1] == "-m" and len(arguments) < 3):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        alias(*arguments[0].split(","))
    except ValueError as error:
        print(f"{USAGE}\n{error}", file=sys.stderr)
        return 2
    if arguments[1] != "-m" and not Path(arguments[1]).exists():
        print(f"{USAGE}\nthere is no {arguments[1]}", file=sys.stderr)
        return 2
    try:
        _run(arguments[1:])
    except Exception as error:
        # As if Python had been given the program itself: whoever reads this has no use for how we started it.
        error.__traceback__ = _of_the_program(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _run(arguments: Sequence[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


def _of_the_program(found: TracebackType | None) -> TracebackType | None:
    inner = found
    while inner is not None and inner.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        inner = inner.tb_next
    return inner or found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
