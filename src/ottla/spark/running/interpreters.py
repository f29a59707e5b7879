"""Which Python runs where: on the driver, and on executors that have an environment of their own.

Spark (4.0 to 4.3) has one interpreter for everything that it does with a data source in Python: it plans a query with
it on the driver, and runs the tasks with it on the executors. For sources that it finds by itself, as ours, that is
PYSPARK_DRIVER_PYTHON of the driver's JVM, else PYSPARK_PYTHON, else python3. PYSPARK_PYTHON alone, which decides for
Python functions (UDFs), does not reach them.

So one text must be right on both sides. A path is, where all machines have the same. A bare name is, too, because each
machine looks it up in the PATH of its own:

    PYSPARK_PYTHON=/opt/env/bin/python          what the user says: the interpreter of the executors
    PYSPARK_DRIVER_PYTHON=python                what we say to the driver's JVM, whose PATH leads to the driver's
    spark.executorEnv.PATH=/opt/env/bin:...     what we say to executors

1. Nothing is decided for a local master: there is only one machine, and one Python.
2. A relative path (./environment/bin/python, from --archives) is one in the working directory of an executor.
3. spark.dataSource.register() takes PYSPARK_PYTHON for a source, which is that of executors, and then plans with it on
   the driver, too. register_source() gives such a source what those have that Spark finds by itself.
4. Under spark-submit the JVM runs already, and its environment cannot be changed. What cannot be made right there is an
   error that says what to set.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

DRIVER_VARIABLE: Final = "PYSPARK_DRIVER_PYTHON"
EXECUTOR_VARIABLE: Final = "PYSPARK_PYTHON"
EXECUTOR_SETTINGS: Final = ("spark.pyspark.python", "spark.executorEnv.PYSPARK_PYTHON")
PATH_SETTING: Final = "spark.executorEnv.PATH"
SPARKS_DEFAULT: Final = "python3"
USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ExecutorPythonUnreachable(OttlaError):
    """Spark runs the tasks of a Python source with PYSPARK_DRIVER_PYTHON, and that is not the Python of the executors.
    Set PYSPARK_DRIVER_PYTHON to a bare name such as python3, and PATH on the driver so that it leads to the driver's;
    PYSPARK_PYTHON says where the executors have theirs."""

    invalid_configuration = True


@dataclass(frozen=True, slots=True)
class Interpreters:
    """Which Python Spark is told of."""

    executors: str
    """PYSPARK_PYTHON: what runs Python functions of the user on executors."""
    source: str
    """PYSPARK_DRIVER_PYTHON of the JVM: what runs our source, on the driver and on executors."""
    executor_path: str | None = None
    """PATH of the executors, where `source` is a name that must lead to `executors` there."""


def choose_interpreters(
    master: str, executable: str, settings: Mapping[str, str], environment: Mapping[str, str]
) -> Interpreters:
    """For a session that starts its JVM itself. `executable` is the Python of this process."""
    said = next((settings[name] for name in EXECUTOR_SETTINGS if name in settings), None)
    driver = environment.get(DRIVER_VARIABLE) or executable
    if master.startswith("local"):
        executors = said or environment.get(EXECUTOR_VARIABLE) or executable
        return Interpreters(executors, environment.get(DRIVER_VARIABLE) or executors)
    executors = said or environment.get(EXECUTOR_VARIABLE) or driver
    if executors == driver:
        return Interpreters(executors, driver)
    return _by_name(executors, PurePosixPath(executors).name, settings)


def interpreters_of_a_running_jvm(
    master: str, settings: Mapping[str, str], environment: Mapping[str, str], jvm_environment: Mapping[str, str]
) -> Interpreters:
    """For a program that spark-submit started; raises ExecutorPythonUnreachable when it cannot be made right."""
    source = jvm_environment.get(DRIVER_VARIABLE) or jvm_environment.get(EXECUTOR_VARIABLE) or SPARKS_DEFAULT
    executors = environment.get(EXECUTOR_VARIABLE) or SPARKS_DEFAULT
    if master.startswith("local") or executors == source:
        return Interpreters(executors, source)
    if "/" in source:
        raise ExecutorPythonUnreachable(
            f"{DRIVER_VARIABLE}={source} and {EXECUTOR_VARIABLE}={executors}; set"
            f" {DRIVER_VARIABLE}={PurePosixPath(executors).name}"
        )
    if PurePosixPath(executors).name != source:
        raise ExecutorPythonUnreachable(
            f"{DRIVER_VARIABLE}={source} and {EXECUTOR_VARIABLE}={executors} must end in the same name"
        )
    return _by_name(executors, source, settings)


def _by_name(executors: str, name: str, settings: Mapping[str, str]) -> Interpreters:
    """Executors find `name` in a PATH that begins with the directory of theirs."""
    if "/" not in executors:
        return Interpreters(executors, name)
    before = settings.get(PATH_SETTING) or USUAL_PATH
    return Interpreters(executors, name, f"{PurePosixPath(executors).parent}:{before}")


def driver_directory(executable: Path, name: str, cache: Path) -> Path:
    """A directory in which `name` is the Python of this process: its own, or one with a script that calls it."""
    if (executable.parent / name).exists():
        return executable.parent
    directory = cache / "python" / hashlib.sha256(str(executable).encode()).hexdigest()[:16]
    directory.mkdir(parents=True, exist_ok=True)
    draft = directory / f"{name}.{os.getpid()}"
    draft.write_text(f'#!/bin/sh\nexec {shlex.quote(str(executable))} "$@"\n')
    draft.chmod(0o755)
    draft.replace(directory / name)  # another session may be starting it right now
    return directory


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """As spark.dataSource.register; with Spark Connect exactly that, because the server decides."""
    context: Any = getattr(spark, "_sc", None)
    if context is None:
        spark.dataSource.register(source)
        return
    before = context.pythonExec
    context.pythonExec = os.environ.get(DRIVER_VARIABLE) or before
    try:
        spark.dataSource.register(source)
    finally:
        context.pythonExec = before
