"""Spark and confluent-kafka's serializers against the same subjects of our registry, in both directions.

1. What confluent-kafka's serializers wrote, with a reference, Spark reads as columns (keyFormat, valueFormat).
2. What Spark writes with these formats, confluent-kafka's deserializers read.
3. Both use the schemas that are registered: Spark registers nothing unless valueSchema says so.

The same code without Spark's own processes: tests/unit/spark/formats/test_protobuf_rows.py.
"""

import pytest

pytest.importorskip("httpx2", reason="confluent-kafka's registry client needs httpx2, authlib, cachetools and attrs")
pytest.importorskip("authlib")
pytest.importorskip("cachetools")
pytest.importorskip("starlette", reason="the registry needs ottla[registry]")
pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool
from tests.patience import HANG_S

from ottla import Consumer
from ottla.schemas.protobuf.messages import class_of
from ottla.schemas.protobuf.parser import parse_proto
from ottla.testing import KafkaBroker

pytestmark = pytest.mark.long

PLACE_AVRO = '{"type":"record","name":"Place","fields":[{"name":"city","type":"string"}]}'
CLICK_AVRO = """{"type":"record","name":"Click","fields":[{"name":"id","type":"long"},{"name":"at","type":"Place"},
    {"name":"tags","type":{"type":"array","items":"string"}}]}"""
PLACE_JSON = '{"type":"object","properties":{"city":{"type":"string"}}}'
CLICK_JSON = """{"title":"Click","type":"object","properties":{"id":{"type":"integer"},"at":{"$ref":"place.json"},
    "tags":{"type":"array","items":{"type":"string"}}}}"""
PLACE_PROTO = 'syntax = "proto3"; package spark; message Place { string city = 1; }'
CLICK_PROTO = """syntax = "proto3"; package spark; import "place.proto"; message Other { }
    message Click { int64 id = 1; Place at = 2; repeated string tags = 3; }"""
CLICKS = [{"id": number, "at": {"city": f"c{number}"}, "tags": ["a", "b"]} for number in range(3)]


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker({"ottla.schema.registry.listener": "127.0.0.1:0"}) as made:
        yield made


@pytest.fixture(scope="module")
def url(broker):
    ((_, (host, port)),) = broker.info.http_parts
    return f"http://{host}:{port}"


@pytest.fixture
def client(url):
    with SchemaRegistryClient({"url": url}) as made:
        yield made


def click_class():
    pool = descriptor_pool.DescriptorPool()
    for text, name in ((PLACE_PROTO, "place.proto"), (CLICK_PROTO, "click.proto")):
        pool.AddSerializedFile(parse_proto(text, name).SerializeToString())
    return class_of(pool.FindMessageTypeByName("spark.Click"))


class Avro:
    name, options = "avro", {}

    def __init__(self, client):
        client.register_schema("Place", Schema(PLACE_AVRO, "AVRO"))
        schema = Schema(CLICK_AVRO, "AVRO", [SchemaReference("Place", "Place", 1)])
        self.write, self.read = AvroSerializer(client, schema), AvroDeserializer(client)


class Json:
    name, options = "json", {}

    def __init__(self, client):
        client.register_schema("place.json", Schema(PLACE_JSON, "JSON"))
        schema = Schema(CLICK_JSON, "JSON", [SchemaReference("place.json", "place.json", 1)])
        self.write = JSONSerializer(schema, client)
        self.read = JSONDeserializer(None, schema_registry_client=client)


class Protobuf:
    name, options = "protobuf", {"valueMessage": "Click"}

    def __init__(self, client):
        self._class = click_class()
        self._write = ProtobufSerializer(self._class, client, {"use.deprecated.format": False})
        self._read = ProtobufDeserializer(self._class, {"use.deprecated.format": False}, client)

    def write(self, value, context):
        return self._write(self._class(**value), context)

    def read(self, content, context):
        found = self._read(content, context)
        return {"id": found.id, "at": {"city": found.at.city}, "tags": list(found.tags)}


def checked_both_ways(spark, broker, url, client, kind):
    peer, source, target = kind(client), f"from-{kind.name}", f"to-{kind.name}"
    context = SerializationContext(source, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for click in CLICKS:
        producer.produce(source, peer.write(click, context))
    assert producer.flush(HANG_S) == 0
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers, "schemaRegistryUrl": url}
    formats = {"valueFormat": kind.name, **kind.options}
    frame = spark.read.format("ottla").options(**servers, **formats, subscribe=source).load()
    assert (
        frame.schema["value"].dataType.simpleString() == "struct<id:bigint,at:struct<city:string>,tags:array<string>>"
    )
    assert [row.value.asDict(recursive=True) for row in frame.orderBy("offset").collect()] == CLICKS

    with SchemaRegistryClient(
        {"url": url}
    ) as other:  # what a client registered as text it would not read as a descriptor
        other.register_schema(f"{target}-value", other.get_latest_version(f"{source}-value").schema)
    written = frame.select("value").coalesce(1).write.format("ottla").mode("append")
    written.options(**servers, **formats, topic=target).save()
    context = SerializationContext(target, MessageField.VALUE)
    reading = {"auto_offset_reset": "earliest", "group_id": target, "isolation_level": "read_committed"}
    with Consumer(target, bootstrap_servers=broker.bootstrap_servers, **reading) as consumer:
        values = [next(consumer).value for _ in CLICKS]
    assert sorted((peer.read(each, context) for each in values), key=lambda each: each["id"]) == CLICKS
    assert client.get_versions(f"{target}-value") == [1]


@pytest.mark.parametrize("kind", [Avro, Json, Protobuf], ids=["avro", "json", "protobuf"])
def test_both_ways(spark, broker, url, client, kind):
    checked_both_ways(spark, broker, url, client, kind)


def test_a_stream_reads_and_writes_with_a_schema_of_its_own(spark, broker, url, client, tmp_path):
    peer = Protobuf(client)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for click in CLICKS:
        producer.produce("in", peer.write(click, SerializationContext("in", MessageField.VALUE)))
    assert producer.flush(HANG_S) == 0
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers, "schemaRegistryUrl": url}
    stream = spark.readStream.format("ottla").options(**servers, subscribe="in", startingOffsets="earliest")
    clicks = stream.options(valueFormat="protobuf", valueMessage="Click").load()
    total = '{"type":"record","name":"Total","fields":[{"name":"id","type":"long"},{"name":"city","type":"string"}]}'
    query = (
        clicks.selectExpr("struct(value.id AS id, value.at.city AS city) AS value")
        .writeStream.format("ottla")
        .options(**servers, topic="out", valueFormat="avro", valueSchema=total, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(HANG_S)
    reading = {"auto_offset_reset": "earliest", "group_id": "out", "isolation_level": "read_committed"}
    with Consumer("out", bootstrap_servers=broker.bootstrap_servers, **reading) as consumer:
        values = [next(consumer).value for _ in CLICKS]
    read, context = AvroDeserializer(client), SerializationContext("out", MessageField.VALUE)
    assert sorted(read(each, context)["city"] for each in values) == ["c0", "c1", "c2"]
