"""keyFormat and valueFormat in real Spark: text, JSON and Avro columns of a real broker."""

from __future__ import annotations

import http.server
import io
import json
import threading
from collections.abc import Iterator

import fastavro
import pytest

from ottla import Producer

V1 = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "long"}]}
V2 = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "id", "type": "long"}, {"name": "page", "type": "string", "default": "none"}],
}


def produce(broker, topic, values):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, key=b"k", partition=0)


def load(spark, broker, topic, **options):
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return reader.option("subscribe", topic).options(**options).load()


def written(schema, value, number):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


@pytest.fixture
def registry() -> Iterator[dict[str, object]]:
    """A schema registry over HTTP; what it answers, by path, is in the dictionary, and its address under `url`."""
    answers: dict[str, object] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            schema = answers.get(self.path)
            body = json.dumps({"id": 1, "schema": json.dumps(schema)} if schema else {"message": "unknown"}).encode()
            self.send_response(200 if schema else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    answers["url"] = f"http://user:secret@127.0.0.1:{server.server_port}"
    yield answers
    server.shutdown()
    thread.join()
    server.server_close()


def test_text_and_json(spark, broker):
    produce(broker, "json", [b'{"id": 1, "tags": ["a", "b"]}', None, b'{"id": 2, "at": "2026-11-15T00:00:00Z"}'])
    schema = "id BIGINT, tags ARRAY<STRING>, at TIMESTAMP"
    frame = load(spark, broker, "json", keyFormat="string", valueFormat="json", valueSchema=schema)
    assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,tags:array<string>,at:timestamp>"
    rows = frame.selectExpr("key", "value.id", "size(value.tags) AS tags", "date(value.at) AS at", "offset").collect()
    assert [(row.key, row.id, row.tags, str(row.at), row.offset) for row in rows] == [
        ("k", 1, 2, "None", 0),
        ("k", None, None, "None", 1),
        ("k", 2, None, "2026-11-15", 2),
    ]


def test_bad_records_fail_with_their_place_or_become_null(spark, broker):
    produce(broker, "bad", [b'{"id": 1}', b"oops"])
    options = {"valueFormat": "json", "valueSchema": "id INT"}
    with pytest.raises(Exception, match="bad-0 at offset 1"):
        load(spark, broker, "bad", **options).collect()
    rows = load(spark, broker, "bad", badRecords="null", **options).select("value.id", "value").collect()
    assert [(row.id, row.value is None) for row in rows] == [(1, False), (None, True)]


def test_avro_of_two_writers_with_a_registry(spark, broker, registry):
    registry.update({"/schemas/ids/1": V1, "/schemas/ids/2": V2, "/subjects/avro-value/versions/latest": V2})
    produce(broker, "avro", [written(V1, {"id": 1}, 1), written(V2, {"id": 2, "page": "p"}, 2)])
    frame = load(spark, broker, "avro", valueFormat="avro", schemaRegistryUrl=registry["url"])
    assert [tuple(row.value) for row in frame.select("value").collect()] == [(1, "none"), (2, "p")]


def test_a_new_schema_in_the_registry_does_not_change_a_query_that_was_planned(spark, broker, registry):
    registry.update({"/schemas/ids/1": V1, "/schemas/ids/2": V2, "/subjects/grown-value/versions/latest": V1})
    produce(broker, "grown", [written(V1, {"id": 1}, 1), written(V2, {"id": 2, "page": "p"}, 2)])
    frame = load(spark, broker, "grown", valueFormat="avro", schemaRegistryUrl=registry["url"])
    assert frame.count() == 2
    registry["/subjects/grown-value/versions/latest"] = V2
    assert [tuple(row.value) for row in frame.select("value").collect()] == [(1,), (2,)]


def test_a_schema_of_the_user_reads_only_those_columns(spark, broker):
    produce(broker, "columns", [b"a", b"b"])
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    frame = reader.option("subscribe", "columns").schema("offset BIGINT, value BINARY").load()
    assert [(row.offset, bytes(row.value)) for row in frame.collect()] == [(0, b"a"), (1, b"b")]
    with pytest.raises(Exception, match="column 'value' is binary, not string"):
        reader.option("subscribe", "columns").schema("value STRING").load().collect()


def test_headers_and_times_are_as_the_connector_gives_them(spark, broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("headers", b"a", headers=[("h", b"1"), ("h", None)], timestamp_ms=1_700_000_000_123, partition=0)
        producer.send("headers", b"b", timestamp_ms=1_700_000_000_124, partition=0)
    rows = load(spark, broker, "headers", includeHeaders="true").selectExpr(
        "headers", "unix_millis(timestamp) AS ms", "timestampType"
    ).collect()  # fmt: skip
    assert [None if row.headers is None else [tuple(each) for each in row.headers] for row in rows] == [
        [("h", bytearray(b"1")), ("h", None)],
        None,
    ]
    assert [(row.ms, row.timestampType) for row in rows] == [(1_700_000_000_123, 0), (1_700_000_000_124, 0)]
