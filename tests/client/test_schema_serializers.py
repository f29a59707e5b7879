"""Serializers of Python types with a registry: what is written is read again, by us and by confluent-kafka."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Annotated, Literal

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("starlette", reason="the registry needs ottla[registry]")

import ottla
from ottla.client.serializers import SerializationContext, SerializationFailed
from ottla.serializers import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    NoSchema,
    Precision,
    ProtobufDeserializer,
    ProtobufSerializer,
    Reference,
    RegistryFailed,
    SchemaNotFound,
    SchemaRegistry,
    SchemaText,
    avro_schema,
    json_schema,
)


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


@dataclasses.dataclass
class Place:
    city: str


@dataclasses.dataclass
class Whole:
    """Everything that has a schema."""

    number: int
    name: str
    ratio: float
    flag: bool
    content: bytes
    at: datetime.datetime
    day: datetime.date
    id: uuid.UUID
    price: Annotated[decimal.Decimal, Precision(12, 2)]
    colour: Colour
    kind: Literal["a", "b"]
    places: list[Place]
    by_name: dict[str, int]
    home: Place | None = None
    note: str = "none"
    more: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Tree:
    value: int
    children: list["Tree"] = dataclasses.field(default_factory=list)


WHOLE = Whole(
    1,
    "a",
    1.5,
    True,
    b"\0\xff",
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
    datetime.date(2026, 1, 2),
    uuid.UUID(int=5),
    decimal.Decimal("12.50"),
    Colour.BLUE,
    "b",
    [Place("Rom"), Place("Wien")],
    {"x": 1},
    Place("Bern"),
)
TREE = Tree(1, [Tree(2), Tree(3, [Tree(4)])])


def context(topic, field="value"):
    return SerializationContext(topic, field)


@pytest.mark.parametrize("value", [WHOLE, TREE], ids=["whole", "tree"])
@pytest.mark.parametrize(("writer", "reader"), [(AvroSerializer, AvroDeserializer), (JsonSerializer, JsonDeserializer)])
def test_a_dataclass_is_written_and_read(registry_url, writer, reader, value):
    topic = f"{writer.__name__}-{type(value).__name__}"
    written = writer(type(value), registry_url)(value, context(topic))
    assert written[:1] == b"\0"
    assert reader(registry_url, type(value))(written, context(topic)) == value


def test_a_pydantic_model_is_written_and_read(registry_url):
    pydantic = pytest.importorskip("pydantic")

    class Click(pydantic.BaseModel):
        user: str
        at: datetime.datetime
        page: str = "/"
        colour: Colour = Colour.RED
        referrer: str | None = None

    value = Click(user="ada", at=WHOLE.at, colour=Colour.BLUE)
    for writer, reader in ((AvroSerializer, AvroDeserializer), (JsonSerializer, JsonDeserializer)):
        topic = f"pydantic-{writer.__name__}"
        assert reader(registry_url, Click)(writer(Click, registry_url)(value, context(topic)), context(topic)) == value


def test_a_msgspec_struct_is_written_and_read(registry_url):
    msgspec = pytest.importorskip("msgspec")
    Click = msgspec.defstruct(  # noqa: N806 - it is a class
        "Click", [("user", str), ("at", datetime.datetime), ("page", str, "/"), ("tags", list[str], [])]
    )
    value = Click("ada", WHOLE.at, tags=["x"])
    for writer, reader in ((AvroSerializer, AvroDeserializer), (JsonSerializer, JsonDeserializer)):
        topic = f"msgspec-{writer.__name__}"
        assert reader(registry_url, Click)(writer(Click, registry_url)(value, context(topic)), context(topic)) == value


def test_records_go_through_the_broker(registry_broker, registry_url):
    settings = {"bootstrap_servers": registry_broker.bootstrap_servers}
    writer, key = AvroSerializer(Place, registry_url), JsonSerializer(Place, registry_url)
    with ottla.Producer(**settings, value_serializer=writer, key_serializer=key) as producer:
        producer.send("places", Place("Oslo"), key=Place("key")).result(60)
        producer.send("places", None, key=Place("gone")).result(60)
    reading = {
        "value_deserializer": AvroDeserializer(registry_url, Place),
        "key_deserializer": JsonDeserializer(registry_url, Place),
    }
    with ottla.Consumer("places", **settings, auto_offset_reset="earliest", group_id="g", **reading) as consumer:
        found = [next(consumer), next(consumer)]
    assert [(each.key, each.value) for each in found] == [(Place("key"), Place("Oslo")), (Place("gone"), None)]
    subjects = SchemaRegistry(registry_url).ask("GET", "/subjects?subjectPrefix=places")
    assert subjects == ["places-key", "places-value"]


def test_a_field_with_a_default_can_come_later(registry_url):
    @dataclasses.dataclass
    class Place:
        city: str
        zip: str = "?"

    old = AvroSerializer('{"type":"record","name":"Place","fields":[{"name":"city","type":"string"}]}', registry_url)
    written = old({"city": "Ulm"}, context("later"))
    AvroSerializer(Place, registry_url)(Place("Ulm", "89"), context("later"))
    assert AvroDeserializer(registry_url, Place)(written, context("later")) == Place("Ulm", "?")


def test_an_incompatible_type_is_refused_with_the_reason(registry_url):
    AvroSerializer('"long"', registry_url, subject="fixed")(1, context("x"))
    with pytest.raises(RegistryFailed, match="409") as refused:
        AvroSerializer('"string"', registry_url, subject="fixed")("a", context("x"))
    assert (refused.value.status, refused.value.code) == (409, 409)


def test_without_registration_a_schema_must_be_there(registry_url):
    with pytest.raises(SchemaNotFound, match="40401"):
        AvroSerializer(Place, registry_url, register=False)(Place("x"), context("nobody"))
    AvroSerializer(Place, registry_url)(Place("x"), context("somebody"))
    assert AvroSerializer(Place, registry_url, register=False)(Place("x"), context("somebody"))
    newest = AvroSerializer('"int"', registry_url, latest=True)
    assert AvroDeserializer(registry_url)(newest({"city": "y"}, context("somebody")), context("somebody")) == {
        "city": "y"
    }


def test_a_value_that_does_not_fit_its_json_schema_is_refused(registry_url):
    writer = JsonSerializer('{"type":"object","required":["a"]}', registry_url)
    with pytest.raises(SerializationFailed, match="'a' is a required property"):
        writer({}, context("checked"))


def test_references_are_followed(registry_url):
    registry = SchemaRegistry(registry_url)
    registry.register("address", SchemaText("AVRO", avro_schema(Place)))
    person = '{"type":"record","name":"Person","fields":[{"name":"home","type":"Place"}]}'
    schema = SchemaText("AVRO", person, (Reference("Place", "address", 1),))
    written = AvroSerializer(schema, registry)({"home": Place("Genf")}, context("people"))
    assert AvroDeserializer(registry_url)(written, context("people")) == {"home": {"city": "Genf"}}


def protobuf_classes():
    from google.protobuf import descriptor_pool, message_factory

    from ottla.schemas.protobuf.parser import parse_proto

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(
        parse_proto('syntax = "proto3"; message Where { string city = 1; }', "w/where.proto").SerializeToString()
    )
    text = 'syntax = "proto3"; import "w/where.proto"; message A { message B { Where where = 1; } } message C { }'
    pool.AddSerializedFile(parse_proto(text, "a.proto").SerializeToString())
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("A.B", "Where", "C")]


def test_protobuf_messages_are_written_and_read(registry_url):
    inner, where, other = protobuf_classes()
    value = inner(where=where(city="Riga"))
    written = ProtobufSerializer(inner, registry_url)(value, context("proto"))
    assert ProtobufDeserializer(registry_url, inner)(written, context("proto")) == value
    made = ProtobufDeserializer(registry_url)(written, context("proto"))
    assert (made.DESCRIPTOR.full_name, made.where.city) == ("A.B", "Riga")
    assert ProtobufSerializer(other, registry_url)(other(), context("second"))[5:] == b"\x02\x02"
    with pytest.raises(SerializationFailed, match=r"is no A\.B"):
        ProtobufSerializer(inner, registry_url)(other(), context("proto"))


def test_confluents_clients_read_ours_and_we_theirs(registry_url):
    pytest.importorskip("httpx2")
    confluent = pytest.importorskip("confluent_kafka.schema_registry")
    from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvro
    from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroWriter
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as TheirProtobuf

    with confluent.SchemaRegistryClient({"url": registry_url}) as theirs:
        written = AvroSerializer(Place, registry_url)(Place("Kyiv"), context("both"))
        assert TheirAvro(theirs)(written, context("both")) == {"city": "Kyiv"}
        written = TheirAvroWriter(theirs, avro_schema(Place))({"city": "Lviv"}, context("both"))
        assert AvroDeserializer(registry_url, Place)(written, context("both")) == Place("Lviv")
        inner, where, _ = protobuf_classes()
        written = ProtobufSerializer(inner, registry_url)(inner(where=where(city="x")), context("both-p"))
        read = TheirProtobuf(inner, {"use.deprecated.format": False}, theirs)(written, context("both-p"))
        assert read.where.city == "x"


@pytest.mark.parametrize("data", [b"", b"{}", b"\1\0\0\0\1x"])
def test_what_names_no_schema_is_refused(registry_url, data):
    with pytest.raises(SerializationFailed, match="names no schema"):
        AvroDeserializer(registry_url)(data, context("t"))


def test_types_become_avro_schemas():
    made = json.loads(avro_schema(Whole, namespace="n"))
    fields = {each["name"]: each for each in made["fields"]}
    assert (made["name"], made["namespace"], made["doc"]) == ("Whole", "n", "Everything that has a schema.")
    assert fields["price"]["type"] == {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    assert fields["home"] == {"name": "home", "type": ["null", "n.Place"], "default": None}
    assert fields["colour"]["type"]["symbols"] == ["RED", "BLUE"]
    assert (fields["note"]["default"], fields["more"]["default"]) == ("none", [])
    assert json.loads(avro_schema(Tree))["fields"][1]["type"] == {"type": "array", "items": "Tree"}


def test_types_become_json_schemas():
    made = json.loads(json_schema(Whole, is_closed=True))
    assert (made["title"], made["additionalProperties"]) == ("Whole", False)
    assert made["properties"]["places"] == {"type": "array", "items": {"$ref": "#/definitions/Place"}}
    assert "note" not in made["required"]
    assert json.loads(json_schema(Tree))["$ref"] == "#/definitions/Tree"


@pytest.mark.parametrize("kind", [object, complex, dict[int, str], tuple[int, str], decimal.Decimal, Literal[1, "a"]])
def test_a_type_without_a_schema_is_refused_by_name(kind):
    with pytest.raises(NoSchema):
        avro_schema(kind)


def test_a_secret_is_never_shown():
    registry = SchemaRegistry("http://me:secret@127.0.0.1:1", sleep=lambda _: None)
    assert "secret" not in repr(registry)
    with pytest.raises(RegistryFailed) as failed:
        registry.latest("x")
    assert "secret" not in str(failed.value)


def test_failures_that_may_pass_are_asked_again():
    import io
    import urllib.error

    answers = iter([503, 429, b'{"id": 7}'])

    def send(request):
        answer = next(answers)
        if isinstance(answer, int):
            raise urllib.error.HTTPError(request.full_url, answer, "later", {}, io.BytesIO(b""))
        return answer

    assert SchemaRegistry("http://x", send=send, sleep=lambda _: None).register("s", SchemaText("AVRO", '"int"')) == 7
