"""Three who write and read with the schemas of one subject: confluent-kafka, our client and Spark.

1. Each of the three writes into one topic, by the schema of one subject, which refers to another one; each of the three
   reads what all wrote. Avro, JSON Schema and Protobuf.
2. All use the one schema that is registered: nobody makes a second version, and Spark registers nothing unless
   valueSchema says so.
3. A stream reads one format and writes another one, with a schema of its own.

The same code without Spark's own processes: tests/unit/spark/formats/test_protobuf_rows.py.
"""

from contextlib import ExitStack

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

from ottla import Consumer, serializers
from ottla.schemas.protobuf.messages import class_of
from ottla.schemas.protobuf.parser import parse_proto
from ottla.serializers import Reference, SchemaText

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
CLICK_COLUMNS = "struct<id:bigint,at:struct<city:string>,tags:array<string>>"


def clicks(first):
    return [{"id": number, "at": {"city": f"c{number}"}, "tags": ["a", "b"]} for number in range(first, first + 3)]


BY_CONFLUENT, BY_US, BY_SPARK = clicks(0), clicks(10), clicks(20)


@pytest.fixture
def connect(registry_url):
    """Makes clients that have no schema in their caches, and closes them."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(SchemaRegistryClient({"url": registry_url}))


def click_class():
    pool = descriptor_pool.DescriptorPool()
    for text, name in ((PLACE_PROTO, "place.proto"), (CLICK_PROTO, "click.proto")):
        pool.AddSerializedFile(parse_proto(text, name).SerializeToString())
    return class_of(pool.FindMessageTypeByName("spark.Click"))


class Avro:
    name, options = "avro", {}

    def confluents(self, client):
        schema = Schema(CLICK_AVRO, "AVRO", [SchemaReference("Place", "avro-place", 1)])
        return AvroSerializer(client, schema), AvroDeserializer(client)

    def ours(self, url):
        schema = SchemaText("AVRO", CLICK_AVRO, (Reference("Place", "avro-place", 1),))
        return serializers.AvroSerializer(schema, url), serializers.AvroDeserializer(url)

    def register_references(self, client):
        client.register_schema("avro-place", Schema(PLACE_AVRO, "AVRO"))


class Json:
    name, options = "json", {}

    def confluents(self, client):
        schema = Schema(CLICK_JSON, "JSON", [SchemaReference("place.json", "json-place", 1)])
        return JSONSerializer(schema, client), JSONDeserializer(None, schema_registry_client=client)

    def ours(self, url):
        schema = SchemaText("JSON", CLICK_JSON, (Reference("place.json", "json-place", 1),))
        return serializers.JsonSerializer(schema, url), serializers.JsonDeserializer(url)

    def register_references(self, client):
        client.register_schema("json-place", Schema(PLACE_JSON, "JSON"))


class Protobuf:
    """Serializers that take and give messages; here they take and give what the others do."""

    name, options = "protobuf", {"valueMessage": "Click"}

    def __init__(self):
        self._class = click_class()

    def confluents(self, client):
        settings = {"use.deprecated.format": False}
        write = ProtobufSerializer(self._class, client, settings)
        return self._of_values(write, ProtobufDeserializer(self._class, settings, client))

    def ours(self, url):
        write = serializers.ProtobufSerializer(self._class, url)
        return self._of_values(write, serializers.ProtobufDeserializer(url))

    def register_references(self, client):
        """The serializers do it: a file of Protobuf names what it imports."""

    def _of_values(self, write, read):
        def value(message):
            return {"id": message.id, "at": {"city": message.at.city}, "tags": list(message.tags)}

        return (
            lambda click, context: write(self._class(**click), context),
            lambda content, context: value(read(content, context)),
        )


class SparkPeer:
    """Writes and reads a topic with a format."""

    def __init__(self, spark, broker, url, kind):
        self.session = spark
        self.options = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "schemaRegistryUrl": url,
            "valueFormat": kind.name,
            **kind.options,
        }

    def write(self, topic, values):
        frame = self.session.createDataFrame([(each,) for each in values], f"value {CLICK_COLUMNS}")
        frame.coalesce(1).write.format("ottla").mode("append").options(**self.options, topic=topic).save()

    def read(self, topic):
        frame = self.session.read.format("ottla").options(**self.options, subscribe=topic).load()
        assert frame.schema["value"].dataType.simpleString() == CLICK_COLUMNS
        return [row.value.asDict(recursive=True) for row in frame.orderBy("offset").collect()]


def send(broker, topic, write, values):
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for each in values:
        producer.produce(topic, write(each, context))
    assert producer.flush(HANG_S) == 0


def read_values(broker, topic, count):
    reading = {"auto_offset_reset": "earliest", "group_id": topic, "isolation_level": "read_committed"}
    with Consumer(topic, bootstrap_servers=broker.bootstrap_servers, **reading) as consumer:
        return [next(consumer).value for _ in range(count)]


@pytest.mark.parametrize("first", ["confluent", "ours"], ids=["confluent-first", "ours-first"])
@pytest.mark.parametrize("kind", [Avro(), Json(), Protobuf()], ids=lambda kind: kind.name)
def test_each_of_three_reads_what_all_three_wrote(spark, registry_broker, registry_url, connect, kind, first):
    topic = f"{kind.name}-{first}-first"
    kind.register_references(connect())
    confluent_writes, _ = kind.confluents(connect())
    we_write, we_read = kind.ours(registry_url)
    writers = [(confluent_writes, BY_CONFLUENT), (we_write, BY_US)]
    for write, values in writers if first == "confluent" else reversed(writers):  # who is first registers the schema
        send(registry_broker, topic, write, values)
    by_spark = SparkPeer(spark, registry_broker, registry_url, kind)
    by_spark.write(topic, BY_SPARK)

    written = [*BY_CONFLUENT, *BY_US, *BY_SPARK]
    contents = read_values(registry_broker, topic, len(written))
    context = SerializationContext(topic, MessageField.VALUE)
    _, confluent_reads = kind.confluents(connect())  # it knows nothing of what another one registered
    for read in (confluent_reads, we_read):
        assert by_id(read(each, context) for each in contents) == written
    assert by_id(by_spark.read(topic)) == written
    assert connect().get_versions(f"{topic}-value") == [1]
    assert len({content[:5] for content in contents}) == 1, "all name one schema"


def by_id(values):
    return sorted(values, key=lambda each: each["id"])


def test_a_stream_reads_and_writes_with_a_schema_of_its_own(spark, registry_broker, registry_url, connect, tmp_path):
    write, _ = Protobuf().confluents(connect())
    send(registry_broker, "in", write, BY_CONFLUENT)
    servers = {"kafka.bootstrap.servers": registry_broker.bootstrap_servers, "schemaRegistryUrl": registry_url}
    stream = spark.readStream.format("ottla").options(**servers, subscribe="in", startingOffsets="earliest")
    frame = stream.options(valueFormat="protobuf", valueMessage="Click").load()
    total = '{"type":"record","name":"Total","fields":[{"name":"id","type":"long"},{"name":"city","type":"string"}]}'
    query = (
        frame.selectExpr("struct(value.id AS id, value.at.city AS city) AS value")
        .writeStream.format("ottla")
        .options(**servers, topic="out", valueFormat="avro", valueSchema=total, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(HANG_S)
    read, context = AvroDeserializer(connect()), SerializationContext("out", MessageField.VALUE)
    values = read_values(registry_broker, "out", len(BY_CONFLUENT))
    assert sorted(read(each, context)["city"] for each in values) == ["c0", "c1", "c2"]
