"""Records of the cluster's own topics as JSON, as Apache's tools print them: __consumer_offsets, __transaction_state.

    key: {"type":"1","data":{"group":"g","topic":"t","partition":0}}
    payload: {"version":"3","data":{"offset":5,"leaderEpoch":-1,"metadata":"","commitTimestamp":1}}

Names are Kafka's, bytes are base64, and only fields of the record's version are there; a tagged field only where it is
not its default. What classic consumers say of themselves is read too.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from ottla.cli.kafka.java_json import java_json
from ottla.errors import OttlaError
from ottla.protocol.schema import UUID, ArrayOf, Message, Struct, WireType
from ottla.protocol.stored import decode_key, decode_value, split_lead
from ottla.values import uuid_to_text

OFFSETS: Final = ("offsets", "classic_groups", "consumer_groups", "share_groups", "streams_groups")
TRANSACTIONS: Final = ("transactions",)
SHARE_STATE: Final = ("share_state",)
LEAD_BYTES: Final = 2
"""The number in front of a key, which says what kind of record it is."""


class MissingKey(Exception):
    """A record without a key is none of the cluster's own."""


def kinds_of(modules: tuple[str, ...]) -> dict[type[Message], type[Message]]:
    """Keys and their values, of these files of protocol/stored."""
    found: dict[type[Message], type[Message]] = {}
    for name in modules:
        module = import_module(f"ottla.protocol.stored.{name}")
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, Message) and getattr(each, "record_type", None) is not None:
                found[each] = getattr(module, each.__name__.removesuffix("Key") + "Value")
    return found


def stored_text(
    kinds: Mapping[type[Message], type[Message]], key: bytes | None, value: bytes | None, offset: int
) -> tuple[str, str | None]:
    """Key and value of a record as text; a kind that nobody knows, or that is damaged, is told instead."""
    if key is None:
        raise MissingKey(
            f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
        )
    if len(key) < LEAD_BYTES:
        return f"Error at offset {offset}, skipping. Could not read version from key's buffer.", None
    try:
        found = decode_key(kinds, key)
        if found is None:
            return f"Unknown record type {split_lead(key)[0]} at offset {offset}, skipping.", None
        shown = java_json({"type": str(found.record_type), "data": as_json(found, 0)})
        return shown, "<DELETE>" if value is None else _value_text(kinds[type(found)], value)
    except OttlaError as error:
        return f"Error at offset {offset}, skipping. {error}", None


def _value_text(kind: type[Message], value: bytes) -> str:
    version = split_lead(value)[0]
    message = decode_value(kind, value)
    data = as_json(message, version)
    if data.get("protocolType") == "consumer":
        for member, shown in zip(getattr(message, "members", ()), data.get("members", ()), strict=True):
            _read_member(member, shown)
    return java_json({"version": str(version), "data": data})


def _read_member(member: Any, shown: dict[str, Any]) -> None:
    from ottla.protocol.stored.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription

    for name, kind in (("subscription", ConsumerProtocolSubscription), ("assignment", ConsumerProtocolAssignment)):
        try:
            content = bytes(getattr(member, name))
            shown[name] = as_json(decode_value(kind, content), split_lead(content)[0])
        except OttlaError:
            pass  # not what consumers write; the bytes stay as they are


def as_json(struct: Struct, version: int) -> dict[str, Any]:
    """The fields of a version, under Kafka's names."""
    found = {}
    for field in struct.fields:
        content = getattr(struct, field.name)
        if version in field.present and (field.tag is None or content != field.make_default()):
            found[_camel(field.name)] = _shown(content, field.type, version)
    return found


def _shown(content: Any, kind: WireType, version: int) -> Any:
    if isinstance(content, Struct):
        return as_json(content, version)
    if isinstance(kind, ArrayOf) and content is not None:
        return [_shown(each, kind.element, version) for each in content]
    if isinstance(content, bytes | bytearray | memoryview):
        data = bytes(content)
        return uuid_to_text(data) if kind is UUID else base64.b64encode(data).decode()
    return content


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)
