"""Builds the native leaves when a C compiler is there; everything else is in pyproject.toml.

Every native module has a readable Python twin with the same names, so a failed build is not a failed install:
ottla.native takes the twin. OTTLA_BUILD_NATIVE=0 skips the build on purpose, =1 makes a failure fatal.
OTTLA_BUILD_ROOMS=1 has mypyc compile the rooms that a record passes, too (`make compiled`; ottla.native lists them).
It takes two minutes, and mypy must be there.

pip shows nothing of a build. A file named by OTTLA_BUILD_NOTES gets the number of leaves, and then a line for each that
is done: packaging/install.py tells it to whoever waits.
"""

import os
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE_MODULES = {
    "ottla.client.producer.batches._append": "src/ottla/client/producer/batches/_append.pyx",
    "ottla.records._native": "src/ottla/records/_native.pyx",
    "ottla.records._checks": "src/ottla/records/_checks.pyx",
    "ottla.records._compaction": "src/ottla/records/_compaction.pyx",
    "ottla.schemas.arrow._avro_columns": "src/ottla/schemas/arrow/_avro_columns.pyx",
    "ottla.schemas.arrow._json_columns": "src/ottla/schemas/arrow/_json_columns.pyx",
    "ottla.schemas.arrow._protobuf_columns": "src/ottla/schemas/arrow/_protobuf_columns.pyx",
    "ottla.client.consumer._records": "src/ottla/client/consumer/_records.pyx",
    "ottla.net._framing": "src/ottla/net/_framing.pyx",
    "ottla.net.tls._data_path": "src/ottla/net/tls/_data_path.pyx",
    "ottla.storage._reserving": "src/ottla/storage/_reserving.pyx",
    "ottla.broker.fetch._frames": "src/ottla/broker/fetch/_frames.pyx",
    "ottla.broker.produce._frames": "src/ottla/broker/produce/_frames.pyx",
}
WISH = os.environ.get("OTTLA_BUILD_NATIVE", "")
ROOMS: tuple[str, ...] = runpy.run_path("src/ottla/native.py")["ROOMS"]
WITH_ROOMS = os.environ.get("OTTLA_BUILD_ROOMS", "") == "1"
NOTES = os.environ.get("OTTLA_BUILD_NOTES", "")


def note(text: str) -> None:
    if NOTES:
        with Path(NOTES).open("a", encoding="utf-8") as notes:
            notes.write(f"{text}\n")


class build_optional_ext(build_ext):  # noqa: N801 - setuptools names its commands like this
    """setuptools' own `optional` forgives a compiler that fails, not one that is missing."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()  # a compiler for each leaf: the first minutes are waited for

    def build_extensions(self) -> None:
        note(str(len(self.extensions)))
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
            note(ext.name)
        except Exception as error:
            if WISH == "1" or ext.name not in NATIVE_MODULES:
                raise
            print(f"ottla: {ext.name} is not built ({error}); its Python twin is used instead", file=sys.stderr)

    def copy_extensions_to_source(self) -> None:
        """For editable installs: copy what was built, not what should have been."""
        self.extensions = [ext for ext in self.extensions if self.built_path(ext).exists()]
        super().copy_extensions_to_source()

    def built_path(self, ext: Extension) -> Path:
        return Path(self.build_lib) / self.get_ext_filename(self.get_ext_fullname(ext.name))


def native_extensions() -> list[Extension]:
    if WISH == "0":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    extensions = [
        Extension(name, [source], extra_compile_args=["-O3"])
        for name, source in NATIVE_MODULES.items()
        if Path(source).exists()
    ]
    return cythonize(extensions, language_level=3)


def compiled_rooms() -> list[Extension]:
    """All in one group: they know each other's classes."""
    if not WITH_ROOMS:
        return []
    from mypyc.build import mypycify

    os.environ.setdefault("MYPYPATH", "src")
    files = [f"src/{room.replace('.', '/')}.py" for room in ROOMS]
    options = ["--config-file=packaging/mypyc.ini", "--follow-imports=silent"]
    return mypycify([*options, *files], multi_file=True, group_name="ottla_rooms", target_dir="build/rooms")


setup(ext_modules=[*native_extensions(), *compiled_rooms()], cmdclass={"build_ext": build_optional_ext})
