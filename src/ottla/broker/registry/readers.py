"""Records of topics as values, by the schemas that they name: for the console, which shows them to people.

    readers = broker.schema_registry.readers
    await readers.prepare({7, 9}, ["t-value"])     asks the registry for what is not known yet
    found = readers.read(content)                  what the frame of a record leads to; None without a frame

1. A frame is 0 and the id of a schema. Bytes that only look like one are told by the registry, which knows no such id:
   `problem` says so, and the bytes are shown as they are.
2. Bounded: READERS_MAX schemas are kept, PREPARED_MAX are asked for at once, records of more than RECORD_BYTES_MAX are
   not read, Avro's have a bounded number of values (ottla.schemas.avro.reading). Nothing about a record raises.
3. Values are JSON's: bytes are hexadecimal digits, dates and times ISO 8601, numbers that JSON has not are texts.
4. What the registry does not know is asked for again after UNKNOWN_MS. A schema never changes under its id, but comes
   into other subjects: it is asked for again after KNOWN_MS.
"""

from __future__ import annotations

import datetime
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ottla.bounded_json import read_json
from ottla.broker.registry.errors import RegistryError
from ottla.broker.registry.operations import BY_NAME
from ottla.broker.registry.requests import Json, Request
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.schemas.framing import FRAME_BYTES, read_indexes
from ottla.schemas.model import AVRO, PROTOBUF

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.registry.service import SchemaRegistry

READERS_MAX: Final = 500
PREPARED_MAX: Final = 50
REFERENCES_MAX: Final = 100
RECORD_BYTES_MAX: Final = 1024 * 1024
PLACES_MAX: Final = 1_000
KNOWN_MS: Final = 60_000.0
UNKNOWN_MS: Final = 5_000.0

Read = Callable[[bytes], Json]


@dataclass(frozen=True)
class SchemaReader:
    """One schema: its versions by subject, and what reads its records; `problem` where nothing does."""

    kind: str = ""
    versions: Mapping[str, int] = field(default_factory=dict)
    read: Read | None = None
    problem: str = ""
    known_until_ms: float = 0.0
    is_of_registry: bool = False
    """Whether the problem is the registry's: it does not answer now."""

    def place(self, wanted: str) -> tuple[str, int]:
        """This subject, if the schema is in it; another one of its places otherwise."""
        return (
            (wanted, self.versions[wanted]) if wanted in self.versions else next(iter(self.versions.items()), ("", 0))
        )


@dataclass(frozen=True)
class ReadRecord:
    """A record that names a schema: its value, or why it has none."""

    schema_id: int
    schema: SchemaReader
    value: Json = None
    problem: str = ""

    @property
    def is_read(self) -> bool:
        return not self.problem


def framed_id(content: bytes | None) -> int | None:
    """The id of a schema that a record may name; None where it names none."""
    if content is None or len(content) < FRAME_BYTES or content[0] != 0:
        return None
    return int.from_bytes(content[1:FRAME_BYTES], "big")


class SchemaReaders:
    """See the module. Belongs to the broker's loop."""

    def __init__(self, broker: Broker, registry: SchemaRegistry) -> None:
        self._broker = broker
        self._registry = registry
        self._readers: OrderedDict[int, SchemaReader] = OrderedDict()

    async def prepare(self, schema_ids: Iterable[int], subjects: Iterable[str] = ()) -> None:
        """Ask for the schemas that are not known, PREPARED_MAX of them at most. One that is in none of these subjects
        may have come into them since: it is asked for again sooner."""
        now_ms, subjects = self._broker.clock.monotonic_ms(), tuple(subjects)
        missing = [each for each in sorted(set(schema_ids)) if not self._is_known(each, subjects, now_ms)]
        failed: SchemaReader | None = None
        for schema_id in missing[:PREPARED_MAX]:
            found = failed or await self._asked(schema_id)
            failed = found if found.is_of_registry else None  # the others would wait as long for nothing
            self._readers[schema_id] = found
            if len(self._readers) > READERS_MAX:
                self._readers.popitem(last=False)

    def _is_known(self, schema_id: int, subjects: tuple[str, ...], now_ms: float) -> bool:
        known = self._readers.get(schema_id)
        if known is None:
            return False
        is_elsewhere = known.read is not None and not any(each in known.versions for each in subjects)
        if known.known_until_ms - (KNOWN_MS - UNKNOWN_MS if is_elsewhere else 0.0) < now_ms:
            return False
        self._readers.move_to_end(schema_id)
        return True

    async def _asked(self, schema_id: int) -> SchemaReader:
        try:
            answer = await self._ask("GET /schemas/ids/{id}", {"id": str(schema_id)})
            places = await self._ask("GET /schemas/ids/{id}/versions", {"id": str(schema_id)}, deleted="true")
            imports = await self._imports(answer, {})
            kind, text = str(answer.get("schemaType") or AVRO), str(answer["schema"])
            read = await self._broker.pacing.apart(_reader, kind, text, imports)
        except (RegistryError, OttlaError, ValueError) as error:
            until_ms = self._broker.clock.monotonic_ms() + UNKNOWN_MS
            is_of_registry = isinstance(error, RegistryError) and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
            return SchemaReader(
                problem=_words(error, schema_id), known_until_ms=until_ms, is_of_registry=is_of_registry
            )
        versions = {str(each["subject"]): int(each["version"]) for each in places[:PLACES_MAX]}
        return SchemaReader(kind, versions, read, known_until_ms=self._broker.clock.monotonic_ms() + KNOWN_MS)

    async def _ask(self, name: str, path: dict[str, str], **query: str) -> Any:
        return await self._registry.answer(BY_NAME[name], Request(path, query))

    async def _imports(self, answer: Any, found: dict[str, str]) -> dict[str, str]:
        """The texts of all that a schema refers to, each before those that use it."""
        for each in answer.get("references") or ():
            if each["name"] in found:
                continue
            if len(found) >= REFERENCES_MAX:
                raise ValueError(f"it refers to more than {REFERENCES_MAX} others")
            path = {"subject": str(each["subject"]), "version": str(each["version"])}
            inner = await self._ask("GET /subjects/{subject}/versions/{version}", path, deleted="true")
            await self._imports(inner, found)
            found[each["name"]] = str(inner["schema"])
        return found

    def read(self, content: bytes | None) -> ReadRecord | None:
        """A record by its schema, if that was prepared; None where it names none. May be called in a thread."""
        schema_id = framed_id(content)
        if schema_id is None or content is None:
            return None
        schema = self._readers.get(schema_id, SchemaReader(problem="its schema was not asked for"))
        if schema.read is None:
            return ReadRecord(schema_id, schema, problem=schema.problem)
        if len(content) > RECORD_BYTES_MAX:
            return ReadRecord(schema_id, schema, problem=f"it has {len(content)} bytes, too many to be decoded here")
        try:
            return ReadRecord(schema_id, schema, schema.read(content))
        except (ValueError, LookupError, RecursionError, OverflowError) as error:
            return ReadRecord(schema_id, schema, problem=f"it is no record of its schema: {error}")


def _words(error: Exception, schema_id: int) -> str:
    if isinstance(error, RegistryError) and error.code == 40403:
        return f"the registry knows no schema {schema_id}"
    return f"its schema cannot be had: {error}"


# -- formats -----------------------------------------------------------------------------------------------------------


def _reader(kind: str, text: str, imports: Mapping[str, str]) -> Read:
    """What reads framed records of a schema; OttlaError when it cannot be parsed."""
    if kind == PROTOBUF:
        return _protobuf_reader(text, imports)
    if kind != AVRO:
        return lambda content: read_json(content[FRAME_BYTES:])
    from ottla.schemas.avro.format import AvroFormat
    from ottla.schemas.avro.reading import read_avro_record

    parsed = AvroFormat().parse(text, imports).type
    return lambda content: as_json(read_avro_record(parsed, content[FRAME_BYTES:]))


def _protobuf_reader(text: str, imports: Mapping[str, str]) -> Read:
    from google.protobuf.message import DecodeError

    from ottla.schemas.protobuf.messages import class_of, linked_file, message_at
    from ottla.schemas.protobuf.values import reader_of

    file = linked_file(text, imports)

    def read(content: bytes) -> Json:
        indexes, position = read_indexes(content)
        message = message_at(file, indexes)
        try:
            value = class_of(message).FromString(content[position:])
        except DecodeError as error:
            raise ValueError(f"no {message.full_name} ({error})") from None
        return as_json(reader_of(message, maps=dict, unsigned=int)(value))

    return read


def as_json(value: Any) -> Json:
    """The value with what JSON has."""
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, bytes):
        return value.hex(" ")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
