"""Real Spark on two cores of this machine, and a real broker: what every test here needs.

One session serves all tests of a process, because a JVM takes ten seconds to warm up. A test that kills its driver
starts a process of its own (programs/).
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ottla.java import JavaMissing, java_home
from ottla.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark is not ours: what it warns of must not fail our tests."""
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark.*"))
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning:pyspark.*"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::UserWarning:pyspark.*"))


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


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as made:
        yield made
