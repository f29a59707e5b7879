"""Records of topics that want a schema: each must name one that the registry knows.

    confluent.value.schema.validation=true      of a topic: values begin with 0 and the id of a known schema
    confluent.key.schema.validation=true        the same for keys

1. A record without such an id is refused, and so is its batch, with INVALID_RECORD and the places of the records. A
   null is let pass: a tombstone has no schema.
2. That an id is known is remembered for KNOWN_MS; then it is asked for again, on the broker that leads _schemas. Ids
   that are not known are never remembered.
3. Requests for such topics are checked one after the other, so that none overtakes another that waits for the registry.
4. Topics without it are asked nothing: one attribute of their partition says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.produce.frames import Produce
from ottla.broker.registry.errors import RegistryError
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.pacing import Pace
from ottla.broker.waiting.turns import Turns
from ottla.errors import BrokerError, NotEnoughReplicas, OttlaError
from ottla.records import RecordBatch, RecordStream
from ottla.schemas.framing import UnframedRecord, schema_id_of
from ottla.storage.log.record_errors import InvalidRecords, RecordError
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

KNOWN_MS: Final = 60_000.0
KNOWN_MAX: Final = 100_000
SHOWN: Final = 3

Refused = dict[TopicPartition, BrokerError]


class SchemaChecks:
    """See the module. Belongs to the broker's loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.turns = Turns()
        self._known_until_ms: dict[int, float] = {}

    async def refused(self, request: Produce, pace: Pace) -> Refused:
        """The partitions whose records are refused, and why."""
        found: Refused = {}
        for partition, records in _checked_parts(self._broker, request):
            try:
                errors = await self._errors(partition, records, pace)
            except RegistryError as error:
                found[partition.name] = NotEnoughReplicas(f"schemas cannot be checked now: {error.message}")
                continue
            if errors:
                shown = "; ".join(f"record {each.batch_index}: {each.message}" for each in errors[:SHOWN])
                found[partition.name] = InvalidRecords(f"{len(errors)} records are refused, {shown}", tuple(errors))
        return found

    async def _errors(self, partition: Partition, records: memoryview, pace: Pace) -> list[RecordError]:
        settings, errors, index = partition.log.settings, list[RecordError](), 0
        try:
            batches = [each for each in RecordStream(records) if isinstance(each, RecordBatch)]
            for batch in batches:
                for record in batch:
                    for word, wanted, content in (
                        ("key", settings.confluent_key_schema_validation, record.key),
                        ("value", settings.confluent_value_schema_validation, record.value),
                    ):
                        if wanted and (problem := await self._problem(content)) is not None:
                            errors.append(RecordError(index, f"its {word} {problem}"))
                    index += 1
                    await pace.step()
        except OttlaError:
            return []  # it is no batch: the append says so
        return errors

    async def _problem(self, content: bytes | memoryview | None) -> str | None:
        if content is None:
            return None
        try:
            schema_id = schema_id_of(content)
        except UnframedRecord as error:
            return f"names no schema: {error}"
        return None if await self._is_known(schema_id) else f"names schema {schema_id}, which is not registered"

    async def _is_known(self, schema_id: int) -> bool:
        now_ms = self._broker.clock.monotonic_ms()
        if self._known_until_ms.get(schema_id, 0.0) > now_ms:
            return True
        if not await self._broker.schema_registry.has_id(schema_id):
            self._known_until_ms.pop(schema_id, None)
            return False
        if len(self._known_until_ms) >= KNOWN_MAX:
            self._known_until_ms.clear()
        self._known_until_ms[schema_id] = now_ms + KNOWN_MS
        return True


def _checked_parts(broker: Broker, request: Produce) -> list[tuple[Partition, memoryview]]:
    found = []
    for topic, partitions in request.topics:
        name = topic if isinstance(topic, str) else broker.image.topic_name(topic)
        for index, records in partitions:
            partition = None if name is None else broker.replicas.get((name, index))
            if partition is not None and partition.checks_schemas and records is not None:
                found.append((partition, records))
    return found
