"""A real broker, and no failures by what PySpark warns of: what every test here needs. Spark itself: running.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.spark.running import NOT_OURS

from ottla.testing import KafkaBroker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in str(item.path):
            for warning in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as made:
        yield made
