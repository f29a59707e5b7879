"""The table of the source's options: name, default, which query it is for, a sentence; and how its texts are read.

Names, defaults and meaning are those of Spark's Kafka connector. Ours besides: startingGroupId, maxBytesPerTrigger,
maxTimePerTrigger, commitGroupId, isolationLevel, and what keys and values become (keyFormat, valueFormat and theirs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.light_dataclasses import dataclass
from ottla.spark.option_table import (
    Option,
    Where,
    json_object,
    milliseconds,
    one_of,
    size_bytes,
    text,
    truth,
    whole,
)
from ottla.values import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
PARTITION_MAX: Final = 2**31 - 1


# --- values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Topics:
    """Which partitions are read: all of some topics, all of topics whose whole name a pattern matches, or these."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] | None = None

    def matches(self, topic: str) -> bool:
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.names

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern={self.pattern}"
        if self.assigned is not None:
            return f"assign={', '.join(map(str, self.assigned))}"
        return f"subscribe={','.join(self.names)}"


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: exactly one of these is set."""

    place: int | None = None
    """EARLIEST or LATEST, for every partition."""
    offsets: Mapping[TopicPartition, int] | None = None
    """One by one; EARLIEST and LATEST may stand there too."""
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] | None = None


# --- how the texts of the source are read ----------------------------------------------------------------------------


def _topics(value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not names:
        raise ValueError("a list of topics with commas between them")
    return names


def _pattern(value: str) -> str:
    try:
        re.compile(text(value))
    except re.error as problem:
        raise ValueError(f"a regular expression ({problem})") from None
    return value


def _partition(value: object) -> int:
    written = str(value)
    if isinstance(value, bool) or not written.isdecimal() or int(written) > PARTITION_MAX:
        raise ValueError("JSON with numbers of partitions, 0 or more")
    return int(written)


def _assigned(value: str) -> tuple[TopicPartition, ...]:
    wanted = 'JSON with a list of partitions for each topic, such as {"clicks": [0, 1]}'
    found = json_object(value)
    if not all(isinstance(partitions, list) for partitions in found.values()):
        raise ValueError(wanted)
    pairs = {TopicPartition(topic, _partition(each)) for topic, partitions in found.items() for each in partitions}
    if not pairs:
        raise ValueError(wanted)
    return tuple(sorted(pairs))


def _by_partition(value: str) -> dict[TopicPartition, int]:
    wanted = 'JSON with a number for each partition, such as {"clicks": {"0": 23, "1": -2}}'
    found: dict[TopicPartition, int] = {}
    for topic, partitions in json_object(value).items():
        if not isinstance(partitions, dict):
            raise ValueError(wanted)
        for partition, number in partitions.items():
            if not isinstance(number, int) or isinstance(number, bool) or not EARLIEST <= number < 2**63:
                raise ValueError(wanted)
            found[TopicPartition(topic, _partition(partition))] = number
    if not found:
        raise ValueError(wanted)
    return found


def _times(value: str) -> dict[TopicPartition, int]:
    found = _by_partition(value)
    if any(each < 0 for each in found.values()):
        raise ValueError("JSON with a time in milliseconds, 0 or more, for each partition")
    return found


def _offsets(value: str) -> Bound:
    if value.lower() in ("earliest", "latest"):
        return Bound(place=EARLIEST if value.lower() == "earliest" else LATEST)
    if not value.startswith("{"):
        raise ValueError('earliest, latest, or JSON such as {"clicks": {"0": 23, "1": -2}}')
    return Bound(offsets=_by_partition(value))


# --- the table -------------------------------------------------------------------------------------------------------

READ, STREAM, BATCH, BOTH = Where.READ, Where.STREAM, Where.BATCH, Where.BOTH

SUBSCRIBE = Option("subscribe", _topics, None, READ, "The topics to read, with commas between them.")
SUBSCRIBE_PATTERN = Option(
    "subscribePattern", _pattern, None, READ, "A regular expression; topics whose whole name it matches are read."
)
ASSIGN = Option("assign", _assigned, None, READ, 'These partitions only, as JSON: {"clicks": [0, 1]}.')
STARTING_TIMESTAMP = Option(
    "startingTimestamp", whole(0), None, READ, "Begin with the first record of this time or later (milliseconds)."
)
STARTING_OFFSETS_BY_TIMESTAMP = Option(
    "startingOffsetsByTimestamp", _times, None, READ, "The same with a time for each partition, as JSON."
)
STARTING_OFFSETS = Option(
    "startingOffsets",
    _offsets,
    None,
    READ,
    "Where a new query begins: earliest, latest (streams only), or offsets as JSON; -2 is earliest, -1 latest. "
    "A query that is started again goes on where its checkpoint says.",
    default_text="latest (stream), earliest (batch)",
)
STARTING_STRATEGY = Option(
    "startingOffsetsByTimestampStrategy",
    one_of("error", "latest"),
    "error",
    READ,
    "What to do when no record is as late as the starting time: fail, or begin at the end.",
)
STARTING_GROUP_ID = Option(
    "startingGroupId",
    text,
    None,
    READ,
    "Begin where this consumer group has committed; partitions without a commit begin as the other options say.",
)
ENDING_TIMESTAMP = Option(
    "endingTimestamp", whole(0), None, BATCH, "End before the first record of this time or later (milliseconds)."
)
ENDING_OFFSETS_BY_TIMESTAMP = Option(
    "endingOffsetsByTimestamp", _times, None, BATCH, "The same with a time for each partition, as JSON."
)
ENDING_OFFSETS = Option(
    "endingOffsets",
    _offsets,
    None,
    BATCH,
    "Where a batch ends: latest, or offsets as JSON (the record at that offset is not read); -1 is latest.",
    default_text="latest",
)
FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss",
    truth,
    True,
    READ,
    "Whether a query fails when records that it had to read are gone; false goes on with a warning.",
)
POLL_TIMEOUT = Option(
    "kafkaConsumer.pollTimeoutMs",
    whole(1),
    120_000,
    READ,
    "How long a task waits for the next records before it fails.",
)
NUM_RETRIES = Option(
    "fetchOffset.numRetries", whole(0, 1000), 3, READ, "How often a question about offsets is asked again."
)
RETRY_INTERVAL = Option(
    "fetchOffset.retryIntervalMs", whole(0), 10, READ, "How long to wait before it is asked again (milliseconds)."
)
PARTITION_CACHE = Option(
    "partition.metadata.cache.ttl.ms",
    whole(-1),
    -1,
    READ,
    "For so long the list of partitions is believed before it is asked for again; -1 asks for every batch.",
)
MAX_OFFSETS = Option(
    "maxOffsetsPerTrigger",
    whole(1),
    None,
    STREAM,
    "A batch has at most so many offsets, shared among partitions by what waits in each; each gets at least one.",
)
MIN_OFFSETS = Option(
    "minOffsetsPerTrigger", whole(1), None, STREAM, "A batch waits until there are so many new offsets."
)
MAX_DELAY = Option(
    "maxTriggerDelay", milliseconds, 900_000, STREAM, "It waits for minOffsetsPerTrigger no longer than this.", "15m"
)
MAX_BYTES = Option(
    "maxBytesPerTrigger",
    size_bytes,
    None,
    STREAM,
    "A batch has about so many bytes of keys, values and headers, by the mean size of the next records of each topic.",
)
MAX_TIME = Option(
    "maxTimePerTrigger",
    milliseconds,
    None,
    STREAM,
    "A batch is made so small that it takes about this long, by how fast the batches before it were.",
    "5m, unless maxOffsetsPerTrigger or maxBytesPerTrigger is set",
)
MAX_TIME_MS: Final = 300_000
"""A third of the time that a transaction of the sink may stay open, so that a batch that grows still fits."""
MIN_PARTITIONS = Option(
    "minPartitions", whole(1, 1_000_000), None, READ, "At least so many tasks read a batch; large partitions are split."
)
MAX_RECORDS = Option("maxRecordsPerPartition", whole(1), None, READ, "A task reads at most so many offsets.")
GROUP_ID_PREFIX = Option(
    "groupIdPrefix",
    text,
    None,
    READ,
    "The name of our clients (client.id) in logs and quotas of the brokers begins with it. No group is joined.",
    default_text="spark-kafka-source (stream), spark-kafka-relation (batch)",
)
COMMIT_GROUP_ID = Option(
    "commitGroupId", text, None, STREAM, "Offsets of finished batches are committed to this consumer group."
)
ISOLATION_LEVEL = Option(
    "isolationLevel",
    one_of("read_uncommitted", "read_committed"),
    None,
    READ,
    "Whether records of open and aborted transactions are read; the same as kafka.isolation.level.",
    default_text="read_uncommitted",
)
INCLUDE_HEADERS = Option("includeHeaders", truth, False, BOTH, "Whether rows have a column with the headers.")
FORMATS = ("binary", "string", "json", "avro", "protobuf")
KEY_FORMAT = Option("keyFormat", one_of(*FORMATS), "binary", READ, f"What keys become: {', '.join(FORMATS)}.")
VALUE_FORMAT = Option("valueFormat", one_of(*FORMATS), "binary", READ, f"What values become: {', '.join(FORMATS)}.")
KEY_SCHEMA = Option(
    "keySchema",
    text,
    None,
    READ,
    "The schema of keys: DDL or JSON for json, Avro's JSON for avro, a .proto text for protobuf.",
)
VALUE_SCHEMA = Option("valueSchema", text, None, READ, "The same for values; avro and protobuf may name a file too.")
KEY_MESSAGE = Option("keyMessage", text, None, READ, "Which message keys are, for protobuf; without it the first one.")
VALUE_MESSAGE = Option("valueMessage", text, None, READ, "The same for values.")
QUICK_JSON = Option(
    "quickJson",
    text,
    None,
    READ,
    "A schema of JSON objects; adds the column `quickJson`: what can be read at once as `from_json` reads it, NULL for "
    "the rest. `coalesce(quickJson, from_json(...))` is `from_json`, but faster.",
)
SCHEMA_REGISTRY_URL = Option(
    "schemaRegistryUrl",
    text,
    None,
    READ,
    "Where the schemas of avro, json and protobuf records are; they carry the number of theirs.",
)
BAD_RECORDS = Option(
    "badRecords",
    one_of("fail", "null"),
    "fail",
    READ,
    "What to do with a record that is not of its format: fail, or make the column NULL.",
)

SOURCE_OPTIONS: Final[tuple[Option[Any], ...]] = tuple(
    each for each in list(globals().values()) if isinstance(each, Option)
)
"""Every option of the source, in the order of this file; docs/spark.md is made from it."""
