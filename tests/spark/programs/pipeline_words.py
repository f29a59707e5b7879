"""What a pipeline's file can say, in one Spark: each story is a few pipelines, run one after the other. Prints JSON.

python pipeline_words.py DIRECTORY SERVERS REGISTRY STORY...
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ottla import Admin, NewTopic, Producer
from ottla.spark.pipelines.connecting import open_session
from ottla.spark.pipelines.running import load, run_triggered
from ottla.spark.pipelines.topics import prepare_topics, wanted_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE, SERVERS, REGISTRY = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
POSTGRES = os.environ.get("POSTGRES")
QUICK = {"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(HERE / "warehouse")}


def make_topics(*names: str) -> None:
    with Admin(bootstrap_servers=SERVERS) as admin:
        admin.create_topics([NewTopic(name, 1) for name in names])


def send(topic: str, *records: tuple[str | None, Any]) -> None:
    """Records with these keys and values; a dict is sent as JSON."""
    with Producer(bootstrap_servers=SERVERS) as producer:
        for key, value in records:
            content = json.dumps(value).encode() if isinstance(value, dict) else value
            producer.send(topic, value=content, key=None if key is None else key.encode())


def ran(spark: SparkSession, name: str, text: str) -> dict[str, Any]:
    """Run a pipeline of this text with what is there; returns the rows that each flow read and wrote."""
    file = HERE / f"{name}.yml"
    file.write_text(f"name: {name}\nstorage: storage-{name}\n{text.replace('@HERE@', str(HERE))}")
    loaded = load(file, {**os.environ, "REGISTRY": REGISTRY})
    plan = loaded.plan(SERVERS)
    for cluster in wanted_topics(plan, loaded.graph):
        prepare_topics(cluster)
    watch = loaded.watch(plan)
    run_triggered(plan, spark, watch, lambda seconds: bool(time.sleep(seconds)))
    return {flow: [figures.rows_in, figures.rows_out] for flow, figures in watch.flows.items()}


PLACE = 'syntax = "proto3"; package shop; message Place { string city = 1; }'
ORDER = """syntax = "proto3"; package shop; import "place.proto"; message Other { }
    message Order { int64 id = 1; Place at = 2; repeated string tags = 3; }"""
ORDER_JSON = """{"type": "object", "properties": {"id": {"type": "integer"}, "city": {"type": "string"}},
    "required": ["id"]}"""
ORDER_AVRO = """{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"},
    {"name": "at", "type": "Place"}, {"name": "tags", "type": {"type": "array", "items": "string"}}%s]}"""
PLACE_AVRO = '{"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}'
NEWER = ', {"name": "note", "type": "string", "default": "none"}'
WRITING = """
registry: ${REGISTRY}
sources:
  orders: {topic: orders, format: json, schema: "id BIGINT, at STRUCT<city: STRING>, tags ARRAY<STRING>"}
steps:
  flat: SELECT id, at.city AS city FROM orders
sinks:
  avro: {from: orders, topic: orders-avro, format: avro, key: id, key_format: avro, key_schema: '"long"'}
  proto: {from: orders, topic: orders-proto, format: protobuf, message: Order}
  jsons: {from: flat, topic: orders-json, format: json_schema, schema: order.json}
"""
READING = """
registry: ${REGISTRY}
sources:
  avro: {topic: orders-avro, format: avro}
  proto: {topic: orders-proto, format: protobuf, message: Order, bad_records: dead_letter}
  jsons: {topic: orders-json, format: json_schema}
  chosen: {topic: orders-json, format: json_schema, schema: city STRING, bad_records: drop}
steps:
  all_rows: |
    SELECT 'avro' AS form, id, at.city AS city, size(tags) AS tags, note FROM avro
    UNION ALL SELECT 'proto', id, at.city, size(tags), NULL FROM proto
    UNION ALL SELECT 'json', id, city, NULL, NULL FROM jsons
    UNION ALL SELECT 'chosen', NULL, city, NULL, NULL FROM chosen
sinks:
  out: {from: all_rows, topic: read}
dead_letters: unread
"""


def formats(spark: SparkSession) -> dict[str, Any]:
    """JSON becomes Avro, Protobuf and JSON by schemas that refer to others, and is read again by newer ones."""
    from ottla.client.schema_registry.registry import SchemaRegistry
    from ottla.schemas.model import AVRO, PROTOBUF, Reference, SchemaText

    registry = SchemaRegistry(REGISTRY)
    registry.register("place-avro", SchemaText(AVRO, PLACE_AVRO))
    registry.register("place-proto", SchemaText(PROTOBUF, PLACE))
    place = (Reference("Place", "place-avro", 1),)
    registry.register("orders-avro-value", SchemaText(AVRO, ORDER_AVRO % "", place))
    registry.register("orders-proto-value", SchemaText(PROTOBUF, ORDER, (Reference("place.proto", "place-proto", 1),)))
    (HERE / "order.json").write_text(ORDER_JSON)
    make_topics("orders")
    send("orders", *[(None, {"id": number, "at": {"city": f"c{number}"}, "tags": ["a"] * number}) for number in (1, 2)])
    written = ran(spark, "writing", WRITING)
    registry.register("orders-avro-value", SchemaText(AVRO, ORDER_AVRO % NEWER, place))
    send("orders-proto", (None, b"no protobuf"))
    send("orders-json", (None, b'{"id": 3, "city": "plain"}'))
    return {"written": written, "read": ran(spark, "reading", READING)}


UPSERTS = """
sources:
  clicks: {topic: upsert-clicks, format: json, schema: "user STRING, clicks INT, gone BOOLEAN"}
steps:
  counts: SELECT user, sum(clicks) AS clicks FROM clicks GROUP BY user
  few: SELECT user, sum(clicks) AS clicks FROM clicks GROUP BY user HAVING sum(clicks) < 10
sinks:
  last: {from: clicks, topic: upsert-last, mode: update, key: user, delete: gone}
  counted: {from: counts, topic: upsert-counts, mode: update, key: user}
  whole: {from: few, topic: upsert-few, mode: complete, key: user}
  in_catalog: {from: clicks, table: added_clicks, partition_by: user}
@TABLES@
"""
TABLES = """
  last_rows: {from: clicks, jdbc: "@ADDRESS@", table: last_rows, mode: update, key: user, delete: gone}
  counted_rows: {from: counts, jdbc: "@ADDRESS@", table: counted_rows, mode: update, key: user}
  whole_rows: {from: few, jdbc: "@ADDRESS@", table: whole_rows, mode: complete, key: user}
  added_rows: {from: clicks, jdbc: "@ADDRESS@", table: added_rows}
"""


def upserts(spark: SparkSession) -> dict[str, Any]:
    """Rows that replace what their key had: in topics, and in tables when there is a PostgreSQL."""
    text = UPSERTS.replace("@TABLES@", TABLES.replace("@ADDRESS@", POSTGRES) if POSTGRES else "")
    make_topics("upsert-clicks", "upsert-few")
    send("upsert-few", ("stranger", b"from before"))
    told = []
    for clicks in ([("a", 1), ("b", 2), ("a", 3)], [("b", 20), ("c", 5), ("a", None)]):
        rows = [{"user": user, "clicks": count or 0, "gone": count is None} for user, count in clicks]
        send("upsert-clicks", *[(str(row["user"]), row) for row in rows])
        told.append(ran(spark, "upserts", text))
    rows = spark.table("added_clicks").orderBy("user", "clicks").collect()
    return {"runs": told, "table": [sorted(row.asDict().items()) for row in rows]}


SOURCES = """
traces: true
sources:
  orders: {topic: "src-a,src-b", format: json, schema: "id INT, product STRING"}
  like: {topic_pattern: "src-[ab]", format: string}
  products: {topic: src-products, format: json, schema: "name STRING, price INT", key_format: string, table: true}
  rows: {topic: src-rows, format: json, schema: "id INT, name STRING", envelope: debezium}
  now:
    topic: src-rows
    format: json
    schema: id INT, name STRING
    envelope: debezium
    table: true
    bad_records: drop
steps:
  priced: SELECT id, product, price, orders._topic AS origin FROM orders LEFT JOIN products ON product = name
  known: SELECT orders.id, now.name FROM orders JOIN now ON orders.id = now.id
sinks:
  out: {from: priced, topic: src-priced}
  likes: {from: like, topic: src-likes, value: value, headers: {traceparent: _traceparent}}
  copied: {from: rows, topic: src-copied, mode: update, key: id, delete: _deleted}
  joined: {from: known, topic: src-known}
dead_letters: src-dead
"""


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def change(op: str, before: Any, after: Any) -> dict[str, Any]:
    row = {"before": before and {"id": 1, "name": before}, "after": after and {"id": 1, "name": after}, "op": op}
    return {**row, "ts_ms": 5, "source": {"db": "shop"}}


def sources(spark: SparkSession) -> dict[str, Any]:
    """Several topics, a pattern of topics, a topic as a table that is read anew, and changes of a database."""
    make_topics("src-a", "src-b", "src-products", "src-rows")
    send("src-products", ("x", {"name": "x", "price": 1}), ("y", {"name": "y", "price": 2}), ("y", None))
    send("src-products", ("z", b"not yet"), ("z", {"name": "z", "price": 3}))
    send("src-a", (None, {"id": 2, "product": "y"}))
    with Producer(bootstrap_servers=SERVERS) as producer:
        producer.send("src-a", b'{"id": 1, "product": "x"}', headers=[("traceparent", TRACE.encode())])
    send("src-b", (None, {"id": 3, "product": "z"}))
    other = {"payload": {"before": None, "after": {"id": 2, "name": "two"}, "op": "r"}, "schema": {"type": "struct"}}
    send("src-rows", ("1", change("c", None, "one")), ("2", other), ("1", change("u", "one", "uno")))
    send("src-rows", ("3", {"op": "t"}), ("4", change("d", None, None)))
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    told = [ran(spark, "sources", SOURCES)]
    links = {span.name: [f"{link.context.trace_id:032x}" for link in span.links] for span in spans.get_finished_spans()}
    send("src-products", ("x", {"name": "x", "price": 10}))
    send("src-rows", ("1", change("d", "uno", None)), ("1", None))
    send("src-a", (None, {"id": 1, "product": "x"}))
    told.append(ran(spark, "sources", SOURCES))
    return {"runs": told, "links": links}


SHAPES = """
sources:
  events:
    topic: shape-events
    format: json
    schema: id INT, user STRING, at TIMESTAMP, amount INT
    watermark: {column: at, delay: 1 second}
    options: {maxOffsetsPerTrigger: 6}
  payments:
    topic: shape-payments
    format: json
    schema: id INT, paid_at TIMESTAMP
    watermark: {column: paid_at, delay: 1 second}
    options: {maxOffsetsPerTrigger: 2}
steps:
  minutes: SELECT window.start AS minute, sum(amount) AS amount FROM events GROUP BY window(at, '1 minute')
  sessions: SELECT user, session_window.start AS begun, count(*) AS events FROM events
    GROUP BY session_window(at, '30 seconds'), user
  first: {from: events, unique_by: "id, user"}
  paid: SELECT events.id, user FROM events JOIN payments
    ON events.id = payments.id AND paid_at BETWEEN at AND at + INTERVAL 1 MINUTE
sinks:
  to_minutes: {from: minutes, topic: shape-minutes}
  to_sessions: {from: sessions, topic: shape-sessions}
  to_first: {from: first, topic: shape-first}
  to_paid: {from: paid, topic: shape-paid}
"""
OWN_STATE = """
spark:
  spark.sql.streaming.stateStore.providerClass: >-
    org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
  spark.sql.streaming.noDataMicroBatches.enabled: "false"
sources:
  events: {topic: shape-events, format: json, schema: "user STRING, amount INT", options: {maxOffsetsPerTrigger: 6}}
steps:
  totals: {python: "shapes.py:totals"}
sinks:
  to_totals: {from: totals, topic: shape-totals}
"""
TOTALS = """
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class Totals(StatefulProcessor):
    '''A total for each user; it is forgotten after an hour, and what it is then is told by a timer.'''

    def init(self, handle):
        self.handle = handle
        self.total = handle.getValueState("total", "total INT", ttlDurationMs=3_600_000)

    def handleInputRows(self, key, rows, timerValues):
        known = self.total.get()
        total = (known[0] if known else 0) + sum(row.amount for row in rows)
        self.total.update((total,))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        yield Row(user=key[0], total=total, by="rows")

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield Row(user=key[0], total=self.total.get()[0], by="timer")

    def close(self):
        pass


def totals(events):
    columns = "user STRING, total INT, by STRING"
    return events.groupBy("user").transformWithState(Totals(), columns, "Append", "ProcessingTime")
"""


def shapes(spark: SparkSession) -> dict[str, Any]:
    """What keeps state: windows, sessions, first rows, two streams joined, and state of one's own with timers."""
    (HERE / "shapes.py").write_text(TOTALS)
    make_topics("shape-events", "shape-payments")
    moments = [(1, "a", "00:05"), (2, "b", "00:10"), (1, "a", "00:20"), (3, "a", "01:10"), (4, "b", "03:00")]
    rows = [{"id": number, "user": user, "at": f"2026-01-01T00:{at}Z", "amount": 10} for number, user, at in moments]
    send("shape-events", *[(None, row) for row in rows])
    send("shape-events", (None, {"id": 9, "user": "z", "at": "2026-01-01T01:00:00Z", "amount": 0}))
    send("shape-events", *[(None, {"id": 10, "user": "z", "at": "2026-01-01T02:00:00Z", "amount": 0})] * 6)
    send("shape-payments", *[(None, {"id": number, "paid_at": "2026-01-01T00:00:50Z"}) for number in (1, 2, 3)])
    send("shape-payments", (None, {"id": 9, "paid_at": "2026-01-01T03:00:00Z"}))
    return {"run": ran(spark, "shapes", SHAPES), "own": ran(spark, "own-state", OWN_STATE)}


STORIES: dict[str, Callable[[SparkSession], dict[str, Any]]] = {
    "formats": formats,
    "upserts": upserts,
    "sources": sources,
    "shapes": shapes,
}


def main() -> None:
    told: dict[str, Any] = {}
    with open_session("words", master="local[2]", settings=QUICK, log=HERE / "spark.log") as spark:
        for name in sys.argv[4:]:
            begun = time.monotonic()
            told[name] = STORIES[name](spark)
            print(f"{name}: {time.monotonic() - begun:.1f} s", file=sys.stderr)
    print(json.dumps(told))


main()
