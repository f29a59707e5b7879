"""Our bytes against two independent codecs: kio's and kafka-python's, for every message and version that they have."""

import importlib
import io
import pkgutil
from typing import Any

import kafka.protocol
import kio.serial
import pytest
from hypothesis import given
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from ottla.protocol import codec, compiled
from ottla.protocol.api import APIS
from ottla.protocol.header import RequestHeader, ResponseHeader
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.schema import Message
from ottla.protocol.stored.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.testing.strategies import messages

# What kio has beside requests and responses, under which name.
KIO_DATA = {
    "request_header": RequestHeader,
    "response_header": ResponseHeader,
    "consumer_protocol_assignment": ConsumerProtocolAssignment,
    "consumer_protocol_subscription": ConsumerProtocolSubscription,
}


def kio_cases() -> list[Any]:
    cases = []
    for api in APIS.values():
        versions = schema_name_map.get(api_key_map.get(api.key, ""), {})
        for version in api.versions:
            if version in versions:
                cases.append(pytest.param(api.request, load_request_schema(api.key, version), version))
                cases.append(pytest.param(api.response, load_response_schema(api.key, version), version))
    for name, message in KIO_DATA.items():
        for version, kinds in schema_name_map[name].items():
            if version in message.versions:
                kind = kinds.get(EntityType.data) or kinds[EntityType.header]
                module, _, entity = kind.partition(":")
                cases.append(pytest.param(message, getattr(importlib.import_module(module), entity), version))
    return [pytest.param(*case.values, id=f"{case.values[0].__name__}-{case.values[2]}") for case in cases]


def kafka_python_cases() -> list[Any]:
    classes: dict[str, Any] = {}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name:
            for item in vars(importlib.import_module(module.name)).values():
                if isinstance(item, type) and hasattr(item, "_valid_versions"):
                    classes[item.__name__] = item
    cases = []
    for api in APIS.values():
        for ours in (api.request, api.response):
            theirs = classes.get(ours.__name__)
            if theirs is None or theirs._valid_versions is None:
                continue
            for version in ours.versions:
                if version <= theirs.max_version:
                    cases.append(pytest.param(ours, theirs, version, id=f"{ours.__name__}-{version}"))
    return cases


@pytest.mark.parametrize(("ours", "theirs", "version"), kio_cases())
def test_kio_reads_and_writes_the_same_bytes(ours: type[Message], theirs: Any, version: int) -> None:
    read, write = kio.serial.entity_reader(theirs), kio.serial.entity_writer(theirs)

    @given(messages(ours, version, modest=True))
    def check(message: Message) -> None:
        written = b"".join(compiled.encode(message, version))
        entity, size = read(written, 0)
        assert size == len(written)
        again = io.BytesIO()
        write(again, entity)
        assert codec.decode(ours, version, again.getvalue()) == message
        assert again.getvalue() == written

    check()


@pytest.mark.parametrize(("ours", "theirs", "version"), kafka_python_cases())
def test_kafka_python_reads_and_writes_the_same_bytes(ours: type[Message], theirs: Any, version: int) -> None:
    @given(messages(ours, version, modest=True))
    def check(message: Message) -> None:
        if isinstance(message, ApiVersionsResponse):
            message.error_code = 0  # any error makes them read the layout of version 0
        written = b"".join(compiled.encode(message, version))
        entity = theirs.decode(written, version=version)
        entity._header = None  # decoded entities lack it, and their encoder looks at it
        assert bytes(entity.encode(version=version)) == written

    check()


def test_the_peers_cover_what_they_are_said_to_cover() -> None:
    """So that a renamed module in a peer cannot silently empty this file."""
    assert len(kio_cases()) > 450
    assert len(kafka_python_cases()) > 300
