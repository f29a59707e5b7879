"""Builds reactor.pyx into a temporary directory and imports it: it is no part of what is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
RECORDS: Final = ROOT / "src" / "ottla" / "records"
BUILD: Final = """
from setuptools import Extension, setup
from Cython.Build import cythonize
extension = Extension("reactor", [{source!r}], extra_compile_args=["-O3"], include_dirs=[{records!r}])
setup(ext_modules=cythonize([extension], language_level=3, include_path=[{records!r}, {src!r}], build_dir="c"))
"""


def build(directory: Path) -> Path:
    """The compiled module below `directory`; takes a quarter of a minute."""
    script = BUILD.format(source=str(HERE / "reactor.pyx"), records=str(RECORDS), src=str(ROOT / "src"))
    (directory / "setup.py").write_text(script)
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    built = directory / f"reactor{sysconfig.get_config_var('EXT_SUFFIX')}"
    if done.returncode or not built.exists():
        raise SystemExit(f"the trial cannot be built:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return built


def load(built: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("reactor", built)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
