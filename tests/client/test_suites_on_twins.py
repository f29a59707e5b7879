"""The client's and the broker's suites once more, on the Python twins of all native leaves.

Where leaves are built, all other tests run on them. Both sides of these runs are the twins': the producers and
consumers, and the brokers that tests start in their own process. Byte for byte the twins are compared elsewhere
(tests/unit/**/test_*twins*.py, test_frames.py, test_plain_runs.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import HANG_S

from ottla import native

ROOT = Path(__file__).parents[2]
SUITES = (
    "tests/client/test_producer_sync.py",
    "tests/client/test_producer_async.py",
    "tests/client/test_consumer_reading.py",
    "tests/client/test_consumer_async.py",
    "tests/client/test_consumer_groups.py",
    "tests/unit/broker/produce",
    "tests/unit/client/consumer",
    "tests/unit/client/producer",
)
MORE_SUITES = (
    "tests/client/test_bad_weather_producer.py",
    "tests/client/test_bad_weather_consumer.py",
    "tests/client/test_bad_weather_transactions.py",
    "tests/unit/broker",
    "tests/unit/client",
)

pytestmark = pytest.mark.skipif(
    not native.is_built(native.CODEC) or os.environ.get(native.VARIABLE) == "python",
    reason="the whole run is on the twins already",
)


def run_on_twins(suite: str, limit_s: float) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", suite]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment | {native.VARIABLE: "python"},
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_passes_on_the_twins(suite):
    run_on_twins(suite, HANG_S * 4)


@pytest.mark.long
@pytest.mark.parametrize("suite", MORE_SUITES)
def test_the_rest_of_the_suites_passes_on_the_twins(suite):
    run_on_twins(suite, HANG_S * 20)
