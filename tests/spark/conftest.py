"""A real broker, and no failures by what PySpark warns of: what every test here needs. Spark itself: running.py.

Tests marked `matrix` are rows of a table: which Spark, where, and how it was reached. OTTLA_MATRIX=FILE writes it, as
docs/conformance.md has it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from tests.spark.running import NOT_OURS

from ottla.testing import KafkaBroker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in str(item.path):
            for warning in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(warning))


_rows: dict[str, tuple[str, str]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marker = item.get_closest_marker("matrix")
    if marker is not None and (report.when == "call" or not report.passed):
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        why = f": {report.longrepr[2]}" if report.skipped and isinstance(report.longrepr, tuple) else ""
        _rows[str(marker.args[0]).format(**parameters)] = (report.outcome + why, item.path.name)
    return report


def pytest_sessionfinish() -> None:
    if _rows and (place := os.environ.get("OTTLA_MATRIX")):
        lines = [f"| {row} | {result} | `{test}` |" for row, (result, test) in _rows.items()]
        Path(place).write_text("\n".join(["| what | result | test |", "| --- | --- | --- |", *lines, ""]))


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as made:
        yield made
