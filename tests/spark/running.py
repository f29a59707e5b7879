"""Real Spark on two cores of this machine, for whoever tests with it: a session, or the reason why there is none.

`spark` is a fixture of every test (tests/conftest.py takes it in). One session serves all tests of a process, because a
JVM takes ten seconds to warm up. A test that kills its driver starts a process of its own (programs/).
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ottla.java import JavaMissing, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# PySpark is not ours: what it warns of must not fail our tests.
NOT_OURS = (
    "ignore::DeprecationWarning:pyspark.*",
    "ignore::FutureWarning:pyspark.*",
    "ignore::ResourceWarning",
    "ignore::UserWarning:pyspark.*",
)


def why_not() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "needs PySpark: pip install 'ottla[spark]'"
    try:
        java_home()
    except JavaMissing as missing:
        return str(missing)
    return None


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    from ottla.spark import session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = session("ottla-tests", master="local[2]", settings={"spark.sql.shuffle.partitions": "2"}, quiet=True)
    yield made
    made.stop()
