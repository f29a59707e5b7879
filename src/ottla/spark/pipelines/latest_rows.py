"""The last row of every key in a batch: what an upsert writes.

    latest_of_keys(rows, ("user",), "at")

1. Which is the last says `order`; without it the offset, if the rows still have it. Rows of an aggregate are alone with
   their key. When nothing decides between two rows the batch fails: to write either of them would be a guess.
2. A row without a key cannot replace anything and fails the batch, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.expectations import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RANK: Final = "_ottla_rank"
_OFFSET: Final = "_offset"
_TWICE: Final = (
    "two rows of one batch have this key, and nothing says which is the last: say order_by in the sink, or a key that "
    "tells them apart: "
)
_NO_KEY: Final = "a row has no key, so it cannot replace anything: filter it out in a step, or choose another key: "


def latest_of_keys(rows: DataFrame, keys: Sequence[str], order: str | None) -> DataFrame:
    """The last row of each key; asks Spark for the columns."""
    columns = rows.columns
    order = order or (_OFFSET if _OFFSET in columns else None)
    window = f"PARTITION BY {', '.join(f'({key})' for key in keys)}"
    if order is not None:
        rank, is_last = f"row_number() OVER ({window} ORDER BY ({order}) DESC)", f"{_RANK} = 1"
    else:
        rank, is_last = f"count(*) OVER ({window})", _or_fail(f"{_RANK} = 1", _TWICE, keys)
    has_key = _or_fail(" AND ".join(f"({key}) IS NOT NULL" for key in keys), _NO_KEY, keys)
    ranked = rows.where(has_key).selectExpr("*", f"{rank} AS {_RANK}")
    return ranked.where(is_last).drop(_RANK)


def _or_fail(condition: str, sentence: str, keys: Sequence[str]) -> str:
    """SQL: the condition, which ends the query with this sentence and the key when it is not true."""
    shown = f"to_json(array({', '.join(f'CAST(({key}) AS STRING)' for key in keys)}))"
    return f"IF({condition}, true, CAST(raise_error(concat({quoted(sentence)}, {shown})) AS BOOLEAN))"
