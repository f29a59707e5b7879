"""The recorded names are those that Apache Kafka 4.3.1 has under the JMX exporter."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.jmx_names import names_of_kafka, recorded_names
from tests.conformance.kafka_jars import JarsMissing


@pytest.mark.long
def test_kafka_has_the_names_that_are_recorded(tmp_path: Path) -> None:
    try:
        names = names_of_kafka(tmp_path)
    except JarsMissing as reason:
        pytest.skip(str(reason))
    found, recorded = {each.name: each for each in names}, {each.name: each for each in recorded_names()}
    # What a moment of its work decides: whether something expired or was evicted just then.
    assert len(found.keys() ^ recorded.keys()) <= 5, sorted(found.keys() ^ recorded.keys())
    assert {name: found[name] for name in found.keys() & recorded.keys()} == {
        name: recorded[name] for name in found.keys() & recorded.keys()
    }
