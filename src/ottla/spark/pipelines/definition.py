"""What a pipeline is made of: the words of its file, each with its sentence. This is the only place where they stand.

A YAML file and a Python file give the same values:

    name: clicks                                      pipeline = Pipeline(
    sources:                                              name="clicks",
      clicks: {topic: clicks, format: json, ...}          sources={"clicks": Source(topic="clicks", ...)},
    steps:                                                steps={"valid": Step(sql="SELECT ...")},
      valid: {sql: SELECT ...}                            sinks={"out": Sink(from_="valid", topic="valid")},
    sinks:                                            )
      out: {from: valid, topic: valid}

1. A word is a field; `from` is written `from_` in Python. Its sentence is the field's "doc": the reader's errors,
   `ottla pipeline words` and docs/pipelines.md take it from here.
2. Nothing here knows Spark. What belongs together (one of topic and files, a rule and its dead letters) is judged in
   checks.py.
"""

# ruff: noqa: RUF009 - word() makes a dataclass field, as dataclasses.field does
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.spark.pipelines.words import word

ACTIONS: Final = ("dead_letter", "drop", "fail")
MODES: Final = ("append", "update", "complete")
ENVELOPES: Final = ("debezium",)
LATE: Final = ("count", "dead_letter", "drop")
IN_TIME: Final = "in_time"
NEW_COLUMNS: Final = ("ignore", "drop", "keep", "stop")
DROPPED_COLUMNS: Final = "new_columns"
KNOWN_COLUMNS: Final = "known_columns"
NEW: Final = "_ottla_new"  # the names of fields that the schema does not have
HAS_NEW: Final = f"coalesce(size({NEW}) > 0, false)"
BAD_RECORDS: Final = ("dead_letter", "drop", "fail")
REGISTERED_FORMATS: Final = ("avro", "protobuf", "json_schema")
TOPIC_FORMATS: Final = ("json", "string", "binary", *REGISTERED_FORMATS)
TOPIC_SINK_FORMATS: Final = ("json", "string", *REGISTERED_FORMATS)
KEY_FORMATS: Final = ("string", "binary")
SINK_KEY_FORMATS: Final = ("string", *REGISTERED_FORMATS)
FILE_SOURCE_FORMATS: Final = ("parquet", "json", "csv", "orc", "text")
FILE_SINK_FORMATS: Final = ("parquet", "json", "csv", "orc")
TABLE_FORMATS: Final = ("parquet", "orc", "json", "csv", "delta", "iceberg")
MERGING_FORMATS: Final = ("delta", "iceberg")  # formats of tables whose rows can be replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A rule that every record must pass. It passes when the condition is true; false and NULL break the rule."""

    condition: str = word("a SQL condition on the columns", short=True)
    action: str = word(
        "what happens to a record that breaks the rule: it goes to the dead letters, is dropped, or ends the run",
        "dead_letter",
        choices=ACTIONS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """How late a record may come: windows are closed, and joined records forgotten, when this much time has passed."""

    column: str = word("the column with the time of the event")
    delay: str = word("how late it may come, as in '10 minutes'")
    late: str = word(
        "what happens to a record that came later than `delay` after its event, by its timestamp in the topic: it "
        "breaks the rule in_time and goes to the dead letters or is dropped; or it is counted, if its window is over",
        "count",
        choices=LATE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where records come from: a topic, or files."""

    topic: str | None = word("the topic; several with commas between them", None)
    topic_pattern: str | None = word("instead of topic: a regular expression that the names of topics match", None)
    files: str | None = word("instead of a topic: a directory, a file, or a pattern of files", None)
    format: str | None = word(
        "of a topic's values: json, string, binary, or by a schema: avro, protobuf, json_schema (binary when it is not "
        "said); of files: parquet, json, csv, orc or text (parquet)",
        None,
    )
    schema: str | None = word(
        "the columns, as in 'user STRING, at TIMESTAMP'; needed for json and for files. For avro and protobuf a schema "
        "to read with, or its file (.avsc, .proto). With a registry avro, protobuf and json_schema need none: the "
        "newest of the subject <topic>-value is meant",
        None,
    )
    message: str | None = word("which message of a Protobuf schema values are (the first)", None)
    registry: str | None = word("the schema registry, when it is not the pipeline's", None)
    key_format: str = word("of a topic's keys", "string", choices=KEY_FORMATS)
    headers: bool = word("whether the records' headers are wanted, as the column _headers", False)
    bad_records: str | None = word(
        "what happens to a value that cannot be read in its format (dead_letter when the pipeline has dead letters, "
        "else fail)",
        None,
        choices=BAD_RECORDS,
    )
    new_columns: str = word(
        "what happens to fields of JSON that `schema` does not name: ignore; drop them, and count the records that "
        "have some; keep them as text in the column _more, a map; or stop the run",
        "ignore",
        choices=NEW_COLUMNS,
    )
    start: str = word("where the first run begins to read: earliest, latest, or the connector's JSON", "earliest")
    group: str | None = word("a consumer group that shows how far the pipeline is; lag tools see it", None)
    static: bool = word("read it whole instead of as a stream, anew for every batch: a table to join with", False)
    table: bool = word(
        "of a topic: read it as a table to join with, anew for every batch. It has the last record of each key; one "
        "without a value deletes its key",
        False,
    )
    envelope: str | None = word(
        "what records are wrapped in: debezium (changes of a database; the columns are those of the row as it is now, "
        "with _op and _deleted)",
        None,
        choices=ENVELOPES,
    )
    watermark: Watermark | None = word("how late records may come", None)
    expect: Mapping[str, Expectation] = word("rules by name; the first that a record breaks decides", {})
    bootstrap: str | None = word("brokers of this topic's cluster, when they are not the pipeline's", None)
    options: Mapping[str, str] = word("further options of Spark's reader", {})

    @property
    def is_topic(self) -> bool:
        return self.files is None

    @property
    def is_static(self) -> bool:
        """Whether it is read whole, not as a stream."""
        return self.static or self.table

    @property
    def rules(self) -> Mapping[str, Expectation]:
        """Those of `expect`, that of new columns, and that of the watermark when late records are wanted."""
        rules = dict(self.expect)
        if self.new_columns == "stop":
            rules[KNOWN_COLUMNS] = Expectation(condition=f"NOT {HAS_NEW}", action="fail")
        if self.watermark is None or self.watermark.late == "count":
            return rules
        column = self.watermark.column.replace("`", "``")
        condition = f"`{column}` >= _timestamp - INTERVAL {self.watermark.delay.strip()}"
        return {**rules, IN_TIME: Expectation(condition=condition, action=self.watermark.late)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that is done to records: a query over sources and other steps."""

    sql: str | None = word("a SELECT; it names sources and steps as tables", None, short=True)
    from_: str | None = word("instead of sql: all columns of this source or step", None)
    python: str | Callable[..., Any] | None = word(
        "instead of sql: FILE.py:FUNCTION; its parameters are named as the sources and steps it gets, as DataFrames, "
        "and it returns a DataFrame",
        None,
    )
    unique_by: tuple[str, ...] = word(
        "columns: of rows that are the same in them only the first is kept, for as long as the watermark of what is "
        "read waits for late records",
        (),
    )
    watermark: Watermark | None = word("how late records may come", None)
    expect: Mapping[str, Expectation] = word("rules by name; the first that a record breaks decides", {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where the records of a source or step go: a topic, files, a database, or a table in a catalog."""

    from_: str = word("the source or step whose records are written")
    topic: str | None = word("the topic", None)
    mode: str = word(
        "append: every row is written once, when it is final. update: a row that is new or has changed replaces what "
        "its key had. complete: the whole result is compared with the last one; what has changed is written, and what "
        "is gone is deleted",
        "append",
        choices=MODES,
    )
    key: str | None = word("SQL for the record's key (without it records have none); of a table: its key columns", None)
    delete: str | None = word(
        "a SQL condition: such a row deletes what its key had (in a topic by a tombstone, a record without a value)",
        None,
    )
    order_by: str | None = word(
        "SQL that says which of several rows of one key in a batch is the last (`_offset`, when the rows have it)", None
    )
    value: str | None = word(
        "SQL for the record's value (all columns but those that say where a record came from, as JSON)",
        None,
    )
    headers: Mapping[str, str] = word("headers by name, each with SQL for its value", {})
    partitions: int | None = word("how many partitions a topic gets when it is not there yet", None)
    schema: str | None = word(
        "for avro, protobuf, json_schema: a schema for the values, or its file; it is registered before the first "
        "record. Without it the newest of the subject <topic>-value is used",
        None,
    )
    message: str | None = word("which message of a Protobuf schema values are (the first)", None)
    key_format: str = word("what keys are written as", "string", choices=SINK_KEY_FORMATS)
    key_schema: str | None = word("the same as schema, for keys and <topic>-key", None)
    registry: str | None = word("the schema registry, when it is not the pipeline's", None)
    files: str | None = word("instead of a topic: the directory", None)
    format: str | None = word(
        "what a topic's values are written as: json, string, or by a schema avro, protobuf, json_schema (json; string "
        "when `value` is said); of files: parquet, json, csv or orc (parquet); of a table in a catalog also delta or "
        "iceberg, which need their jar",
        None,
    )
    partition_by: tuple[str, ...] = word(
        "columns that name the subdirectories of files, or that a table is partitioned by", ()
    )
    jdbc: str | None = word("instead of a topic: the database, as jdbc:postgresql://host/name", None)
    table: str | None = word(
        "the table of the database; or without jdbc a table in a catalog of Spark, as in lake.shop.orders", None
    )
    bootstrap: str | None = word("brokers of this topic's cluster, when they are not the pipeline's", None)
    options: Mapping[str, str] = word("further options of Spark's writer", {})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Where records go that break a rule, with the rule, the reason, and where they came from."""

    topic: str | None = word("the topic; what is known of a record is in its headers", None, short=True)
    partitions: int | None = word("how many partitions the topic gets when it is not there yet", None)
    files: str | None = word("instead of a topic: a directory for Parquet, with a subdirectory for each step", None)
    bootstrap: str | None = word("brokers of the topic's cluster, when they are not the pipeline's", None)
    options: Mapping[str, str] = word("further options of Spark's writer", {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Sources, steps and sinks, and what they share."""

    name: str = word("what it is called; part of what is shown and of dead letters")
    storage: str = word("where its progress is kept, beside the file when it is relative", "storage")
    bootstrap: str | None = word(
        "brokers of the topics' cluster (the command's -b, $OTTLA_BOOTSTRAP_SERVERS, localhost:9092)", None
    )
    registry: str | None = word("the schema registry of avro, protobuf and json_schema, as http://host:8081", None)
    parameters: Mapping[str, str] = word(
        "values by name, each with its default, that stand elsewhere as ${name}; one without a default is needed: "
        "--param NAME=VALUE",
        {},
    )
    environments: Mapping[str, Mapping[str, str]] = word(
        "other values of parameters, by the name of an environment: --environment NAME", {}
    )
    traces: bool = word(
        "whether batches are spans of OpenTelemetry that link to the records' traces, which sources have as the column "
        "_traceparent",
        False,
    )
    kafka: Mapping[str, str] = word("client settings for every topic, as security.protocol", {})
    spark: Mapping[str, str] = word("settings of Spark", {})
    sources: Mapping[str, Source] = word("where records come from, by name")
    steps: Mapping[str, Step] = word("what is done to them, by name", {})
    sinks: Mapping[str, Sink] = word("where they go, by name")
    dead_letters: DeadLetters | None = word("where records go that break a rule", None)


SECTIONS: Final = (Pipeline, Source, Step, Expectation, Watermark, Sink, DeadLetters)
