"""What a pipeline's file can say, with real Spark, a real broker and its registry."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla import Consumer, TopicPartition
from ottla.testing import KafkaBroker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")
pytest.importorskip("starlette", reason="the registry needs ottla[registry]")
pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")

PROGRAM = Path(__file__).parent / "programs" / "pipeline_words.py"
LIMIT_S = 900
STORIES = ("formats",)


def committed(broker: KafkaBroker, topic: str) -> list[Any]:
    """All committed records of a topic with one partition."""
    records: list[Any] = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            records += consumer.poll(1.0)
    return records


@pytest.fixture(scope="module")
def told(registry_broker: KafkaBroker, registry_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the stories told; one Spark runs all of them, because it takes ten seconds to start."""
    here = tmp_path_factory.mktemp("words")
    command = [sys.executable, str(PROGRAM), str(here), registry_broker.bootstrap_servers, registry_url, *STORIES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    log = here / "spark.log"
    assert done.returncode == 0, done.stderr[-3000:] + (log.read_text()[-2000:] if log.exists() else "")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_formats_of_a_registry_are_written_and_read_with_references_and_newer_schemas(
    told: dict[str, Any], registry_broker: KafkaBroker
) -> None:
    assert told["formats"]["written"] == {"avro": [2, 2], "proto": [2, 2], "jsons": [2, 2]}
    keys = [record.key for record in committed(registry_broker, "orders-avro")]
    assert sorted(key[5:] for key in keys) == [b"\x02", b"\x04"], "keys by a schema of their own"
    rows = [json.loads(record.value) for record in committed(registry_broker, "read")]
    found = sorted((row["form"], row.get("id"), row.get("city"), row.get("tags"), row.get("note")) for row in rows)
    assert found == [
        ("avro", 1, "c1", 1, "none"),
        ("avro", 2, "c2", 2, "none"),
        *[("chosen", None, city, None, None) for city in ("c1", "c2", "plain")],
        ("json", 1, "c1", None, None),
        ("json", 2, "c2", None, None),
        ("json", 3, "plain", None, None),
        ("proto", 1, "c1", 1, None),
        ("proto", 2, "c2", 2, None),
    ], "old Avro records have the newer schema's default"
    (dead,) = committed(registry_broker, "unread")
    headers = {name: value.decode() for name, value in dead.headers}
    assert headers["ottla.dead.reason"] == "the value is no protobuf of the schema"
    assert (headers["ottla.dead.topic"], headers["ottla.dead.offset"]) == ("orders-proto", "3"), "behind a marker"
