"""What all serializers with a registry have: subjects, when a schema is registered, the five bytes before a record.

1. The subject is `<topic>-key` or `<topic>-value` (Confluent's TopicNameStrategy), unless `subject` says otherwise: a
   text, or a function of topic and field.
2. With `register` (the default) a schema is registered when it is first used for a subject; without, it must be there.
   `latest` writes with the newest version of the subject instead, whatever the type says.
3. None is a tombstone: it stays None, in both directions.
4. They are called as confluent-kafka's are, with the value and a context, so they work in its clients, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from ottla.client.schema_registry.registry import SchemaRegistry
from ottla.client.serializers import SerializationContext, SerializationFailed
from ottla.schemas.framing import UnframedRecord, frame, schema_id_of
from ottla.schemas.model import SchemaText

Subject = str | Callable[[str, str], str]
PARSED_MAX: Final = 1_000


def topic_subject(topic: str, field: str) -> str:
    """Confluent's TopicNameStrategy."""
    return f"{topic}-{field}"


def as_registry(registry: SchemaRegistry | str) -> SchemaRegistry:
    return SchemaRegistry(registry) if isinstance(registry, str) else registry


class RegistrySerializer(ABC):
    """Writes values with a schema that the registry knows; subclasses say which schema, and how a value is written."""

    def __init__(
        self,
        registry: SchemaRegistry | str,
        *,
        subject: Subject | None = None,
        register: bool = True,
        latest: bool = False,
        normalize: bool = False,
    ) -> None:
        self.registry = as_registry(registry)
        self._subject = subject or topic_subject
        self._register = register
        self._latest = latest
        self._normalize = normalize
        self._written: dict[str, tuple[int, Any]] = {}

    def __call__(self, value: Any, ctx: SerializationContext) -> bytes | None:
        if value is None:
            return None
        return self.write(
            value, self._subject if isinstance(self._subject, str) else self._subject(ctx.topic, str(ctx.field))
        )

    def write(self, value: Any, subject: str) -> bytes:
        """A record with the schema of a subject."""
        known = self._written.get(subject)
        if known is None:
            known = self._written[subject] = self._schema_of(subject)
        return frame(known[0]) + self.encode(value, known[1])

    def _schema_of(self, subject: str) -> tuple[int, Any]:
        if self._latest:
            schema_id, schema = self.registry.latest(subject)
            return schema_id, self.prepare(schema)
        schema = self.schema()
        if self._register:
            return self.registry.register(subject, schema, normalize=self._normalize), self.prepare(schema)
        return self.registry.look_up(subject, schema, normalize=self._normalize), self.prepare(schema)

    @abstractmethod
    def schema(self) -> SchemaText:
        """The schema to write with."""

    @abstractmethod
    def prepare(self, schema: SchemaText) -> Any:
        """What `encode` needs of a schema; once per subject."""

    @abstractmethod
    def encode(self, value: Any, prepared: Any) -> bytes:
        """The record behind its five bytes."""


class RegistryDeserializer(ABC):
    """Reads records with the schema that they name."""

    def __init__(self, registry: SchemaRegistry | str) -> None:
        self.registry = as_registry(registry)
        self._prepared: dict[int, Any] = {}

    def __call__(self, data: bytes | None, ctx: SerializationContext) -> Any:
        try:
            return None if data is None else self.read(data)
        except UnframedRecord as error:
            raise SerializationFailed(f"the {ctx.field} from topic {ctx.topic} names no schema: {error}") from None

    def read(self, data: bytes) -> Any:
        """The value of a record; raises UnframedRecord when it names no schema."""
        data = bytes(data)
        schema_id = schema_id_of(data)
        if schema_id not in self._prepared:
            if len(self._prepared) >= PARSED_MAX:
                self._prepared.clear()
            self._prepared[schema_id] = self.prepare(schema_id)
        return self.decode(data, self._prepared[schema_id])

    @abstractmethod
    def prepare(self, schema_id: int) -> Any:
        """What `decode` needs of the schema with this id; once per id."""

    @abstractmethod
    def decode(self, data: bytes, prepared: Any) -> Any:
        """The value of a record, whose five bytes are still there."""
