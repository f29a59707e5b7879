"""Tables of Delta Lake as sinks: with PySpark 4.2, because there is no Delta for 4.3. From the registries: `long`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.spark.other_pythons import PACKAGES, SOURCES, bare_variables, make_environment
from tests.spark.running import why_not
from tests.spark.test_versions import fetched

from ottla.testing import KafkaBroker

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.long]

PROGRAM = Path(__file__).parent / "programs" / "delta_tables.py"
LIMIT_S = 600


@pytest.mark.matrix("PySpark 4.2, local: pipelines, into tables of Delta Lake 4.4.0")
def test_rows_are_added_once_replaced_by_key_and_overwritten(broker: KafkaBroker, tmp_path: Path) -> None:
    try:
        jars = find_jars("delta", "delta")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    python = make_environment(tmp_path / "env", paths=(SOURCES, fetched("4.2"), PACKAGES))
    done = subprocess.run(
        [python, PROGRAM, tmp_path, broker.bootstrap_servers, jars],
        env=bare_variables() | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    first, second, again = json.loads(done.stdout).values()
    assert first == {
        "added": [["a", 1], ["a", 3], ["b", 2]],
        "last": [["a", 3], ["b", 2]],
        "whole": [["a", 4], ["b", 2]],
    }
    assert second == {
        "added": [["a", 0], ["a", 1], ["a", 3], ["b", 2], ["b", 20], ["c", 5]],
        "last": [["b", 20], ["c", 5]],
        "whole": [["a", 4], ["c", 5]],
    }
    assert again == second, "a batch that is repeated changes nothing"
