"""From a record of a topic to the columns of its schema: as SQL, and why a value cannot be read.

    value, key, ...  ->  the schema's columns, _key, _topic, _partition, _offset, _timestamp
                         and for us: the record as it was, and _ottla_unreadable

1. _ottla_unreadable is the reason why a value is not of its format, or NULL. Only then the columns mean something.
2. JSON is what Spark's from_json reads, and exactly one object. from_json alone lets more pass, which is looked for
   here: null, nothing, bytes that are no UTF-8 and half a surrogate pair (it changes both), and text behind the object
   (it ignores that).
3. The record as it was (bytes of key and value, headers) goes along for dead letters, and no further.

Whether something stands behind the object: the text is put into an array and into an object, and must be good JSON in
both. What stands behind it can close one of the two brackets, never both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.definition import Source
from ottla.spark.pipelines.expectations import (
    CORRUPT,
    HEADERS_TYPE,
    RAW_HEADERS,
    RAW_KEY,
    RAW_VALUE,
    UNREADABLE,
    quoted,
)
from ottla.spark.pipelines.operations import Operation, Select

_PARSED: Final = "_ottla_parsed"
_TEXT: Final = f"CAST({RAW_VALUE} AS STRING)"
_CORRUPT_OPTION: Final = f"map('columnNameOfCorruptRecord', '{CORRUPT}')"
_IN_OBJECT: Final = '{"v":'
_IN_ARRAY: Final = '{"v":['
_ESCAPE: Final = r"\ud"
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


def columns_of(source: Source, *, keep_headers: bool) -> TopicColumns:
    """The columns of a topic; with `keep_headers` the connector has been asked for headers, and they are kept."""
    beside = _beside(source, keep_headers)
    names = tuple(each.rpartition(" ")[2] for each in beside)
    raw = (RAW_KEY, RAW_VALUE, RAW_HEADERS)
    why = unreadable_reason(source)
    reason = () if why is None else (f"{why} AS {UNREADABLE}",)
    for_us = raw if why is None else (*raw, UNREADABLE)
    if source.format == "json":
        fields = quoted(f"{source.schema}, {CORRUPT} STRING")
        parsed = f"from_json(CAST(value AS STRING), {fields}, {_CORRUPT_OPTION}) AS {_PARSED}"
        return TopicColumns((Select((parsed, *beside)), Select((f"{_PARSED}.*", *names, *reason))), (*for_us, CORRUPT))
    if source.format == "avro":
        columns = (Select((f"value AS {_PARSED}", *beside)), Select((f"{_PARSED}.*", *names, *reason)))
        return TopicColumns(columns, for_us)
    value = "CAST(value AS STRING) AS value" if source.format == "string" else "value"
    made: tuple[Operation, ...] = (Select((value, *beside)),)
    return TopicColumns((*made, Select(("*", *reason))) if reason else made, for_us)


def _beside(source: Source, keep_headers: bool) -> list[str]:
    """What comes along with the value."""
    # Bytes that are no text would break Python steps: they are replaced here, and kept for dead letters.
    key = "make_valid_utf8(CAST(key AS STRING))" if source.key_format == "string" else "key"
    beside = [f"{key} AS _key", *(["headers AS _headers"] if source.headers else [])]
    beside += ["topic AS _topic", "partition AS _partition", "offset AS _offset", "timestamp AS _timestamp"]
    raw = "CAST(NULL AS BINARY)" if source.format == "avro" else "value"
    own_headers = "headers" if keep_headers else f"CAST(NULL AS {HEADERS_TYPE})"
    return [*beside, f"key AS {RAW_KEY}", f"{raw} AS {RAW_VALUE}", f"{own_headers} AS {RAW_HEADERS}"]


def unreadable_reason(source: Source) -> str | None:
    """SQL for the reason why a value is not of its format, NULL when it is; None when every value is."""
    cases = _REASONS.get(source.format or "")
    if cases is None:
        return None
    return f"CASE {' '.join(f'WHEN {condition} THEN {quoted(why)}' for condition, why in cases.items())} END"


def _is_json_within(before: str, behind: str) -> str:
    """SQL: whether the value is good JSON between these brackets. Spark reads over what the schema does not name."""
    text = f"concat('{before}', {_TEXT}, '{behind}')"
    return f"from_json({text}, '{CORRUPT} STRING', {_CORRUPT_OPTION}).{CORRUPT} IS NULL"


# Cheap, and true for most: the first brace that closes is the last character.
_IS_FLAT: Final = f"locate('}}', {_TEXT}) = length(rtrim({_TEXT}))"
_IS_ONE_VALUE: Final = f"{_IS_FLAT} OR ({_is_json_within(_IN_OBJECT, '}')} AND {_is_json_within(_IN_ARRAY, ']}')})"
_HAS_HALF_PAIR: Final = f"contains(lower({_TEXT}), {quoted(_ESCAPE)}) AND {_TEXT} RLIKE {quoted(_HALF_PAIR)}"
_REASONS: Final[Mapping[str, Mapping[str, str]]] = {
    "json": {
        f"{RAW_VALUE} IS NULL": "the value is null",
        f"NOT is_valid_utf8({_TEXT})": "the value is no text in UTF-8",
        f"{_PARSED} IS NULL": "the value is empty",
        f"{_PARSED}.{CORRUPT} IS NOT NULL": "the value is no json of the schema",
        f"NOT ({_IS_ONE_VALUE})": "there is text behind the JSON object",
        _HAS_HALF_PAIR: "a text in the value has half of a surrogate pair",
    },
    "avro": {f"{_PARSED} IS NULL": "the value is no avro of the schema"},
    "string": {f"NOT is_valid_utf8({_TEXT})": "the value is no text in UTF-8"},
}
