"""Requests of any API made from its declaration, as large as the broker allows: also for APIs that come tomorrow.

1. wide: as many entries as an API may have, in its outermost lists, each with a name of its own; repeated: the same,
   all with one name; deep: one entry in the outermost lists and all others within it.
2. long: the longest names that fit into the largest frame. extremes: numbers at their ends, nulls, one entry in each
   list.
3. zeros, ones, counts, high: bytes that are no message, as many as the largest frame has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from tests.hostile_work.prefill import OWN

from ottla.broker.requests.served import CLUSTER_APIS, frame_limit_bytes, served
from ottla.protocol.api import Api
from ottla.protocol.header import encode_request, request_header_version
from ottla.protocol.schema import BOOL, BYTES, FLOAT64, RECORDS, STRING, UUID, ArrayOf, Field, Message, StructType

REQUEST_BYTES = 100 << 20  # socket.request.max.bytes
SPARE_BYTES = 1_024
LONGEST_TEXT = 32_767
ENTRIES_UNKNOWN = 20_000
_BITS = {"b": 7, "h": 15, "H": 16, "i": 31, "I": 32, "q": 63}
_KINDS = ("wide", "repeated", "deep", "long", "extremes")
_SHORT_KINDS = ("wide",)
_BYTES = {"zeros": b"\0", "ones": b"\x01", "counts": b"\xff\xff\xff\xff\x07", "high": b"\x7f"}


class Shape:
    """Fills one request in one of the kinds."""

    def __init__(self, kind: str, entries: int, frame_bytes: int, owner: str, topic_ids: Sequence[bytes]) -> None:
        self.kind, self.owner, self.topic_ids = kind, owner, topic_ids
        self.entries, self.left_bytes = entries, frame_bytes
        self.left_entries = entries

    def message(self, kind: type[Message], version: int) -> Message:
        made: Message = self._struct(kind, version, 0, 0)
        return made

    def _struct(self, kind: StructType, version: int, depth: int, index: int) -> Any:
        values = {}
        present = [field for field in kind.fields if version in field.present]
        lists = sum(isinstance(field.type, ArrayOf) for field in present)
        for field in present:
            if isinstance(field.type, ArrayOf):
                values[field.name] = self._list(field, version, depth, lists)
            elif isinstance(field.type, StructType):
                values[field.name] = self._struct(field.type, version, depth + 1, index)
            elif self._keeps_default(field):
                continue
            else:
                values[field.name] = self._value(field, version, index)
        return kind(**values)

    def _keeps_default(self, field: Field) -> bool:
        return self.kind in ("wide", "repeated", "deep") and not field.required and field.type is not STRING

    def _list(self, field: Field, version: int, depth: int, lists: int) -> list[Any]:
        count = self._count(depth, lists)
        found: list[Any] = []
        assert isinstance(field.type, ArrayOf)
        for index in range(count):
            if self.left_entries <= 0 or self.left_bytes <= 0:
                break
            self.left_entries -= 1
            element = field.type.element
            if isinstance(element, StructType):
                self.left_bytes -= 8
                found.append(self._struct(element, version, depth + 1, index))
            else:
                found.append(self._primitive(element, field.name, index))
        return found

    def _count(self, depth: int, lists: int) -> int:
        if self.kind in ("wide", "repeated"):
            return self.entries // lists if depth == 0 else 0
        if self.kind == "deep":
            return 1 if depth == 0 else self.entries
        return 1 << 30 if self.kind == "long" and depth == 0 else 1

    def _value(self, field: Field, version: int, index: int) -> Any:
        if self.kind == "extremes" and field.null_at(version):
            return None
        return self._primitive(field.type, field.name, index)

    def _primitive(self, kind: Any, name: str, index: int) -> Any:
        index = 0 if self.kind == "repeated" else index
        if kind is STRING:
            return self._text(index)
        if kind is BYTES or kind is RECORDS:
            size_bytes = max(0, min(self.left_bytes, REQUEST_BYTES)) if self.kind == "long" else 8
            self.left_bytes -= size_bytes
            return bytes(size_bytes)
        self.left_bytes -= 16
        if kind is UUID:
            return self.topic_ids[index] if index < len(self.topic_ids) else index.to_bytes(16, "big")
        if kind is BOOL:
            return self.kind == "extremes"
        if kind is FLOAT64:
            return float("inf") if self.kind == "extremes" else 1.0
        if self.kind == "extremes":
            return (1 << _BITS[kind.format]) - 1
        return 0 if "index" in name or "partition" in name else 1

    def _text(self, index: int) -> str:
        text = f"{self.owner}{index:06d}"
        if self.kind == "long":
            text = text.ljust(max(0, min(LONGEST_TEXT, self.left_bytes - 64)), "x")
        self.left_bytes -= len(text) + 4
        return text


def header(api: Api, version: int) -> bytes:
    """Of a request, up to its body."""
    start = struct.pack(">hhih", api.key, version, 1, -1)
    return start + (b"\0" if request_header_version(api.key, version) == 2 else b"")


def generic_requests(
    api: Api, topic_ids: Sequence[bytes], *, is_long: bool, owner: str = OWN
) -> Iterator[tuple[str, bytes]]:
    """Names and contents of frames."""
    versions = {api.versions.max, api.versions.min} if is_long else {api.advertised.max}
    limit_bytes = min(frame_limit_bytes(api.key), REQUEST_BYTES)
    limit_bytes = limit_bytes if is_long else min(limit_bytes, 4 << 20)
    entries = served(api).entries if api.key in CLUSTER_APIS else ENTRIES_UNKNOWN
    entries = entries if is_long else min(entries, 20_000)
    for version in sorted(versions):
        for kind in _KINDS if is_long else _SHORT_KINDS:
            shape = Shape(kind, entries, limit_bytes - SPARE_BYTES, owner, topic_ids)
            try:
                request = shape.message(api.request, version)
                parts = encode_request(request, version=version, correlation_id=1, client_id="attack")
            except (ValueError, OverflowError, struct.error):
                continue  # a value that this version cannot have
            yield f"{kind} {api.name} {version}", b"".join(map(bytes, parts))
        for name, piece in _BYTES.items() if is_long else [("zeros", b"\0")]:
            content = header(api, version)
            room = limit_bytes - len(content)
            yield f"{name} as {api.name} {version}", content + (piece * (room // len(piece) + 1))[:room]
