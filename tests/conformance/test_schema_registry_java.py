"""Confluent's own Java classes against our registry, and as judge of our Avro rules (`long`).

1. KafkaAvroSerializer and KafkaAvroDeserializer (7.9.5) write what confluent-kafka's and our deserializers read, and
   the other way round; with a schema that refers to another one.
2. CachedSchemaRegistryClient: every call is answered, and what is refused has Confluent's status and code.
3. Confluent's CompatibilityChecker, which asks Avro's SchemaCompatibility, says the same as ours: about our table of
   cases, and about histories made at random, at all seven levels.

JSON Schema's and Protobuf's Java serializers were found in no jar of Maven Central; confluent-kafka is the peer there.
"""

import json
import random
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("httpx2", reason="confluent-kafka's registry client needs httpx2, authlib, cachetools and attrs")
pytest.importorskip("authlib")
pytest.importorskip("cachetools")
pytest.importorskip("starlette", reason="the registry needs ottla[registry]")
pytest.importorskip("fastavro")
from confluent_kafka import Producer as TheirProducer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.conformance.java_programs import JVM
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.patience import HANG_S
from tests.unit.schemas.steps import steps
from tests.unit.schemas.test_avro_compatibility import CASES, enum, field, fixed, record

import ottla
from ottla.broker.registry.levels import LEVELS
from ottla.schemas.avro.format import AvroFormat
from ottla.serializers import AvroDeserializer

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).with_name("RegistryPeer.java")
ADDRESS = '{"type":"record","name":"Address","namespace":"people","fields":[{"name":"city","type":"string"}]}'
PLAIN = '{"type":"record","name":"Plain","namespace":"people","fields":[{"name":"name","type":"string"}]}'
PERSON = (
    '{"type":"record","name":"Person","namespace":"people","fields":[{"name":"name","type":"string"},'
    '{"name":"home","type":"people.Address"}]}'
)
WHOLE_PERSON = PERSON.replace('"people.Address"', ADDRESS)
HISTORIES = 4_000


@pytest.fixture(scope="module")
def java():
    """Runs the program: arguments, and lines for its stdin; gives the lines that it printed."""
    try:
        jars = find_jars("registry", "registry")
    except JarsMissing as reason:
        pytest.skip(str(reason))

    def run(*arguments, lines=()):
        command = ["java", *JVM, "-cp", f"{jars}/*", str(PROGRAM), *arguments]
        text = "".join(f"{each}\n" for each in lines)
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.splitlines()

    return run


@pytest.fixture
def connect(registry_url):
    with ExitStack() as stack:
        yield lambda: stack.enter_context(SchemaRegistryClient({"url": registry_url}))


def read_all(broker, topic, count):
    settings = {"auto_offset_reset": "earliest", "group_id": f"python-{topic}"}
    with ottla.Consumer(topic, bootstrap_servers=broker.bootstrap_servers, **settings) as consumer:
        return [next(consumer).value for _ in range(count)]


# -- serializers -------------------------------------------------------------------------------------------------------


def test_what_java_writes_is_read(java, registry_broker, registry_url, connect):
    assert java("write", registry_broker.bootstrap_servers, registry_url, "java-writes", PLAIN, "true") == ["written"]
    values = read_all(registry_broker, "java-writes", 3)
    context = SerializationContext("java-writes", MessageField.VALUE)
    theirs, ours = TheirAvroDeserializer(connect()), AvroDeserializer(registry_url)
    assert [theirs(each, context) for each in values] == [{"name": f"n{index}"} for index in range(3)]
    assert [ours(each, context) for each in values] == [{"name": f"n{index}"} for index in range(3)]


def test_what_java_writes_with_a_reference_is_read(java, registry_broker, registry_url, connect):
    client = connect()
    client.register_schema("people.Address", Schema(ADDRESS, "AVRO"))
    references = [SchemaReference("people.Address", "people.Address", 1)]
    client.register_schema("java-person-value", Schema(PERSON, "AVRO", references))
    client.register_schema("java-person-key", Schema('"string"', "AVRO"))
    assert java("write", registry_broker.bootstrap_servers, registry_url, "java-person", WHOLE_PERSON, "false") == [
        "written"
    ]
    context = SerializationContext("java-person", MessageField.VALUE)
    found = [AvroDeserializer(registry_url)(each, context) for each in read_all(registry_broker, "java-person", 3)]
    assert found == [{"name": f"n{index}", "home": {"city": f"c{index}"}} for index in range(3)]


def test_java_reads_what_confluents_python_writes(java, registry_broker, registry_url, connect):
    client = connect()
    client.register_schema("people.Address", Schema(ADDRESS, "AVRO"))
    references = [SchemaReference("people.Address", "people.Address", 1)]
    write = TheirAvroSerializer(client, Schema(PERSON, "AVRO", references))
    write_key = TheirAvroSerializer(client, '"string"')
    producer = TheirProducer({"bootstrap.servers": registry_broker.bootstrap_servers})
    value, key = (SerializationContext("java-reads", each) for each in (MessageField.VALUE, MessageField.KEY))
    producer.produce("java-reads", write({"name": "ada", "home": {"city": "Rom"}}, value), write_key("k", key))
    assert producer.flush(HANG_S) == 0
    (line,) = java("read", registry_broker.bootstrap_servers, registry_url, "java-reads", "1")
    key_text, _, text = line.partition(" ")
    assert (key_text, json.loads(text)) == ("k", {"name": "ada", "home": {"city": "Rom"}})


# -- the client --------------------------------------------------------------------------------------------------------

EXPECTED = """
again: true
by id: true
id: true
version: 2
versions: [1, 2]
latest: 2
metadata: true
places: [{subject=calls,version=1}]
subjects: [calls]
compatible: true
incompatible: false
verbose: true
register incompatible: 409 409
set level: FULL
level: FULL
bad level: 422 42203
level of all: BACKWARD
no level: 404 40408
mode: READWRITE
set mode: READONLY
read only: 422 42205
write again: READWRITE
import with schemas: 422 42205
unknown id: 404 40403
unknown subject: 404 40401
unknown version: 404 40402
hard first: 404 40407
soft: 1
soft again: 404 40406
hard: 1
subject soft: [2]
subject soft again: 404 40404
subject hard: [2]
subject gone: 404 40401
"""


def test_every_call_of_the_java_client_is_answered(java, registry_url):
    assert java("calls", registry_url) == EXPECTED.split("\n")[1:-1]


# -- rules -------------------------------------------------------------------------------------------------------------


def our_verdict(level, new, before):
    """As registry/levels.py asks: the last version or all, in one direction or both."""
    rule, avro = LEVELS[level], AvroFormat()
    parsed, versions = avro.parse(new, {}), [avro.parse(each, {}) for each in before]
    for old in versions if rule.transitive else versions[-1:]:
        if (rule.backward and avro.problems(parsed, old, steps())) or (
            rule.forward and avro.problems(old, parsed, steps())
        ):
            return "false"
    return "true"


class Histories:
    """Versions of a schema, each a little different from the one before."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def kind(self, depth):
        plain = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]
        made = [
            lambda: self.random.choice(plain),
            lambda: self.random.choice(plain),
            lambda: self.an_enum(),
            lambda: fixed(self.random.choice([2, 4]), self.random.choice(["F", "G"])),
            lambda: self.random.sample(plain, self.random.randint(1, 3)),
            lambda: {"type": "array", "items": self.kind(depth - 1)},
            lambda: {"type": "map", "values": self.kind(depth - 1)},
            lambda: self.record(depth - 1, self.random.choice(["I", "J"])),
        ]
        return self.random.choice(made if depth > 0 else made[:2])()

    def an_enum(self):
        symbols = self.random.sample(["A", "B", "C"], self.random.randint(1, 3))
        return enum(*symbols, **({"default": symbols[0]} if self.random.random() < 0.4 else {}))

    def record(self, depth, name="R"):
        names = self.random.sample(["a", "b", "c"], self.random.randint(0, 3))
        return record(*(self.field(each, depth) for each in names), name=name)

    def field(self, name, depth):
        kind = self.kind(depth)
        more = {}
        if self.random.random() < 0.6 and (default := default_of(kind)) is not None:
            more["default"] = default[0]
        if self.random.random() < 0.15:
            more["aliases"] = [self.random.choice([each for each in "abc" if each != name])]
        return field(name, kind, **more)

    def changed(self, schema):
        fields = [
            self.field(each["name"], 2) if self.random.random() < 0.15 else each
            for each in schema["fields"]
            if self.random.random() < 0.85
        ]
        free = [name for name in "abcd" if name not in {each["name"] for each in fields}]
        if free and self.random.random() < 0.4:
            fields.append(self.field(self.random.choice(free), 2))
        return record(*fields)


def default_of(kind):
    """A default of a type, as a list of one; None where it would need thought."""
    if isinstance(kind, list):
        return default_of(kind[0])
    if isinstance(kind, dict):
        known = {"array": [[]], "map": [{}]}
        return [kind["symbols"][0]] if kind["type"] == "enum" else known.get(kind["type"])
    return {"null": [None], "boolean": [True], "string": ["x"], "bytes": ["x"]}.get(kind, [0])


def usable(text):
    """Names are defined once: where two random types have one name, the history is not used."""
    try:
        AvroFormat().parse(text, {})
    except Exception:
        return False
    return True


def histories():
    for seed in range(HISTORIES):
        making = Histories(seed)
        versions = [making.record(2)]
        for _ in range(making.random.choice([1, 1, 2, 3])):
            versions.append(making.changed(versions[-1]) if making.random.random() < 0.9 else making.record(2))
        texts = [json.dumps(each) for each in versions]
        if all(map(usable, texts)):
            yield list(LEVELS)[seed % len(LEVELS)], texts[-1], texts[:-1]


def test_confluents_checker_says_what_our_table_says(java):
    rows = [(case[0], json.dumps(case[1]), json.dumps(case[2]), case[3]) for case in CASES]
    said = java("judge", lines=[f"BACKWARD\t{new}\t{old}" for _, new, old, _ in rows])
    differing = [(name, verdict) for (name, _, _, why), verdict in zip(rows, said, strict=True)
                 if verdict != ("false" if why else "true")]  # fmt: skip
    assert differing == []


def test_confluents_checker_says_what_ours_says_at_every_level(java):
    asked = list(histories())
    said = java("judge", lines=["\t".join([level, new, *before]) for level, new, before in asked])
    assert len(asked) > HISTORIES // 2
    verdicts = [our_verdict(level, new, before) for level, new, before in asked]
    differing = [(each, ours, theirs) for each, ours, theirs in zip(asked, verdicts, said, strict=True)
                 if ours != theirs]  # fmt: skip
    assert differing == []
    for level in LEVELS:
        counted = [verdict for (each, _, _), verdict in zip(asked, verdicts, strict=True) if each == level]
        assert counted.count("true") > 20, f"{level} let nearly nothing pass"
