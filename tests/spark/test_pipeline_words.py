"""What a pipeline's file can say, with real Spark, a real broker and its registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.postgres import postgres
from tests.postgres import why_not as no_postgres

from ottla import Admin, Consumer, TopicPartition
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.testing import KafkaBroker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")
pytest.importorskip("starlette", reason="the registry needs ottla[registry]")
pytest.importorskip("fastavro")
pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("jsonschema")
psycopg = pytest.importorskip("psycopg", reason="needs ottla[postgres]")

__all__ = ["postgres"]  # a fixture
PROGRAM = Path(__file__).parent / "programs" / "pipeline_words.py"
LIMIT_S = 900
STORIES = tuple(os.environ.get("STORIES", "formats,upserts,sources,shapes").split(","))


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
def address(request: pytest.FixtureRequest) -> str | None:
    """A database for the stories, when this machine has one."""
    return None if no_postgres() else f"jdbc:postgresql://{request.getfixturevalue('postgres')}/postgres?user=postgres"


@pytest.fixture(scope="module")
def told(
    registry_broker: KafkaBroker, registry_url: str, address: str | None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the stories told; one Spark runs all of them, because it takes ten seconds to start."""
    here = tmp_path_factory.mktemp("words")
    command = [sys.executable, str(PROGRAM), str(here), registry_broker.bootstrap_servers, registry_url, *STORIES]
    environment = {**os.environ, **({"POSTGRES": address} if address else {})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
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


def test_rows_replace_what_their_key_had_in_a_topic(told: dict[str, Any], registry_broker: KafkaBroker) -> None:
    def changelog(topic: str) -> list[tuple[str, Any]]:
        found = [(record.key.decode(), record.value) for record in committed(registry_broker, topic)]
        return [(key, None if value is None else json.loads(value).get("clicks")) for key, value in found]

    last = changelog("upsert-last")
    assert (sorted(last[:2]), sorted(last[2:], key=str)) == ([("a", 3), ("b", 2)], [("a", None), ("b", 20), ("c", 5)])
    counted = changelog("upsert-counts")
    assert (sorted(counted[:2]), sorted(counted[2:])) == ([("a", 4), ("b", 2)], [("a", 4), ("b", 22), ("c", 5)])
    whole = [(record.key.decode(), record.value) for record in committed(registry_broker, "upsert-few")][1:]
    now = [(key, None if value is None else json.loads(value)["clicks"]) for key, value in whole]
    assert sorted(now[:3], key=str) == [("a", 4), ("b", 2), ("stranger", None)], "the first result replaces the topic's"
    assert sorted(now[3:], key=str) == [("b", None), ("c", 5)], "b has vanished, and a is not written again"
    with Admin(bootstrap_servers=registry_broker.bootstrap_servers) as admin:
        (config,) = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "upsert-last")]).values()
    assert config["cleanup.policy"].value == "compact"


def test_a_table_of_a_catalog_gets_every_row_once(told: dict[str, Any]) -> None:
    rows = [dict(row) for row in told["upserts"]["table"]]
    assert [(row["user"], row["clicks"]) for row in rows] == [
        ("a", 0), ("a", 1), ("a", 3), ("b", 2), ("b", 20), ("c", 5)
    ]  # fmt: skip
    assert set(rows[0]) == {"user", "clicks", "gone"}, "where a row came from is no part of the table"


def test_rows_replace_what_their_key_had_in_postgresql(told: dict[str, Any], address: str | None) -> None:
    if (reason := no_postgres()) is not None:
        pytest.skip(reason)
    assert address is not None
    with psycopg.connect(address.removeprefix("jdbc:")) as connection:
        tables = {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=str)
            for name in ("last_rows", "counted_rows", "whole_rows", "added_rows")
        }
        batches = connection.execute("SELECT batch FROM ottla_batches").fetchall()
    assert tables["last_rows"] == [("b", 20, False), ("c", 5, False)]
    assert tables["counted_rows"] == [("a", 4), ("b", 22), ("c", 5)]
    assert tables["whole_rows"] == [("a", 4), ("c", 5)]
    assert [row[:2] for row in tables["added_rows"]] == [("a", 0), ("a", 1), ("a", 3), ("b", 2), ("b", 20), ("c", 5)]
    assert batches == [(1,)] * 4


def test_topics_are_read_together_as_tables_and_as_changes(told: dict[str, Any], registry_broker: KafkaBroker) -> None:
    def rows(topic: str) -> list[Any]:
        return [json.loads(record.value) for record in committed(registry_broker, topic)]

    priced = sorted((row["id"], row.get("price"), row["origin"]) for row in rows("src-priced")[:3])
    assert priced == [(1, 1, "src-a"), (2, None, "src-a"), (3, 3, "src-b")], "y was deleted, z was bad once"
    assert [(row["id"], row["price"]) for row in rows("src-priced")[3:]] == [(1, 10)], "the table is read anew"
    assert len(committed(registry_broker, "src-likes")) == 4
    traces = [dict(record.headers).get("traceparent") for record in committed(registry_broker, "src-likes")]
    assert sorted(filter(None, traces)) == [b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]
    links = told["sources"]["links"]
    assert links["process likes"] == links["process out"] == ["0af7651916cd43dd8448eb211c80319c"]
    assert links["process copied"] == [], "its source had no record with a trace"
    copied = [(record.key, record.value) for record in committed(registry_broker, "src-copied")]
    assert sorted(copied[:2]) == [(b"1", b'{"id":1,"name":"uno"}'), (b"2", b'{"id":2,"name":"two"}')]
    assert copied[2:] == [(b"1", None)], "a row that was deleted is a tombstone"
    known = [(row["id"], row["name"]) for row in rows("src-known")]
    assert sorted(known) == [(1, "uno"), (2, "two")], (
        "the third order of the first run, and one of the second, have none"
    )
    reasons = sorted(
        dict(record.headers)["ottla.dead.reason"].decode() for record in committed(registry_broker, "src-dead")
    )
    assert [reason[:22] for reason in reasons] == ["the change has no row:", "the value is no change"]


def test_steps_that_keep_state(told: dict[str, Any], registry_broker: KafkaBroker) -> None:
    def rows(topic: str, *names: str) -> list[tuple[Any, ...]]:
        records = [json.loads(record.value) for record in committed(registry_broker, topic)]
        return sorted(tuple(str(record.get(name))[:19] for name in names) for record in records)

    assert told["shapes"]["run"]
    assert rows("shape-minutes", "amount") == [("0",), ("10",), ("10",), ("30",)]
    assert rows("shape-sessions", "user", "events") == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "1"), ("z", "1")]
    assert rows("shape-first", "id", "user") == [
        ("1", "a"), ("10", "z"), ("2", "b"), ("3", "a"), ("4", "b"), ("9", "z")
    ]  # fmt: skip
    assert rows("shape-paid", "id", "user") == [("1", "a"), ("1", "a"), ("2", "b")], "3 was paid before its event"
    assert [row for row in rows("shape-totals", "user", "total", "by") if row[2] == "rows"][:2] == [
        ("a", "30", "rows"), ("b", "20", "rows")
    ]  # fmt: skip
    assert ("a", "30", "timer") in rows("shape-totals", "user", "total", "by")
