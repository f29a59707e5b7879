"""The settings of a topic that is kept as a table: declared once, for brokers, for the worker, and for its command.

    ottla topic alter clicks -c ottla.table.mode=json -c ottla.table.location=/lake/{topic}

1. A broker knows them as settings of topics, and under the same names as its own defaults for all topics. It does
   nothing else with them: a worker (`ottla table run`) reads them with DescribeConfigs.
2. At a broker that does not know them (Apache Kafka) the command has them as options, under the same names.
3. A location may hold {topic}, so that one default serves many topics. It is the directory of the table itself.
4. Nothing in here is a secret: credentials come by the chains of the cloud libraries, where the worker runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Self

from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple
from ottla.settings import LONG, Settings, setting

PREFIX: Final = "ottla.table."
OFF: Final = "off"
RAW: Final = "raw"
STRING: Final = "string"
JSON: Final = "json"
SCHEMA_ID: Final = "schema_id"
SCHEMA_LATEST: Final = "schema_latest"
MODES: Final = (RAW, STRING, JSON, SCHEMA_ID, SCHEMA_LATEST)
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
DEAD_LETTERS: Final = "dead_letters"
SKIP: Final = "skip"
STOP: Final = "stop"
REPORT: Final = "report"
TOPIC: Final = "{topic}"
DEAD_LETTERS_SUFFIX: Final = "-dead-letters"
IDENTITY: Final = "identity"
BUCKET: Final = "bucket"
TRANSFORMS: Final = ("year", "month", "day", "hour")
BUCKETS_MAX: Final = 10_000
FIELDS_MAX: Final = 4


class PartitionField(NamedTuple):
    """One part of how a table is partitioned; `buckets` is 0 for all but bucket."""

    transform: str
    column: str
    buckets: int = 0

    def __str__(self) -> str:
        if self.transform == IDENTITY:
            return self.column
        return f"{self.transform}({f'{self.buckets}, ' if self.buckets else ''}{self.column})"


_FIELD: Final = re.compile(
    r"\s*(?:(?P<transform>year|month|day|hour)\s*\(\s*(?P<column>[\w.-]+)\s*\)"
    r"|bucket\s*\(\s*(?P<buckets>[0-9]{1,5})\s*,\s*(?P<hashed>[\w.-]+)\s*\)"
    r"|(?P<plain>[\w.-]+))\s*(?:,|$)"
)


def partition_fields(text: str) -> tuple[PartitionField, ...]:
    """What `day(timestamp), bucket(16, key), country` says; ValueError with a sentence when it says nothing."""
    found, position = [], 0
    while position < len(text.rstrip()):
        match = _FIELD.match(text, position)
        if match is None:
            raise ValueError(
                f"{text[position:].strip()[:60]!r} is no part of a table; write a column, day(timestamp) "
                f"(also {', '.join(each for each in TRANSFORMS if each != 'day')}) or bucket(16, key), with commas"
            )
        found.append(_field(match))
        position = match.end()
    if len(found) > FIELDS_MAX:
        raise ValueError(f"a table is partitioned by {FIELDS_MAX} fields at most, and these are {len(found)}")
    if len(set(found)) < len(found):
        raise ValueError("a field comes twice")
    return tuple(found)


def _field(match: re.Match[str]) -> PartitionField:
    if match["plain"]:
        return PartitionField(IDENTITY, match["plain"])
    if match["transform"]:
        return PartitionField(match["transform"], match["column"])
    buckets = int(match["buckets"])
    if not 1 <= buckets <= BUCKETS_MAX:
        raise ValueError(f"a table has 1 to {BUCKETS_MAX} buckets, not {buckets}")
    return PartitionField(BUCKET, match["hashed"], buckets)


def _partition_problem(text: str) -> str | None:
    try:
        partition_fields(text)
    except ValueError as error:
        return str(error)
    return None


def _location_problem(value: str | None) -> str | None:
    if value is None or value.strip() == value != "":
        return None
    return "it is a directory (/lake/{topic}) or an address (s3://bucket/lake/{topic}), without spaces around it"


class TableSettings(Settings):
    """What a topic says about its table."""

    ottla_table_mode = setting(
        "ottla.table.mode",
        str,
        default=OFF,
        one_of=(OFF, *MODES),
        dynamic="cluster-wide",
        doc="Whether the topic is kept as a table, and how its values become columns: raw (bytes), string, json (the "
        "fields of objects), schema_id (by the schema that each record names), schema_latest (by the newest one).",
    )
    ottla_table_key_mode = setting(
        "ottla.table.key.mode",
        str,
        default=RAW,
        one_of=MODES,
        dynamic="cluster-wide",
        doc="How keys become the column key of the table: as ottla.table.mode says of values.",
    )
    ottla_table_format = setting(
        "ottla.table.format",
        str,
        default=DELTA,
        one_of=(DELTA, ICEBERG),
        dynamic="cluster-wide",
        doc="The format of the table. It is chosen once: a table of another one needs another location.",
    )
    ottla_table_location = setting(
        "ottla.table.location",
        str,
        default=None,
        check=_location_problem,
        dynamic="cluster-wide",
        doc="The directory of the table: a path, or an address such as s3://bucket/lake/{topic}; {topic} is the name "
        "of the topic.",
    )
    ottla_table_catalog = setting(
        "ottla.table.catalog",
        str,
        default=None,
        dynamic="cluster-wide",
        doc="For Iceberg: the catalog that has the table. An address (sqlite:///lake/catalog.db, https://catalog/), or "
        "the name of one in the worker's own .pyiceberg.yaml; by default catalog.db beside a local table.",
    )
    ottla_table_namespace = setting(
        "ottla.table.namespace",
        str,
        default="ottla",
        dynamic="cluster-wide",
        doc="For Iceberg: the namespace of the catalog in which the table has the topic's name.",
    )
    ottla_table_partition_by = setting(
        "ottla.table.partition.by",
        str,
        default="",
        check=_partition_problem,
        dynamic="cluster-wide",
        doc="How a new table is partitioned: columns, day(timestamp) (or year, month, hour) and bucket(16, key).",
    )
    ottla_table_lag_ms = setting(
        "ottla.table.lag.ms",
        LONG,
        default=60_000,
        at_least=1,
        unit="ms",
        dynamic="cluster-wide",
        doc="How long a record waits at most before a commit has it; short makes many small files.",
    )
    ottla_table_commit_bytes = setting(
        "ottla.table.commit.bytes",
        LONG,
        default=134_217_728,
        at_least=1,
        unit="bytes",
        dynamic="cluster-wide",
        doc="So much is committed at once, without waiting any longer; it bounds the commits of a back-fill.",
    )
    ottla_table_invalid = setting(
        "ottla.table.invalid",
        str,
        default=DEAD_LETTERS,
        one_of=(DEAD_LETTERS, SKIP, STOP),
        dynamic="cluster-wide",
        doc="What becomes of a record that is no row of the table: a record of the topic of dead letters with the "
        "reason, nothing but a line in the log, or the end of the table's work until a person has looked.",
    )
    ottla_table_dead_letters_topic = setting(
        "ottla.table.dead.letters.topic",
        str,
        default=None,
        dynamic="cluster-wide",
        doc="The topic of dead letters; the topic's name with -dead-letters behind it by default.",
    )
    ottla_table_gaps = setting(
        "ottla.table.gaps",
        str,
        default=REPORT,
        one_of=(REPORT, STOP),
        dynamic="cluster-wide",
        doc="What happens when records were deleted before the table had them: it is told in the log and in the "
        "commit, or the table stops.",
    )
    ottla_table_upkeep_ms = setting(
        "ottla.table.upkeep.ms",
        LONG,
        default=600_000,
        at_least=1,
        unit="ms",
        dynamic="cluster-wide",
        doc="How often small files are made one, old versions are given up and what killed writers left is deleted.",
    )
    ottla_table_file_bytes = setting(
        "ottla.table.file.bytes",
        LONG,
        default=134_217_728,
        at_least=1,
        unit="bytes",
        dynamic="cluster-wide",
        doc="How large files become when small ones are made one.",
    )
    ottla_table_retention_ms = setting(
        "ottla.table.retention.ms",
        LONG,
        default=7 * 24 * 3_600_000,
        at_least=1,
        unit="ms",
        dynamic="cluster-wide",
        doc="How long old versions of the table can be read; its rows stay.",
    )

    @classmethod
    def of(cls, values: Mapping[str, str | None]) -> Self:
        """Those of a topic, among all its settings as DescribeConfigs has them."""
        names = {each.name for each in TableSettings.declared()}
        return cls({name: value for name, value in values.items() if name in names and value not in (None, "")})

    def location_of(self, topic: str) -> str:
        """Where the table of this topic is; InvalidSetting when nothing says it."""
        if self.ottla_table_location is None:
            raise InvalidSetting(
                f"nothing says where the table of {topic} is to be: set ottla.table.location of the topic, or of the "
                "brokers for all topics, such as /lake/{topic} or s3://bucket/lake/{topic}"
            )
        return self.ottla_table_location.replace(TOPIC, topic).rstrip("/")

    def dead_letters_of(self, topic: str) -> str:
        """The topic of dead letters."""
        return self.ottla_table_dead_letters_topic or f"{topic}{DEAD_LETTERS_SUFFIX}"

    @property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        return partition_fields(self.ottla_table_partition_by)
