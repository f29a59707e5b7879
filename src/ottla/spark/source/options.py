"""The options of the source: Spark's Kafka connector's by name, default and meaning, and ours besides.

    options = SourceOptions.parse({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"}, streaming=True)

1. Everything is checked before a query begins; an error says which option is wrong and what to write instead.
2. What only one kind of query can do is refused in the other (an end in a stream, `latest` as the start of a batch).
   Limits per trigger are passed over in a batch with one warning, as the connector does.
3. Neither repr nor an error shows client settings or the address of a schema registry: they may hold secrets.
4. -1 stands for latest and -2 for earliest where offsets are listed one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from ottla.client.admin.settings import AdminSettings
from ottla.client.consumer.settings import ConsumerSettings
from ottla.errors import InvalidConfig
from ottla.light_dataclasses import dataclass, field
from ottla.spark.option_table import InvalidOption, Option, OptionValues, names_of
from ottla.spark.source import option_rows as table
from ottla.spark.source.option_rows import EARLIEST, LATEST, SOURCE_OPTIONS, Bound, Topics
from ottla.values import TopicPartition

log = logging.getLogger(__name__)

ClientKind: TypeAlias = Literal["admin", "consumer"]
IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]


_IN_A_STREAM_REFUSED: Final = (table.ENDING_TIMESTAMP, table.ENDING_OFFSETS_BY_TIMESTAMP, table.ENDING_OFFSETS)
_IN_A_BATCH_PASSED_OVER: Final = (
    table.MAX_OFFSETS,
    table.MIN_OFFSETS,
    table.MAX_DELAY,
    table.MAX_BYTES,
    table.MAX_TIME,
    table.COMMIT_GROUP_ID,
)

REFUSED_SETTINGS: Final[Mapping[str, str]] = {
    "auto.offset.reset": "where to begin is said by startingOffsets",
    "key.deserializer": "keys come as binary; say keyFormat, or cast the column",
    "value.deserializer": "values come as binary; say valueFormat, or cast the column",
    "key.serializer": "it is a setting of producers",
    "value.serializer": "it is a setting of producers",
    "enable.auto.commit": "offsets are kept in Spark's checkpoint; commitGroupId commits them to a group besides",
    "interceptor.classes": "an interceptor may change records; change them in the query",
}


# --- the options of one query ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a query, checked."""

    streaming: bool
    topics: Topics
    starting: Bound
    ending: Bound
    timestamp_strategy: str = "error"
    starting_group_id: str | None = None
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    retry_limit: int = 3
    retry_interval_ms: int = 10
    partition_cache_ms: int = -1
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    max_bytes_per_trigger: int | None = None
    max_time_per_trigger_ms: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    group_id_prefix: str = "spark-kafka-source"
    commit_group_id: str | None = None
    isolation_level: str = "read_uncommitted"
    include_headers: bool = False
    key_format: str = "binary"
    value_format: str = "binary"
    key_schema: str | None = None
    value_schema: str | None = None
    key_message: str | None = None
    value_message: str | None = None
    quick_json: str | None = None
    schema_registry_url: str | None = field(default=None, repr=False)
    bad_records: str = "fail"
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings that log a client in with a token (tokens/handout.py); nothing where `kafka` says how."""

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
        """The options of a stream or a batch; None checks what counts for both, when it is not known yet which."""
        values = OptionValues.checked(options, SOURCE_OPTIONS)
        is_stream = bool(streaming)
        starting, ending = _starting(values, streaming), _ending(values)
        _check_modes(values, streaming)
        kafka = _client_settings(values)
        prefix = "spark-kafka-source" if is_stream else "spark-kafka-relation"
        parsed = cls(
            streaming=is_stream,
            topics=_chosen_topics(values),
            starting=starting,
            ending=ending,
            timestamp_strategy=values.required(table.STARTING_STRATEGY),
            starting_group_id=values.get(table.STARTING_GROUP_ID),
            fail_on_data_loss=values.required(table.FAIL_ON_DATA_LOSS),
            poll_timeout_ms=values.required(table.POLL_TIMEOUT),
            retry_limit=values.required(table.NUM_RETRIES),
            retry_interval_ms=values.required(table.RETRY_INTERVAL),
            partition_cache_ms=values.required(table.PARTITION_CACHE),
            max_offsets_per_trigger=values.get(table.MAX_OFFSETS),
            min_offsets_per_trigger=values.get(table.MIN_OFFSETS),
            max_trigger_delay_ms=values.required(table.MAX_DELAY),
            max_bytes_per_trigger=values.get(table.MAX_BYTES),
            max_time_per_trigger_ms=_max_time_ms(values) if is_stream else None,
            min_partitions=values.get(table.MIN_PARTITIONS),
            max_records_per_partition=values.get(table.MAX_RECORDS),
            group_id_prefix=kafka.get("group.id") or values.get(table.GROUP_ID_PREFIX) or prefix,
            commit_group_id=values.get(table.COMMIT_GROUP_ID),
            isolation_level=_isolation(values, kafka),
            include_headers=values.required(table.INCLUDE_HEADERS),
            key_format=values.required(table.KEY_FORMAT),
            value_format=values.required(table.VALUE_FORMAT),
            key_schema=values.get(table.KEY_SCHEMA),
            value_schema=values.get(table.VALUE_SCHEMA),
            key_message=values.get(table.KEY_MESSAGE),
            value_message=values.get(table.VALUE_MESSAGE),
            quick_json=values.get(table.QUICK_JSON),
            schema_registry_url=values.get(table.SCHEMA_REGISTRY_URL),
            bad_records=values.required(table.BAD_RECORDS),
            kafka=kafka,
        )
        _check_together(parsed)
        return parsed

    def client_settings(self, kind: ClientKind) -> dict[str, object]:
        """The settings of a client of that kind: the kafka.* options that it knows, and ours."""
        known = _known(kind)
        chosen: dict[str, object] = {name: value for name, value in self.kafka.items() if name in known}
        chosen.update(self.login)
        chosen.setdefault("client.id", f"{self.group_id_prefix}-{'driver' if kind == 'admin' else 'executor'}")
        if kind == "consumer":
            chosen["isolation.level"] = self.isolation_level
            chosen["allow.auto.create.topics"] = "false"
            chosen["enable.auto.commit"] = "false"
            chosen["auto.offset.reset"] = "none"
        return chosen


def _max_time_ms(values: OptionValues) -> int | None:
    """A stream that nobody limits has a limit: its first batch could be all that the topics have."""
    is_limited = table.MAX_OFFSETS in values or table.MAX_BYTES in values
    return values.get(table.MAX_TIME) or (None if is_limited else table.MAX_TIME_MS)


@cache
def _known(kind: ClientKind) -> frozenset[str]:
    return names_of(AdminSettings if kind == "admin" else ConsumerSettings)


def _chosen_topics(values: OptionValues) -> Topics:
    choices = [option for option in (table.SUBSCRIBE, table.SUBSCRIBE_PATTERN, table.ASSIGN) if option in values]
    if len(choices) != 1:
        names = "subscribe, subscribePattern and assign"
        found = f"{' and '.join(each.name for each in choices)} are given" if choices else "none is given"
        raise InvalidOption(f"exactly one of {names} says what to read, and {found}")
    assigned = values.get(table.ASSIGN)
    topics = values.get(table.SUBSCRIBE) or tuple(dict.fromkeys(each.topic for each in assigned or ()))
    return Topics(topics, values.get(table.SUBSCRIBE_PATTERN), assigned)


def _bound(
    values: OptionValues, timestamp: Option[int], by_time: Option[Any], offsets: Option[Bound], default: int
) -> Bound:
    """One time for all wins over times for each, and these over offsets, as in the connector."""
    if (moment := values.get(timestamp)) is not None:
        return Bound(timestamp_ms=moment)
    if (times := values.get(by_time)) is not None:
        return Bound(timestamps_ms=times)
    return values.get(offsets) or Bound(place=default)


def _starting(values: OptionValues, streaming: bool | None) -> Bound:
    default = LATEST if streaming else EARLIEST
    bound = _bound(
        values, table.STARTING_TIMESTAMP, table.STARTING_OFFSETS_BY_TIMESTAMP, table.STARTING_OFFSETS, default
    )
    latest = [str(each) for each, offset in (bound.offsets or {}).items() if offset == LATEST]
    if streaming is False and (bound.place == LATEST or latest):
        where = f" for {', '.join(latest)}" if latest else ""
        raise InvalidOption(f"startingOffsets cannot be latest{where} in a batch: nothing would be left to read")
    return bound


def _ending(values: OptionValues) -> Bound:
    bound = _bound(values, table.ENDING_TIMESTAMP, table.ENDING_OFFSETS_BY_TIMESTAMP, table.ENDING_OFFSETS, LATEST)
    earliest = [str(each) for each, offset in (bound.offsets or {}).items() if offset == EARLIEST]
    if bound.place == EARLIEST or earliest:
        where = f" for {', '.join(earliest)}" if earliest else ""
        raise InvalidOption(f"endingOffsets cannot be earliest{where}: nothing would be left to read")
    return bound


def _check_modes(values: OptionValues, streaming: bool | None) -> None:
    refused = [each.name for each in _IN_A_STREAM_REFUSED if each in values]
    if streaming and refused:
        raise InvalidOption(f"a stream has no end, so {' and '.join(refused)} cannot be given")
    passed_over = [each.name for each in _IN_A_BATCH_PASSED_OVER if each in values]
    if streaming is False and passed_over:
        log.warning("%s count only in a streaming query and are passed over in this batch", ", ".join(passed_over))
    if values.texts.get("kafka.group.id") and table.GROUP_ID_PREFIX in values:
        log.warning("groupIdPrefix is passed over because kafka.group.id is given")


def _client_settings(values: OptionValues) -> dict[str, str]:
    kafka = values.client_settings()
    for name in kafka:
        if name in REFUSED_SETTINGS:
            raise InvalidOption(f"kafka.{name} cannot be set: {REFUSED_SETTINGS[name]}")
    if not kafka.get("bootstrap.servers", "").strip():
        raise InvalidOption("kafka.bootstrap.servers is missing; it must be one or more host:port of brokers")
    try:
        # Names of both kinds of client are the consumer's: it has all that the admin client has.
        ConsumerSettings(kafka)
    except InvalidConfig as problem:
        raise InvalidOption(f"kafka.* settings: {problem}") from None
    return kafka


def _isolation(values: OptionValues, kafka: Mapping[str, str]) -> str:
    ours, theirs = values.get(table.ISOLATION_LEVEL), kafka.get("isolation.level")
    if ours is not None and theirs is not None and ours != theirs:
        raise InvalidOption(f"isolationLevel={ours} and kafka.isolation.level={theirs} differ; give one of them")
    return ours or theirs or "read_uncommitted"


def _check_together(options: SourceOptions) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise InvalidOption(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    _check_order("Offsets", options.starting.offsets, options.ending.offsets)
    _check_order("OffsetsByTimestamp", options.starting.timestamps_ms, options.ending.timestamps_ms)
    begin_ms, end_ms = options.starting.timestamp_ms, options.ending.timestamp_ms
    if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
        raise InvalidOption(f"startingTimestamp={begin_ms} is later than endingTimestamp={end_ms}")


def _check_order(
    what: str, begins: Mapping[TopicPartition, int] | None, ends: Mapping[TopicPartition, int] | None
) -> None:
    if begins is None or ends is None:
        return
    if begins.keys() != ends.keys():
        odd = ", ".join(str(each) for each in sorted(begins.keys() ^ ends.keys()))
        raise InvalidOption(f"starting{what} and ending{what} must name the same partitions; only one has {odd}")
    for partition, begin in begins.items():
        if 0 <= ends[partition] < begin:
            raise InvalidOption(f"starting{what} of {partition} is {begin}, after its end {ends[partition]}")
