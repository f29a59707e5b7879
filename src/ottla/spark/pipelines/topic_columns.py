"""From a record of a topic to the columns of its schema: as SQL, and why a value cannot be read.

    value, key, ...  ->  the schema's columns, _key, _topic, _partition, _offset, _timestamp
                         and for us: the record as it was, and _ottla_unreadable

1. _ottla_unreadable is the reason why a value is not of its format, or NULL. Only then the columns mean something.
2. JSON is what Spark's from_json reads, and exactly one object. from_json alone lets more pass, which is looked for
   here: null, nothing, bytes that are no UTF-8 and half a surrogate pair (it changes both), and text behind the object
   (it ignores that).
3. Avro, Protobuf, and JSON whose columns a registry knows are made by the connector: a value that it cannot read comes
   as NULL. JSON of a registry with columns of our choice is JSON behind the five bytes that name its schema.
4. What is plain JSON the connector reads at once, as from_json would, and nothing has to be looked for in it: the
   column quickJson (spark/formats/quick_json.py).
5. Of a topic that is a table only the last record of each key is read, before anything else: what it replaced may have
   been bad. An envelope's row comes out of it, with _op and _deleted.
6. The record as it was (bytes of key and value, headers) goes along for dead letters, and no further.

Whether something stands behind the object: the text is put into an array and into an object, and must be good JSON in
both. What stands behind it can close one of the two brackets, never both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.light_dataclasses import dataclass
from ottla.schemas.framing import FRAME_BYTES
from ottla.spark.formats.quick_json import CORRUPT_RECORD as CORRUPT
from ottla.spark.formats.quick_json import QUICK_JSON
from ottla.spark.pipelines.definition import NEW, Source
from ottla.spark.pipelines.expectations import (
    HEADERS_TYPE,
    RAW_HEADERS,
    RAW_KEY,
    RAW_VALUE,
    UNREADABLE,
    quoted,
)
from ottla.spark.pipelines.operations import Latest, Operation, Select, Where
from ottla.spark.pipelines.tracing import CONTEXT, TRACEPARENT

_PARSED: Final = "_ottla_parsed"
_IS_QUICK: Final = "_ottla_is_quick"
_ROW: Final = "_ottla_after"
MORE: Final = "_more"
_OTHER_TIMES: Final = {"spark.sql.timestampType", "spark.sql.legacy.timeParserPolicy"}
"""Settings with which Spark reads times in another way."""
_CORRUPT_OPTION: Final = f"map('columnNameOfCorruptRecord', '{CORRUPT}')"
_IN_OBJECT: Final = '{"v":'
_IN_ARRAY: Final = '{"v":['
_ESCAPES: Final = (r"\ud", r"\uD")
# An escape \ud800 to \udbff that no \udc00 to \udfff follows, or one of these that follows none.
_HALF_PAIR: Final = (
    r"(?<!\\)(?:\\\\)*(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F])"
)


@dataclass(frozen=True, slots=True)
class TopicColumns:
    """What is done to the connector's columns, and which of the results are only for us."""

    operations: tuple[Operation, ...]
    internal: tuple[str, ...]


def is_decoded(source: Source) -> bool:
    """Whether the connector makes the columns; else the value comes as bytes, and SQL does."""
    return source.format in ("avro", "protobuf") or (source.format == "json_schema" and source.schema is None)


def quick_schema(source: Source, settings: Mapping[str, str]) -> str | None:
    """What the connector is asked to read at once (its option quickJson), because from_json would read it in the same
    way; None for nothing."""
    if source.format != "json" or source.envelope is not None or source.table or _OTHER_TIMES & settings.keys():
        return None
    from ottla.spark.formats.ddl import UnreadableSchema
    from ottla.spark.formats.quick_json import quick_type

    schema = f"{source.schema}, {CORRUPT} STRING"
    try:
        quick_type(schema)
    except UnreadableSchema:  # Spark knows more types than we do
        return None
    return schema


def columns_of(source: Source, *, keep_headers: bool, traces: bool = False, is_quick: bool = False) -> TopicColumns:
    """The columns of a topic; with `keep_headers` the connector has been asked for headers, and they are kept, with
    `is_quick` for what it can read at once."""
    beside = _beside(source, keep_headers)
    if traces:
        context = CONTEXT if keep_headers else "NULL"
        beside.append(f"CAST({context} AS STRING) AS {TRACEPARENT}")
    names = tuple(column.rpartition(" ")[2] for column in beside)
    raw = (RAW_KEY, RAW_VALUE, RAW_HEADERS)
    why = unreadable_reason(source, is_quick=is_quick)
    reason = () if why is None else (f"{why} AS {UNREADABLE}",)
    for_us = raw if why is None else (*raw, UNREADABLE)
    before = _latest(source)
    if is_decoded(source) or source.format in ("json", "json_schema"):
        quick = (f"{QUICK_JSON} IS NOT NULL AS {_IS_QUICK}",) if is_quick else ()
        whole = f"coalesce({QUICK_JSON}, {_parsed(source)})" if is_quick else _parsed(source)
        parsed = Select((f"{whole} AS {_PARSED}", *quick, *beside))
        if source.envelope is not None:
            return TopicColumns((*before, parsed, *_unwrapped(source, names, reason)), for_us)
        internal = for_us if is_decoded(source) else (*for_us, CORRUPT)
        new = _new_columns(source)
        internal = (*internal, NEW) if source.new_columns in ("drop", "stop") else internal
        return TopicColumns((*before, parsed, Select((f"{_PARSED}.*", *new, *names, *reason))), internal)
    value = "CAST(value AS STRING) AS value" if source.format == "string" else "value"
    made: tuple[Operation, ...] = (*before, Select((value, *beside)))
    return TopicColumns((*made, Select(("*", *reason))) if reason else made, for_us)


def _latest(source: Source) -> tuple[Operation, ...]:
    """What happens to the records before they are read: of a table the last of each key is meant, unless it is a
    tombstone. Behind a change that deletes a row comes a tombstone, which says nothing new."""
    has_value = Where("value IS NOT NULL")
    if source.table:
        return (Latest(("topic", "key"), "offset"), has_value)
    return (has_value,) if source.envelope is not None else ()


def _parsed(source: Source) -> str:
    """SQL for the value as a struct."""
    if is_decoded(source):
        return "value"
    text, fields = _text_of(source, "value"), f"{source.schema}"
    if source.envelope is not None:
        # Kafka Connect's JSON converter puts a schema beside it, unless it is told not to (schemas.enable).
        text = f"coalesce(get_json_object({text}, '$.payload'), {text})"
        fields = f"before STRUCT<{source.schema}>, after STRUCT<{source.schema}>, op STRING"
    return f"from_json({text}, {quoted(f'{fields}, {CORRUPT} STRING')}, {_CORRUPT_OPTION})"


def _new_columns(source: Source) -> tuple[str, ...]:
    """SQL for the fields that the schema does not name: their names, or themselves."""
    if source.new_columns == "ignore":
        return ()
    text, nothing = _text_of(source, RAW_VALUE), f"from_json('{{}}', {quoted(str(source.schema))})"
    known = f"json_object_keys(to_json({nothing}, map('ignoreNullFields', 'false')))"  # Spark works this out once
    if source.new_columns == "keep":
        fields = f"from_json({text}, 'MAP<STRING, STRING>')"
        return (f"map_filter({fields}, (name, value) -> NOT array_contains({known}, name)) AS {MORE}",)
    return (f"array_except(json_object_keys({text}), {known}) AS {NEW}",)


def _unwrapped(source: Source, names: tuple[str, ...], reason: tuple[str, ...]) -> tuple[Operation, ...]:
    """From a change to the row as it is now, or as it was when it was deleted."""
    row = f"IF({_PARSED}.op = 'd', {_PARSED}.before, {_PARSED}.after) AS {_ROW}"
    kind = (f"{_PARSED}.op AS _op", f"{_PARSED}.op = 'd' AS _deleted")
    columns = (Select((row, _PARSED, *names)), Select((f"{_ROW}.*", *kind, *names, *reason)))
    return (*columns, Where("NOT coalesce(_deleted, false)")) if source.table else columns


def _text_of(source: Source, column: str) -> str:
    """SQL for the text of a value."""
    if source.format == "json_schema":
        return f"CAST(IF(startswith({column}, X'00'), substring({column}, {FRAME_BYTES + 1}), {column}) AS STRING)"
    return f"CAST({column} AS STRING)"


def _beside(source: Source, keep_headers: bool) -> list[str]:
    """What comes along with the value."""
    # Bytes that are no text would break Python steps: they are replaced here, and kept for dead letters.
    key = "make_valid_utf8(CAST(key AS STRING))" if source.key_format == "string" else "key"
    beside = [f"{key} AS _key", *(["headers AS _headers"] if source.headers else [])]
    beside += ["topic AS _topic", "partition AS _partition", "offset AS _offset", "timestamp AS _timestamp"]
    raw = "CAST(NULL AS BINARY)" if is_decoded(source) else "value"
    own_headers = "headers" if keep_headers else f"CAST(NULL AS {HEADERS_TYPE})"
    return [*beside, f"key AS {RAW_KEY}", f"{raw} AS {RAW_VALUE}", f"{own_headers} AS {RAW_HEADERS}"]


def unreadable_reason(source: Source, *, is_quick: bool = False) -> str | None:
    """SQL for the reason why a value is not of its format, NULL when it is; None when every value is."""
    cases = _reasons(source)
    if not cases:
        return None
    passed = f"WHEN {_IS_QUICK} THEN NULL " if is_quick else ""
    return f"CASE {passed}{' '.join(f'WHEN {condition} THEN {quoted(why)}' for condition, why in cases.items())} END"


def _reasons(source: Source) -> Mapping[str, str]:
    """Conditions under which a value cannot be read, the first that is true decides."""
    text = _text_of(source, RAW_VALUE)
    change = {} if source.envelope is None else _reasons_of_change()
    if is_decoded(source):
        what = str(source.format).partition("_")[0]
        return {f"{_PARSED} IS NULL": f"the value is no {what} of the schema", **change}
    if source.format == "string":
        return {f"NOT is_valid_utf8({text})": "the value is no text in UTF-8"}
    if source.format not in ("json", "json_schema"):
        return {}
    has_escape = " OR ".join(f"contains({text}, {quoted(escape)})" for escape in _ESCAPES)  # cheaper than the pattern
    return {
        f"{RAW_VALUE} IS NULL": "the value is null",
        f"NOT is_valid_utf8({text})": "the value is no text in UTF-8",
        f"{_PARSED} IS NULL": "the value is empty",
        f"{_PARSED}.{CORRUPT} IS NOT NULL": "the value is no json of the schema",
        f"NOT ({_is_one_value(text)})": "there is text behind the JSON object",
        f"({has_escape}) AND {text} RLIKE {quoted(_HALF_PAIR)}": ("a text in the value has half of a surrogate pair"),
        **change,
    }


def _reasons_of_change() -> Mapping[str, str]:
    """Of a value that is of its format: why it is no change of a row."""
    return {
        f"NOT coalesce({_PARSED}.op IN ('c', 'r', 'u', 'd'), false)": "the value is no change of a row (op c, r, u, d)",
        f"{_ROW} IS NULL": "the change has no row: the database is to send rows as they were (REPLICA IDENTITY FULL)",
    }


def _is_one_value(text: str) -> str:
    """SQL: whether nothing stands behind the object."""
    # Cheap, and true for most: the first brace that closes is the last character.
    is_flat = f"locate('}}', {text}) = length(rtrim({text}))"
    return f"{is_flat} OR ({_is_json_within(text, _IN_OBJECT, '}')} AND {_is_json_within(text, _IN_ARRAY, ']}')})"


def _is_json_within(text: str, before: str, behind: str) -> str:
    """SQL: whether the value is good JSON between these brackets. Spark reads over what the schema does not name."""
    within = f"concat('{before}', {text}, '{behind}')"
    return f"from_json({within}, '{CORRUPT} STRING', {_CORRUPT_OPTION}).{CORRUPT} IS NULL"
