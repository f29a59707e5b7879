"""The options of the sink: Spark's Kafka connector's by name and meaning, and ours besides.

    options = SinkOptions.parse({"kafka.bootstrap.servers": "localhost:9092", "topic": "clicks"}, streaming=True)

1. Everything is checked before the first record; an error says which option is wrong and what to write instead.
2. Both a stream and a batch are written exactly once unless at-least-once is asked for (docs/decisions/0024).
3. What a restarted driver finishes (a stream, or a batch with a batchId) must still be open then: a transaction
   time-out that is not longer than `driverRecovery` is refused here, one beyond the brokers' limit is refused by
   them, with our sentence. A batch without a batchId is not finished by anybody: its time-out is shorter.
4. Neither repr nor an error shows client settings: they may hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, TypeAlias

from ottla.client.admin.settings import AdminSettings
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.producer.settings import ProducerSettings
from ottla.errors import InvalidConfig
from ottla.light_dataclasses import dataclass, field
from ottla.spark.option_table import (
    InvalidOption,
    Option,
    OptionValues,
    Where,
    milliseconds,
    names_of,
    one_of,
    text,
    truth,
    whole,
)

JOB_NAME_LETTERS: Final = r"[A-Za-z0-9._-]{1,100}"


def job_name(value: str) -> str:
    """A name that can be a part of a transactional id and of a group id."""
    if not re.fullmatch(JOB_NAME_LETTERS, value):
        raise ValueError("1 to 100 letters, digits, dots, dashes and underscores")
    return value


SinkClientKind: TypeAlias = Literal["admin", "consumer", "producer"]

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The longest that brokers allow by default (transaction.max.timeout.ms)."""
BATCH_TIMEOUT_MS: Final = 300_000
"""For a batch that nobody would finish: so long a killed one holds back readers, and so long a job may write."""
RETRY_BACKOFF_MS: Final = 20
"""A task begins while the markers of the batch before are still being written: that takes milliseconds."""
BATCH_BYTES: Final = 131_072
"""Tasks come with thousands of rows at once: eight times Kafka's batch.size takes a fifth of the processor time."""

TOPIC = Option("topic", text, None, Where.WRITE, "The topic of all rows; without it the column `topic` says it.")
DELIVERY_GUARANTEE = Option(
    "deliveryGuarantee",
    one_of(EXACTLY_ONCE, AT_LEAST_ONCE),
    EXACTLY_ONCE,
    Where.WRITE,
    "exactly-once writes in transactions that the driver ends; at-least-once only waits until every row is written.",
)
TRANSACTIONAL_ID_PREFIX = Option(
    "transactionalIdPrefix",
    text,
    "ottla-spark",
    Where.WRITE,
    "How transactional ids and the group of the markers begin; what access rules are made for.",
)
SINGLE_TRANSACTION = Option(
    "singleTransaction",
    truth,
    False,
    Where.WRITE,
    "One transaction per batch, so that readers see all of it at once. The rows must be in one partition: coalesce(1).",
)
MARKER_TOPIC = Option(
    "markerTopic",
    text,
    "_ottla_spark_markers",
    Where.WRITE,
    "The topic whose offsets say which batch was written last. It stays empty and is made when it is missing.",
)
DRIVER_RECOVERY = Option(
    "driverRecovery",
    milliseconds,
    300_000,
    Where.WRITE,
    "How long a restart of the driver may take; kafka.transaction.timeout.ms must be longer.",
    "5m",
)
JOB_NAME = Option(
    "jobName",
    job_name,
    None,
    Where.BATCH_WRITE,
    "What this write is called, the same in every run: a run aborts what a killed run of that name left open.",
)
BATCH_ID = Option(
    "batchId",
    whole(0),
    None,
    Where.BATCH_WRITE,
    "A number that grows with every batch of jobName, as foreachBatch has it: each number is written once, however"
    " often it is tried.",
)
INCLUDE_HEADERS = Option(
    "includeHeaders", truth, True, Where.BOTH, "Whether a column `headers` becomes the headers of the records."
)
INCLUDE_TIMESTAMP = Option(
    "includeTimestamp",
    truth,
    False,
    Where.WRITE,
    "Whether a column `timestamp` becomes the time of the records; without it the time is that of writing.",
)
FORMATS: Final = ("binary", "json", "avro", "protobuf")
KEY_FORMAT = Option(
    "keyFormat", one_of(*FORMATS), "binary", Where.BOTH, f"What keys are written as: {', '.join(FORMATS)}."
)
VALUE_FORMAT = Option(
    "valueFormat", one_of(*FORMATS), "binary", Where.BOTH, f"What values are written as: {', '.join(FORMATS)}."
)
KEY_SCHEMA = Option(
    "keySchema",
    text,
    None,
    Where.BOTH,
    "A schema of keys that is registered; without it the newest of the subject <topic>-key is used.",
)
VALUE_SCHEMA = Option("valueSchema", text, None, Where.BOTH, "The same for values and <topic>-value.")
KEY_MESSAGE = Option("keyMessage", text, None, Where.BOTH, "Which message of a Protobuf schema keys are.")
VALUE_MESSAGE = Option("valueMessage", text, None, Where.BOTH, "The same for values; without it the first one.")
SCHEMA_REGISTRY_URL = Option(
    "schemaRegistryUrl", text, None, Where.BOTH, "Where the schemas are; every format but binary needs it."
)
SINK_OPTIONS: Final = (
    TOPIC,
    DELIVERY_GUARANTEE,
    TRANSACTIONAL_ID_PREFIX,
    SINGLE_TRANSACTION,
    MARKER_TOPIC,
    DRIVER_RECOVERY,
    JOB_NAME,
    BATCH_ID,
    INCLUDE_HEADERS,
    INCLUDE_TIMESTAMP,
    KEY_FORMAT,
    VALUE_FORMAT,
    KEY_SCHEMA,
    VALUE_SCHEMA,
    KEY_MESSAGE,
    VALUE_MESSAGE,
    SCHEMA_REGISTRY_URL,
)

REFUSED_SETTINGS: Final[Mapping[str, str]] = {
    "transactional.id": "every task has its own, and transactionalIdPrefix says how they begin",
    "key.serializer": "keys are written as they are, or as keyFormat says; cast the column to string or binary",
    "value.serializer": "values are written as they are, or as valueFormat says; cast the column to string or binary",
    "key.deserializer": "it is a setting of consumers",
    "value.deserializer": "it is a setting of consumers",
    "interceptor.classes": "an interceptor may change records; change them in the query",
}


@dataclass(frozen=True, slots=True)
class SinkFormat:
    """What keys or values are written as."""

    name: str = "binary"
    schema: str | None = None
    message: str | None = None
    registry_url: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write, checked."""

    streaming: bool
    topic: str | None = None
    is_exactly_once: bool = True
    transactional_id_prefix: str = "ottla-spark"
    single_transaction: bool = False
    marker_topic: str = "_ottla_spark_markers"
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    job_name: str | None = None
    batch_id: int | None = None
    include_headers: bool = True
    include_timestamp: bool = False
    formats: Mapping[str, SinkFormat] = field(default_factory=dict)
    """By column: key and value."""
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings that log a client in with a token (tokens/handout.py); nothing where `kafka` says how."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
        values = OptionValues.checked(options, SINK_OPTIONS)
        is_exactly_once = values.required(DELIVERY_GUARANTEE) == EXACTLY_ONCE
        kafka = _client_settings(values, is_exactly_once=is_exactly_once)
        if values.required(SINGLE_TRANSACTION) and not is_exactly_once:
            raise InvalidOption(f"singleTransaction needs deliveryGuarantee={EXACTLY_ONCE}")
        _check_names(values, streaming=streaming, is_exactly_once=is_exactly_once)
        is_finished_later = streaming or BATCH_ID in values
        return cls(
            streaming=streaming,
            topic=values.get(TOPIC),
            is_exactly_once=is_exactly_once,
            transactional_id_prefix=values.required(TRANSACTIONAL_ID_PREFIX),
            single_transaction=values.required(SINGLE_TRANSACTION),
            marker_topic=values.required(MARKER_TOPIC),
            transaction_timeout_ms=_transaction_timeout_ms(
                values, kafka, is_finished_later=is_exactly_once and is_finished_later
            ),
            job_name=values.get(JOB_NAME),
            batch_id=values.get(BATCH_ID),
            include_headers=values.required(INCLUDE_HEADERS),
            include_timestamp=values.required(INCLUDE_TIMESTAMP),
            formats=_formats(values),
            kafka=kafka,
        )

    def client_settings(self, kind: SinkClientKind) -> dict[str, object]:
        """The settings of a client of that kind: the kafka.* options that it knows, and ours."""
        known = _known(kind)
        chosen: dict[str, object] = {name: value for name, value in self.kafka.items() if name in known}
        chosen.update(self.login)
        chosen.setdefault("client.id", f"{self.transactional_id_prefix}-{'sink' if kind == 'producer' else 'driver'}")
        chosen.setdefault("retry.backoff.ms", RETRY_BACKOFF_MS)
        if kind == "producer":
            chosen.setdefault("batch.size", BATCH_BYTES)
        return chosen

    def transaction_settings(self, transactional_id: str) -> dict[str, object]:
        """The settings of the producer of a task that writes in a transaction."""
        return {
            **self.client_settings("producer"),
            "transactional.id": transactional_id,
            TRANSACTION_TIMEOUT: self.transaction_timeout_ms,
        }


def _formats(values: OptionValues) -> dict[str, SinkFormat]:
    url = values.get(SCHEMA_REGISTRY_URL)
    made = {
        "key": SinkFormat(values.required(KEY_FORMAT), values.get(KEY_SCHEMA), values.get(KEY_MESSAGE), url),
        "value": SinkFormat(values.required(VALUE_FORMAT), values.get(VALUE_SCHEMA), values.get(VALUE_MESSAGE), url),
    }
    for side, chosen in made.items():
        if chosen.name != "binary" and url is None:
            raise InvalidOption(f"{side}Format={chosen.name} needs schemaRegistryUrl: where its schemas are")
    return made


@cache
def _known(kind: SinkClientKind) -> frozenset[str]:
    return names_of({"admin": AdminSettings, "consumer": ConsumerSettings, "producer": ProducerSettings}[kind])


def _client_settings(values: OptionValues, *, is_exactly_once: bool) -> dict[str, str]:
    kafka = values.client_settings()
    for name in kafka:
        if name in REFUSED_SETTINGS:
            raise InvalidOption(f"kafka.{name} cannot be set: {REFUSED_SETTINGS[name]}")
    if not kafka.get("bootstrap.servers", "").strip():
        raise InvalidOption("kafka.bootstrap.servers is missing; it must be one or more host:port of brokers")
    if is_exactly_once and kafka.get("acks", "all") not in ("all", "-1"):
        raise InvalidOption(
            f"kafka.acks={kafka['acks']} cannot be had with deliveryGuarantee={EXACTLY_ONCE}, which waits for all"
            f" replicas; leave it out, or write with deliveryGuarantee={AT_LEAST_ONCE}"
        )
    trial: dict[str, object] = {name: value for name, value in kafka.items() if name in _known("producer")}
    odd = sorted(kafka.keys() - trial.keys() - _known("admin"))
    if odd:
        raise InvalidOption(f"there is no setting {odd[0]!r} of producers; look at kafka.{odd[0]}")
    try:
        # With an id, so that what cannot be had together with transactions is refused here.
        ProducerSettings({**trial, "transactional.id": "any"} if is_exactly_once else trial)
    except InvalidConfig as problem:
        raise InvalidOption(f"kafka.* settings: {problem}") from None
    return kafka


def _check_names(values: OptionValues, *, streaming: bool, is_exactly_once: bool) -> None:
    named = [option.name for option in (JOB_NAME, BATCH_ID) if option in values]
    if named and streaming:
        raise InvalidOption(f"{named[0]} is for df.write; a stream is known by its checkpoint and numbers its batches")
    if named and not is_exactly_once:
        raise InvalidOption(f"{named[0]} needs deliveryGuarantee={EXACTLY_ONCE}")
    if BATCH_ID in values and JOB_NAME not in values:
        raise InvalidOption("batchId needs jobName: which job's batches does it count?")


def _transaction_timeout_ms(values: OptionValues, kafka: Mapping[str, str], *, is_finished_later: bool) -> int:
    default_ms = TRANSACTION_TIMEOUT_MS if is_finished_later else BATCH_TIMEOUT_MS
    timeout_ms = int(kafka.get(TRANSACTION_TIMEOUT, default_ms))
    recovery_ms = values.required(DRIVER_RECOVERY)
    if is_finished_later and timeout_ms <= recovery_ms:
        raise InvalidOption(
            f"kafka.{TRANSACTION_TIMEOUT}={timeout_ms} is not longer than driverRecovery={recovery_ms}ms: what tasks"
            " wrote could be lost before a restarted driver commits it. Raise the one, or lower the other if a restart"
            " is quicker"
        )
    return timeout_ms
