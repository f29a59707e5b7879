"""From the plan's values to Spark's DataFrames.

Spark forbids everything that asks it something (columns, schema) while a pipeline is declared: so nothing here asks.
What every flow counts comes along as observed metrics, because pipelines report no rows:

    ottla_out               rows that the flow hands to its target
    ottla_rules__<name>     rows that <name> had before its rules (`rows`), and how many broke each
    ottla_traces__<name>    some of the traces of its records, when the pipeline has `traces`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.spark.pipelines.expectations import BROKEN, quoted
from ottla.spark.pipelines.operations import (
    Beginning,
    Call,
    Count,
    Dataset,
    Drop,
    Flow,
    Latest,
    Operation,
    Pack,
    Query,
    Read,
    Sample,
    Select,
    Unique,
    View,
    Where,
)
from ottla.spark.pipelines.python_steps import load_function
from ottla.spark.pipelines.tracing import TRACES, samples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUT: Final = "ottla_out"
RULES: Final = "ottla_rules__"
_LAST: Final = "_ottla_last"


def view_frame(spark: SparkSession, view: View) -> DataFrame:
    """The rows of a view."""
    return operated(_begun(spark, view.beginning), view.operations)


def flow_frame(spark: SparkSession, flow: Flow) -> DataFrame:
    """The rows of a flow as its target wants them, counted."""
    from pyspark.sql import functions

    frame = operated(spark.readStream.table(flow.dataset), flow.operations)
    return frame.observe(OUT, functions.expr("count(*) AS rows"))


def _begun(spark: SparkSession, beginning: Beginning) -> DataFrame:
    if isinstance(beginning, Read):
        reader: Any = spark.readStream if beginning.stream else spark.read
        reader = reader.format(beginning.format).options(**beginning.options)
        frame: DataFrame = (reader.schema(beginning.schema) if beginning.schema is not None else reader).load()
        return frame
    if isinstance(beginning, Query):
        return spark.sql(beginning.sql)
    if isinstance(beginning, Dataset):
        return _dataset(spark, beginning)
    return _called(beginning, [_dataset(spark, each) for each in beginning.inputs])


def _dataset(spark: SparkSession, dataset: Dataset) -> DataFrame:
    return spark.readStream.table(dataset.name) if dataset.stream else spark.read.table(dataset.name)


def _called(call: Call, inputs: Sequence[DataFrame]) -> DataFrame:
    function: Callable[..., DataFrame]
    if isinstance(call.function, tuple):
        function = load_function(Path(call.function[0]), call.function[1])
    else:
        function = cast("Callable[..., DataFrame]", call.function)
    return function(*inputs)


def operated(frame: DataFrame, operations: Sequence[Operation]) -> DataFrame:
    """The frame after these operations."""
    from pyspark.sql import functions

    for each in operations:
        if isinstance(each, Select):
            frame = frame.selectExpr(*each.expressions)
        elif isinstance(each, Where):
            frame = frame.where(each.condition)
        elif isinstance(each, Pack):
            row = functions.struct("*").dropFields(*each.without).alias(each.into)
            frame = frame.select(row, *map(functions.expr, each.beside))
        elif isinstance(each, Drop):
            frame = frame.drop(*each.columns)
        elif isinstance(each, Sample):
            frame = frame.observe(f"{TRACES}{each.dataset}", *map(functions.expr, samples()))
        elif isinstance(each, Unique):
            frame = frame.dropDuplicatesWithinWatermark(list(each.columns))
        elif isinstance(each, Latest):
            frame = frame.where(" AND ".join(f"{name} IS NOT NULL" for name in each.key))
            last = functions.expr(f"max_by(struct(*), {each.order}) AS {_LAST}")
            frame = frame.groupBy(*each.key).agg(last).select(f"{_LAST}.*")
        else:
            frame = frame.observe(f"{RULES}{each.dataset}", *map(functions.expr, _counts(each)))
    return frame


def _counts(count: Count) -> list[str]:
    broken = [f"count_if({BROKEN} = {quoted(rule)}) AS `{rule}`" for rule in count.rules]
    noted = [f"count_if({condition}) AS `{name}`" for name, condition in count.noted.items()]
    return ["count(*) AS `.rows`", *broken, *noted]
