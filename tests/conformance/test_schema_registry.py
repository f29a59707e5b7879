"""The schema registry as confluent-kafka's serializers use it, unchanged: over HTTP, with records through the broker.

1. Avro, JSON Schema and Protobuf, with references, are written by confluent-kafka's serializers, travel through a
   topic, and are read by its deserializers with a client that knows nothing but the address.
2. kill -9: what was registered is there after a start on the same data, with the same ids.
3. Ten thousand schemas (`long`): registered, listed, and there after a start.
"""

import json
import time
import urllib.error
import urllib.request
from contextlib import ExitStack

import pytest

pytest.importorskip("httpx2", reason="confluent-kafka's registry client needs httpx2, authlib, cachetools and attrs")
pytest.importorskip("authlib")
pytest.importorskip("cachetools")
pytest.importorskip("starlette", reason="the registry needs ottla[registry]")
pytest.importorskip("jsonschema")
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
    header_schema_id_serializer,
    record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from tests.conformance.our_broker import BrokerProcess, free_ports
from tests.patience import HANG_S, wait_until
from tests.schema_registry import CONTENT_TYPE

from ottla.schemas.protobuf.parser import parse_proto

ADDRESS = '{"type":"record","name":"Address","namespace":"people","fields":[{"name":"city","type":"string"}]}'
PERSON = """{"type":"record","name":"Person","namespace":"people","fields":[
    {"name":"name","type":"string"}, {"name":"home","type":["null","people.Address"],"default":null}]}"""
MANY = 10_000


@pytest.fixture
def connect():
    """Makes clients that have no schema in their caches, and closes them."""
    with ExitStack() as stack:
        yield lambda url, **more: stack.enter_context(SchemaRegistryClient({"url": url, **more}))


@pytest.fixture
def client(connect, registry_url):
    return connect(registry_url)


@pytest.fixture
def fresh(connect, registry_url):
    """Another one, which knows nothing but the address."""
    return connect(registry_url)


def through_the_broker(broker, topic, content, headers=None):
    """What a consumer gets of what a producer sent."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, content, headers=headers)
    assert producer.flush(HANG_S) == 0
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        end_s = time.monotonic() + HANG_S
        while (message := consumer.poll(1)) is None or message.error():
            assert time.monotonic() < end_s, "no record came"
        return message
    finally:
        consumer.close()


def value_of(topic, headers=None):
    return SerializationContext(topic, MessageField.VALUE, headers)


def test_avro_with_a_reference(registry_broker, client, fresh):
    client.register_schema("people.Address", Schema(ADDRESS, "AVRO"))
    person = Schema(PERSON, "AVRO", [SchemaReference("people.Address", "people.Address", 1)])
    value = {"name": "Ada", "home": {"city": "London"}}
    written = AvroSerializer(client, person)(value, value_of("avro"))
    message = through_the_broker(registry_broker, "avro", written)
    read = AvroDeserializer(fresh)(message.value(), value_of("avro"))
    assert read == value
    assert client.get_referenced_by("people.Address", 1) == [client.get_latest_version("avro-value").schema_id]


def test_a_reader_of_an_older_avro_schema_is_served(client, fresh):
    new = json.loads(ADDRESS)
    new["fields"].append({"name": "zip", "type": "string", "default": ""})
    written = AvroSerializer(client, json.dumps(new))({"city": "Rome", "zip": "1"}, value_of("older"))
    read = AvroDeserializer(fresh, ADDRESS)(written, value_of("older"))
    assert read == {"city": "Rome"}


def test_json_schema_with_a_reference(registry_broker, client, fresh):
    address = '{"type":"object","title":"Address","properties":{"city":{"type":"string"}},"required":["city"]}'
    person = '{"type":"object","title":"Person","properties":{"home":{"$ref":"address.json"}}}'
    client.register_schema("address", Schema(address, "JSON"))
    schema = Schema(person, "JSON", [SchemaReference("address.json", "address", 1)])
    serializer = JSONSerializer(schema, client)
    message = through_the_broker(registry_broker, "json", serializer({"home": {"city": "Paris"}}, value_of("json")))
    assert JSONDeserializer(schema, schema_registry_client=fresh)(message.value(), value_of("json")) == {
        "home": {"city": "Paris"}
    }
    with pytest.raises(Exception, match="city"):
        serializer({"home": {}}, value_of("json"))


def messages():
    """Classes as protoc would have made them, of two files."""
    pool = descriptor_pool.DescriptorPool()
    address = parse_proto(
        'syntax = "proto3"; package people; message Address { string city = 1; }', "people/address.proto"
    )
    person = parse_proto(
        """syntax = "proto3"; package people;
           import "people/address.proto"; import "google/protobuf/timestamp.proto";
           message Other { int32 x = 1; message Inner { string y = 1; } }
           message Person { string name = 1; Address home = 2; google.protobuf.Timestamp born = 3; }""",
        "people/person.proto",
    )
    from google.protobuf import timestamp_pb2

    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for each in (address, person):
        pool.AddSerializedFile(each.SerializeToString())
    names = ("people.Person", "people.Address", "people.Other.Inner")
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]


def test_protobuf_with_a_reference(registry_broker, client, fresh):
    person, address, inner = messages()
    settings = {"use.deprecated.format": False}
    value = person(name="Ada", home=address(city="Wien"))
    value.born.FromSeconds(1)
    written = ProtobufSerializer(person, client, settings)(value, value_of("proto"))
    message = through_the_broker(registry_broker, "proto", written)
    read = ProtobufDeserializer(person, settings, fresh)(message.value(), value_of("proto"))
    assert read == value
    assert client.get_latest_version("people/address.proto").schema.schema_type == "PROTOBUF"
    nested = ProtobufSerializer(inner, client, settings)(inner(y="deep"), value_of("proto-nested"))
    assert ProtobufDeserializer(inner, settings)(nested, value_of("proto-nested")) == inner(y="deep")


def test_what_protobuf_stores_is_readable_text(client):
    person, _, _ = messages()
    ProtobufSerializer(person, client, {"use.deprecated.format": False})(person(), value_of("proto-text"))
    text = client.get_latest_version("proto-text-value").schema.schema_str
    assert "message Person {" in text
    assert 'import "people/address.proto";' in text


def test_ids_in_headers(registry_broker, client, fresh):
    headers = []
    conf = {"schema.id.serializer": header_schema_id_serializer}
    written = AvroSerializer(client, ADDRESS, conf=conf)({"city": "Reykjavik"}, value_of("headers", headers))
    assert written[:1] != b"\0"
    message = through_the_broker(registry_broker, "headers", written, headers)
    deserializer = AvroDeserializer(fresh)
    assert deserializer(message.value(), value_of("headers", message.headers())) == {"city": "Reykjavik"}


def test_serializers_ask_by_their_settings(client):
    conf = {
        "auto.register.schemas": False,
        "use.latest.version": True,
        "subject.name.strategy": record_subject_name_strategy,
    }
    client.register_schema("people.Address", Schema(ADDRESS, "AVRO"))
    assert AvroSerializer(client, ADDRESS, conf=conf)({"city": "Bern"}, value_of("strategy"))[0] == 0
    lookup = {"auto.register.schemas": False, "normalize.schemas": True}
    with pytest.raises(Exception, match="40401"):
        AvroSerializer(client, ADDRESS, conf=lookup)({"city": "Bern"}, value_of("nowhere"))


def test_an_incompatible_schema_is_refused_as_by_confluents(client):
    client.register_schema("strict", Schema(ADDRESS, "AVRO"))
    worse = json.loads(ADDRESS)
    worse["fields"].append({"name": "must", "type": "int"})
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("strict", Schema(json.dumps(worse), "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert client.test_compatibility("strict", Schema(json.dumps(worse), "AVRO")) is False
    client.set_compatibility("strict", "NONE")
    assert client.get_compatibility("strict") == "NONE"
    client.register_schema("strict", Schema(json.dumps(worse), "AVRO"))
    assert client.get_versions("strict") == [1, 2]


def test_every_call_of_the_client_is_answered(client):
    client.register_schema("calls", Schema(ADDRESS, "AVRO"))
    schema_id = client.lookup_schema("calls", Schema(ADDRESS, "AVRO")).schema_id
    assert "calls" in client.get_subjects()
    assert "calls" in client.get_subjects_by_schema_id(schema_id)
    assert {(each.subject, each.version) for each in client.get_schema_versions(schema_id)} >= {("calls", 1)}
    assert client.get_version("calls", 1).schema_id == schema_id
    assert client.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    assert client.get_contexts() == ["."]
    assert client.get_global_mode() == "READWRITE"
    assert client.update_mode("calls", "READONLY") == "READONLY"
    assert client.get_mode("calls") == "READONLY"
    client.delete_mode("calls")
    assert client.delete_version("calls", 1) == 1
    assert client.delete_subject("calls", permanent=True) == [1]
    with pytest.raises(SchemaRegistryError, match="40401"):
        client.get_latest_version("calls")


def test_a_contract_of_a_subject_is_set_and_read_by_the_client(client):
    """Defaults of metadata, and versions that are only compared within their group."""
    wanted = ServerConfig(
        compatibility=ConfigCompatibilityLevel.FULL,
        compatibility_group="major",
        default_metadata=Metadata(None, MetadataProperties({"owner": "shop"}), None),
    )
    client.set_config("contract", wanted)
    found = client.get_config("contract")
    assert (found.compatibility_group, found.default_metadata.properties.properties) == ("major", {"owner": "shop"})
    for major, text in (("1", '"int"'), ("2", '"string"')):
        metadata = Metadata(None, MetadataProperties({"major": major}), None)
        client.register_schema("contract", Schema(text, "AVRO", metadata=metadata))
    latest = client.get_latest_with_metadata("contract", {"major": "1", "owner": "shop"})
    assert (latest.version, latest.schema.schema_str) == (1, '"int"')
    assert client.get_latest_with_metadata("contract", {"owner": "shop"}).version == 2
    with pytest.raises(SchemaRegistryError, match="40403"):
        client.get_latest_with_metadata("contract", {"major": "1", "owner": "nobody"})


def asked(url, method="GET", body=None, **headers):
    """Status and answer, without a client in between."""
    request = urllib.request.Request(url, body, {"Content-Type": CONTENT_TYPE, **headers}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return answer.status, answer.headers["Content-Type"], json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], json.loads(error.read())


def test_answers_look_like_confluents(registry_url):
    assert asked(f"{registry_url}/") == (200, CONTENT_TYPE, {})
    assert asked(f"{registry_url}/subjects/nobody/versions") == (
        404,
        CONTENT_TYPE,
        {"error_code": 40401, "message": "Subject 'nobody' not found."},
    )
    assert asked(f"{registry_url}/subjects/x/versions", "POST", b'{"schema": "{"}')[2]["error_code"] == 42201
    assert asked(f"{registry_url}/v1/metadata/version")[0] == 200
    assert asked(f"{registry_url}/contexts/.mine/subjects")[2]["error_code"] == 42208


def test_a_page_of_another_site_changes_nothing(registry_url):
    body = json.dumps({"schema": ADDRESS}).encode()
    assert asked(f"{registry_url}/subjects/evil/versions", "POST", body, **{"Content-Type": "text/plain"})[0] == 415
    assert asked(f"{registry_url}/subjects/evil/versions", "POST", body, Origin="http://evil.example")[0] == 403
    assert asked(f"{registry_url}/subjects", Host="evil.example")[0] == 403
    assert asked(f"{registry_url}/subjects/evil/versions")[0] == 404


def test_what_others_write_into_the_topic_is_known(registry_broker, client):
    """A backup of a topic of Confluent's registry that is restored, for example."""
    client.register_schema("before", Schema(ADDRESS, "AVRO"))
    key = b'{"keytype":"SCHEMA","subject":"restored","version":3,"magic":1}'
    value = {"subject": "restored", "version": 3, "id": 5000, "schema": '"string"', "deleted": False}
    producer = Producer({"bootstrap.servers": registry_broker.bootstrap_servers})
    producer.produce("_schemas", json.dumps(value).encode(), key)
    producer.produce("_schemas", b"no JSON", b"neither")
    assert producer.flush(HANG_S) == 0
    assert client.get_latest_version("restored").schema_id == 5000
    assert client.register_schema("after", Schema('"long"', "AVRO")) == 5001


# -- processes that are killed -----------------------------------------------------------------------------------------


def registry_process(tmp_path):
    (port,) = free_ports(1)
    process = BrokerProcess(tmp_path, {"ottla.schema.registry.listener": f"127.0.0.1:{port}"})
    return process, f"http://127.0.0.1:{port}"


def schema_number(index):
    return Schema(json.dumps({"type": "record", "name": f"R{index}", "fields": [{"name": "a", "type": "int"}]}), "AVRO")


def register_while_killed(process, connect, url, count):
    """Register schemas one after the other; kill -9 in the middle, with one on its way."""
    known = {}
    for index in range(count):
        if index == count // 2:
            process.kill()
            process.start()
        client = connect(url)
        known[index] = client.register_schema(f"s{index % 7}-{index}", schema_number(index))
    return known


def test_what_was_registered_survives_kill_nine(tmp_path, connect):
    process, url = registry_process(tmp_path)
    with process:
        known = register_while_killed(process, connect, url, 20)
        client = connect(url)
        client.set_compatibility("s1-1", "FULL_TRANSITIVE")
        client.delete_subject("s2-2")
        process.kill()
        process.start()
        fresh = connect(url)
        for index, number in known.items():
            if index != 2:
                assert fresh.lookup_schema(f"s{index % 7}-{index}", schema_number(index)).schema_id == number
        assert len(set(known.values())) == len(known)
        assert fresh.get_compatibility("s1-1") == "FULL_TRANSITIVE"
        assert "s2-2" not in fresh.get_subjects()
        assert fresh.register_schema("new", schema_number(100)) == max(known.values()) + 1
        assert process.faults() == []


@pytest.mark.long
def test_ten_thousand_schemas(tmp_path, connect):
    process, url = registry_process(tmp_path)
    with process:
        client = connect(url)
        for index in range(MANY):
            client.register_schema(f"subject-{index % 1000}", Schema(json.dumps(
                {"type": "record", "name": "R", "fields": [
                    {"name": f"f{number}", "type": "int", "default": 0} for number in range(index // 1000 + 1)
                ], "own": index % 1000}), "AVRO"))  # fmt: skip
        assert len(client.get_subjects()) == 1000
        process.kill()
        process.start()
        fresh = connect(url)
        wait_until(lambda: len(fresh.get_subjects()) == 1000, "all subjects are there again")
        assert fresh.get_versions("subject-999") == list(range(1, 11))
        assert fresh.get_schema(MANY).schema_str
        assert process.faults() == []
