"""Builds the native leaves when a C compiler is there; everything else is in pyproject.toml.

Every native module has a readable Python twin with the same names, so a failed build is not a failed
install: `optional=True` lets setuptools go on, and ottla.records.implementation takes the twin.
"""

import os

from setuptools import Extension, setup

NATIVE_MODULES = {
    "ottla.records._native": "src/ottla/records/_native.pyx",
}


def native_extensions() -> list[Extension]:
    if os.environ.get("OTTLA_BUILD_NATIVE") == "0":
        return []
    extensions = [
        Extension(name, [source], optional=True, extra_compile_args=["-O3"])
        for name, source in NATIVE_MODULES.items()
        if os.path.exists(source)
    ]
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    return cythonize(extensions, language_level=3)


setup(ext_modules=native_extensions())
