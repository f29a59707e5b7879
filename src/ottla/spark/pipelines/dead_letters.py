"""What a dead letter is made of, as SQL: the record that broke a rule, and what is known of it.

1. One of a source has the record's own key, value and headers, byte for byte. One of a step has the row as JSON; its
   key and headers are the record's if the steps before kept the columns _key and _headers.
2. In a topic, what is known stands in headers behind the record's own (HEADERS); in files it stands in columns.
"""

from __future__ import annotations

from typing import Final

from ottla.spark.pipelines.expectations import (
    BROKEN,
    HEADERS,
    HEADERS_TYPE,
    RAW_HEADERS,
    RAW_KEY,
    RAW_VALUE,
    Rules,
    headers,
)
from ottla.spark.pipelines.operations import Operation, Pack, Select, Where

_ROW: Final = "_ottla_row"
_ORIGIN_OF_HEADER: Final = {
    "ottla.dead.topic": "_topic",
    "ottla.dead.partition": "_partition",
    "ottla.dead.offset": "_offset",
    "ottla.dead.timestamp": "_timestamp",
}
_RECORD_OF_TOPIC: Final = {"key": RAW_KEY, "value": RAW_VALUE, "headers": RAW_HEADERS}
_RECORD_OF_STEP: Final = {
    "key": f"CAST(get_json_object({_ROW}, '$._key') AS BINARY)",
    "value": f"CAST({_ROW} AS BINARY)",
    # Bytes are base64 in Spark's JSON, in both directions.
    "headers": f"from_json(get_json_object({_ROW}, '$._headers'), '{HEADERS_TYPE}')",
}


def dead_letters(rules: Rules, *, of_topic: bool, into_topic: bool) -> tuple[Operation, ...]:
    """From the checked rows of a dataset to the rows that the dead letters' target takes."""
    record = _RECORD_OF_TOPIC if of_topic else _RECORD_OF_STEP
    known = {**rules.known(), **_origin(of_topic)}
    if into_topic:
        beside = [f"concat(coalesce({record['headers']}, array()), {headers(known)}) AS headers"]
    else:
        beside = [f"{record['headers']} AS headers"]
        beside += [f"CAST({known[name]} AS STRING) AS {name.rpartition('.')[2]}" for name in HEADERS]
    columns = Select((f"{record['key']} AS key", f"{record['value']} AS value", *beside))
    return (Where(rules.is_dead()), *(() if of_topic else _packed()), columns)


def _packed() -> tuple[Operation, ...]:
    """The row as JSON, and the rule that it breaks."""
    return (Pack(_ROW, (BROKEN,), (BROKEN,)), Select((f"to_json({_ROW}) AS {_ROW}", BROKEN)))


def _origin(of_topic: bool) -> dict[str, str]:
    """SQL for where the record came from; a step's row may have lost it."""
    if of_topic:
        return dict(_ORIGIN_OF_HEADER)
    return {name: f"get_json_object({_ROW}, '$.{column}')" for name, column in _ORIGIN_OF_HEADER.items()}
