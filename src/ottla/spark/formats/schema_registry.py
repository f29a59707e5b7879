"""Schemas from a registry that speaks Confluent's HTTP interface, and the five bytes that name them in records.

    byte  0      0, the magic byte
    bytes 1-4    the number of the schema that wrote the record, big-endian
    then         the record in Avro's binary form

1. A schema never changes under its number: what was asked once is not asked again. A task meets few numbers, and the
   cache is bounded all the same.
2. Every question has a time limit and is asked again after failures that may pass, a few times.
3. User and password come from the address (https://user:secret@host) and are never shown in an error.
4. A schema that refers to others is made whole: they are asked for too, and written into it.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.spark.formats.avro_schemas import inlined

MAGIC: Final = 0
FRAME_BYTES: Final = 5
CACHE_MAX: Final = 1_000
TRIES: Final = 3
TIMEOUT_S: Final = 10.0
WAIT_S: Final = 0.5
ANSWER_BYTES_MAX: Final = 16_777_216
REFERENCES_MAX: Final = 100

Fetch = Callable[[str, dict[str, str]], bytes]


class RegistryFailed(OttlaError):
    """The schema registry did not give a schema. See whether its address, user and password are right and it has the
    schema."""


class UnknownSchema(RegistryFailed):
    """The schema registry does not have this schema. Register it, or see whether this is the right registry."""


class UnframedRecord(ValueError):
    """A record does not begin as records of a schema registry do."""


def schema_number(record: bytes) -> int:
    """The number of the schema that wrote this record."""
    if len(record) < FRAME_BYTES:
        raise UnframedRecord(f"it has {len(record)} bytes, fewer than the {FRAME_BYTES} that name its schema")
    if record[0] != MAGIC:
        raise UnframedRecord(f"it begins with byte {record[0]}, not with 0 and the number of a schema")
    return int.from_bytes(record[1:FRAME_BYTES], "big")


class SchemaRegistry:
    """One registry. Its schemas are JSON values: what a registry has as text, read."""

    def __init__(self, url: str, *, fetch: Fetch | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RegistryFailed("schemaRegistryUrl must be http://host:port or https://user:password@host")
        address = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        self._base = urllib.parse.urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
        self._fetch = fetch or _fetch_http
        self._sleep = sleep
        self._known: OrderedDict[int, Any] = OrderedDict()

    def by_number(self, number: int) -> Any:
        """The schema with this number."""
        if number in self._known:
            self._known.move_to_end(number)
            return self._known[number]
        found = self._whole(self._get(f"/schemas/ids/{number}"), f"schema {number}")
        self._known[number] = found
        if len(self._known) > CACHE_MAX:
            self._known.popitem(last=False)
        return found

    def latest(self, subject: str) -> Any:
        """The newest schema of a subject, such as clicks-value."""
        return self._whole(self._get(f"/subjects/{_quoted(subject)}/versions/latest"), f"subject {subject}")

    def _whole(self, answer: Any, what: str) -> Any:
        kind = answer.get("schemaType", "AVRO") if isinstance(answer, dict) else None
        if kind != "AVRO":
            raise RegistryFailed(f"{what} at {self._base} is {kind}, only Avro can be read")
        references = self._references(answer, {})
        return inlined(_json(answer.get("schema"), what), list(references.values()))

    def _references(self, answer: Any, found: dict[str, Any]) -> dict[str, Any]:
        """What a schema refers to, before it, so that every name is known when it is used."""
        for each in answer.get("references") or []:
            name, subject, version = each.get("name"), each.get("subject"), each.get("version")
            if name in found:
                continue
            if len(found) >= REFERENCES_MAX:
                raise RegistryFailed(f"a schema refers to more than {REFERENCES_MAX} others")
            inner = self._get(f"/subjects/{_quoted(str(subject))}/versions/{int(version)}")
            self._references(inner, found)
            found[name] = _json(inner.get("schema"), f"subject {subject}")
        return found

    def _get(self, path: str) -> Any:
        for left in reversed(range(TRIES)):
            try:
                return json.loads(self._fetch(self._base + path, self._headers))
            except urllib.error.HTTPError as error:
                if (error.code < 500 and error.code != 429) or not left:
                    kind = UnknownSchema if error.code == 404 else RegistryFailed
                    raise kind(f"{self._base}{path} answers {error.code} {_reason(error)}") from None
            except (OSError, ValueError) as error:
                if not left:
                    raise RegistryFailed(f"{self._base}{path}: {error}") from None
            self._sleep(WAIT_S)
        raise AssertionError("the last try returns or raises")


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")


def _json(text: Any, what: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        # A bare name such as "string" without its quotes is returned by some registries.
        if isinstance(text, str) and text.isidentifier():
            return text
        raise RegistryFailed(f"{what} is no JSON") from None


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        found = json.loads(error.read(10_000))
        return str(found.get("message", error.reason))
    except (OSError, ValueError, AttributeError):
        return str(error.reason)


def _fetch_http(url: str, headers: dict[str, str]) -> bytes:
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    if len(content) > ANSWER_BYTES_MAX:
        raise ValueError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
    return content
