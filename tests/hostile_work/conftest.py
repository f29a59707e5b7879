"""One attacked broker for all tests of a worker: filling it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.hostile_work.attack import Attacked
from tests.hostile_work.prefill import fill


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with Attacked(tmp_path_factory.mktemp("attacked")) as broker:
        fill(broker)
        yield broker
