"""Programs with confluent-kafka's serializers run on our names: the same calls, the same bytes, the same codes."""

import asyncio
import inspect
import json

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("starlette", reason="the registry needs ottla[registry]")

from ottla.compat.confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    record_subject_name_strategy,
)
from ottla.compat.confluent_kafka.schema_registry._async.json_schema import AsyncJSONDeserializer, AsyncJSONSerializer
from ottla.compat.confluent_kafka.schema_registry.avro import (
    AsyncAvroDeserializer,
    AsyncAvroSerializer,
    AvroDeserializer,
    AvroSerializer,
)
from ottla.compat.confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from ottla.compat.confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from ottla.compat.confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

ADDRESS = '{"type":"record","name":"Address","namespace":"people","fields":[{"name":"city","type":"string"}]}'
PERSON = '{"type":"record","name":"Person","fields":[{"name":"home","type":"people.Address"}]}'


@pytest.fixture(scope="module")
def client(registry_url):
    with SchemaRegistryClient({"url": registry_url}) as made:
        yield made


def value_of(topic):
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_with_a_reference_and_converters(client):
    client.register_schema("people.Address", Schema(ADDRESS, "AVRO"))
    person = Schema(PERSON, "AVRO", [SchemaReference("people.Address", "people.Address", 1)])
    write = AvroSerializer(client, person, to_dict=lambda value, ctx: {"home": {"city": value}})
    read = AvroDeserializer(client, from_dict=lambda value, ctx: value["home"]["city"])
    assert read(write("Bonn", value_of("avro")), value_of("avro")) == "Bonn"
    assert client.get_referenced_by("people.Address", 1) == [client.get_latest_version("avro-value").schema_id]


def test_json_is_checked(client):
    schema = '{"type":"object","title":"T","required":["a"]}'
    write, read = JSONSerializer(schema, client), JSONDeserializer(schema, schema_registry_client=client)
    assert read(write({"a": 1}, value_of("json")), value_of("json")) == {"a": 1}
    with pytest.raises(SerializationError, match="required"):
        write({}, value_of("json"))


def test_protobuf(client):
    from google.protobuf.wrappers_pb2 import StringValue

    settings = {"use.deprecated.format": False}
    write = ProtobufSerializer(StringValue, client, {**settings, "auto.register.schemas": True})
    written = write(StringValue(value="x"), value_of("proto"))
    for read in (ProtobufDeserializer(StringValue, settings), ProtobufDeserializer(StringValue, settings, client)):
        assert read(written, value_of("proto")) == StringValue(value="x")
    with pytest.raises(ValueError, match=r"use\.deprecated\.format"):
        ProtobufSerializer(StringValue, client, {"use.deprecated.format": True})


def test_subjects_are_named_by_a_strategy(client):
    conf = {"subject.name.strategy": record_subject_name_strategy, "auto.register.schemas": False}
    with pytest.raises(SchemaRegistryError, match="40401") as refused:
        AvroSerializer(client, ADDRESS.replace("people", "strangers"), conf=conf)({"city": "x"}, value_of("t"))
    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40401)


def test_the_client_asks_and_changes(client):
    assert client.register_schema("calls", Schema('"int"')) == client.lookup_schema("calls", Schema('"int"')).schema_id
    assert client.test_compatibility("calls", Schema('"string"')) is False
    assert client.set_compatibility("calls", "NONE") == {"compatibility": "NONE"}
    assert client.get_compatibility("calls") == "NONE"
    assert client.register_schema_full_response("calls", Schema('"string"')).version == 2
    assert client.get_versions("calls") == [1, 2]
    assert json.loads(client.get_version("calls", 1).schema.schema_str) == "int"
    assert client.delete_version("calls", 1) == 1
    assert client.delete_subject("calls", permanent=True) == [1, 2]
    assert "calls" not in client.get_subjects()


def test_modes_types_and_places_of_a_schema(client):
    number = client.register_schema("placed", Schema('"long"'))
    assert client.get_subjects_by_schema_id(number) == ["placed"]
    assert [(each.subject, each.version) for each in client.get_schema_versions(number)] == [("placed", 1)]
    assert client.get_subjects_by_schema_id(number, subject_name="other") == []
    assert client.test_compatibility_all_versions("placed", Schema('"string"')) is False
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert client.update_mode("placed", "READONLY") == client.get_mode("placed") == "READONLY"
    client.delete_mode("placed")
    assert client.get_global_mode() == "READWRITE"


def test_programs_with_an_event_loop_have_the_same_client_and_serializers(registry_url):
    async def there_and_back():
        async with AsyncSchemaRegistryClient({"url": registry_url}) as client:
            write, read = await AsyncAvroSerializer(client, ADDRESS), await AsyncAvroDeserializer(client)
            data = await write({"city": "Bonn"}, value_of("awaited"))
            assert await read(data, value_of("awaited")) == {"city": "Bonn"}
            assert (await client.get_latest_version("awaited-value")).version == 1
            schema = '{"type":"object","title":"T","required":["a"]}'
            check = await AsyncJSONSerializer(schema, client)
            with pytest.raises(SerializationError, match="required"):
                await check({}, value_of("awaited-json"))
            reader = await AsyncJSONDeserializer(schema, schema_registry_client=client)
            assert await reader(await check({"a": 1}, value_of("awaited-json")), value_of("awaited-json")) == {"a": 1}
            with pytest.raises(SchemaRegistryError, match="40401"):
                await client.get_versions("nobody")

    asyncio.run(there_and_back())


def test_the_client_for_event_loops_has_every_call_of_the_other_and_nothing_blocks():
    calls = [name for name in vars(SchemaRegistryClient) if not name.startswith("_") and name not in ("ask", "close")]
    assert [name for name in calls if not inspect.iscoroutinefunction(getattr(AsyncSchemaRegistryClient, name))] == []


@pytest.mark.parametrize("conf", [{}, {"url": "x"}, {"url": "http://x", "strange": 1}])
def test_wrong_settings_are_refused(conf):
    with pytest.raises(ValueError, match=r".+"):
        SchemaRegistryClient(conf)
