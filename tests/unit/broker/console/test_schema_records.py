"""Records that name a schema, in the console: shown as what they mean, with the schema's name; bad ones as they are."""

import json

import pytest

pytest.importorskip("starlette", reason="the console needs ottla[console]")
pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("google.protobuf")
from tests.schema_registry import LISTENER, url_of
from tests.unit.broker.http.http_client import HttpClient

from ottla import Producer
from ottla.schemas.framing import frame
from ottla.schemas.model import SchemaText
from ottla.schemas.protobuf.messages import class_of, linked_file, message_named
from ottla.serializers import AvroSerializer, JsonSerializer, ProtobufSerializer
from ottla.testing.broker import KafkaBroker

PLACE = '{"type":"record","name":"Place","fields":[{"name":"city","type":"string"}]}'
ORDER = """{"type":"record","name":"Order","fields":[
    {"name":"id","type":"long"}, {"name":"to","type":"Place"}, {"name":"raw","type":"bytes"}]}"""
CLICK = (
    'syntax = "proto3"; message Other { } message Click { uint64 id = 1; map<string, int32> seen = 2; double d = 3; }'
)


@pytest.fixture(scope="module")
def kafka():
    with KafkaBroker({**LISTENER, "ottla.admin.listener": "127.0.0.1:0"}) as broker:
        broker.registry_url = url_of(broker.info.http_parts)
        broker.http = HttpClient(broker).begin()
        yield broker


def sent(kafka, topic, *records):
    """Produce these, and give what the console shows of them."""
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for key, value in records:
            producer.send(topic, value, key=key, partition=0)
    return rows(kafka, topic)


def rows(kafka, topic, **query):
    answer = kafka.http.get(f"/api/topics/{topic}/records", **query)
    assert answer.status == 200, answer
    return answer.value["records"]


def avro(kafka, topic):
    from ottla.client.schema_registry.registry import SchemaRegistry
    from ottla.schemas.model import Reference

    registry = SchemaRegistry(kafka.registry_url)
    registry.register("Place", SchemaText("AVRO", PLACE))
    text = ORDER.replace("Order", f"Order_{topic}")  # one schema has one id, in however many subjects it is
    return AvroSerializer(SchemaText("AVRO", text, (Reference("Place", "Place", 1),)), registry)


def test_avro_with_a_reference_is_shown_as_json_and_found_by_a_path(kafka):
    serializer = avro(kafka, "orders")
    records = [
        (b"k", serializer.write({"id": number, "to": {"city": "Rom"}, "raw": b"\0\1"}, "orders-value"))
        for number in range(9)
    ]
    shown = sent(kafka, "orders", *records)[0]["value"]
    assert json.loads(shown["text"]) == {"id": 0, "to": {"city": "Rom"}, "raw": "00 01"}
    assert (shown["kind"], shown["schema"]) == ("json", {"kind": "AVRO", "subject": "orders-value", "version": 1})
    found = rows(kafka, "orders", filter='value.id >= 7 and value.to.city == "Rom"')
    assert [json.loads(each["value"]["text"])["id"] for each in found] == [7, 8]
    whole = kafka.http.get("/api/topics/orders/partitions/0/records/3").value
    assert json.loads(whole["value"]["text"])["id"] == 3


def test_protobuf_and_json_schema_are_shown(kafka):
    click = class_of(message_named(linked_file(CLICK, {}), "Click"))
    protobuf = ProtobufSerializer(click, kafka.registry_url)
    written = protobuf.write(click(id=1 << 63, seen={"a": 1}, d=float("nan")), "clicks-key")
    schema = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}})
    row = sent(kafka, "clicks", (written, JsonSerializer(schema, kafka.registry_url).write({"a": 1}, "clicks-value")))[
        0
    ]
    assert json.loads(row["key"]["text"]) == {"id": 1 << 63, "seen": {"a": 1}, "d": "nan"}
    assert row["key"]["schema"] == {"kind": "PROTOBUF", "subject": "clicks-key", "version": 1}
    assert (json.loads(row["value"]["text"]), row["value"]["schema"]["kind"]) == ({"a": 1}, "JSON")
    assert len(rows(kafka, "clicks", filter="key.seen.a == 1 and value.a == 1")) == 1


def test_bytes_that_cannot_be_decoded_are_shown_with_the_reason(kafka):
    serializer = avro(kafka, "bad")
    good = serializer.write({"id": 1, "to": {"city": "Rom"}, "raw": b""}, "bad-value")
    found = sent(kafka, "bad", (None, good + b"!"), (None, frame(999_999) + b"\2"), (b"\0abc", good), (None, good[:7]))
    left, unknown, sound, cut = found
    assert left["value"]["kind"] == "schema"
    assert "1 bytes are left" in left["value"]["problem"]
    assert left["value"]["schema"]["subject"] == "bad-value"
    assert unknown["value"]["problem"] == "the registry knows no schema 999999"
    assert (unknown["value"]["text"], unknown["value"]["schema_id"]) == ("02", 999_999)
    assert (sound["key"]["kind"], "problem" in sound["key"], sound["value"]["kind"]) == ("bytes", False, "json")
    assert "wants" in cut["value"]["problem"]
    assert len(rows(kafka, "bad", filter="value.id == 1")) == 1


def test_a_long_value_is_cut(kafka):
    serializer = avro(kafka, "long")
    content = serializer.write({"id": 1, "to": {"city": "č" * 20_000}, "raw": b""}, "long-value")
    shown = sent(kafka, "long", (None, content))[0]["value"]
    assert (shown["is_cut"], shown["kind"], shown["schema"]["subject"]) == (True, "text", "long-value")
    whole = kafka.http.get("/api/topics/long/partitions/0/records/0").value["value"]
    assert json.loads(whole["text"])["to"]["city"] == "č" * 20_000
