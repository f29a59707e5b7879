"""The data pipeline: Spark reads topics, works on them, and writes topics exactly once. With pip alone, no jar.

    from ottla.spark import session

    spark = session()
    clicks = spark.readStream.format("ottla").option("kafka.bootstrap.servers", "localhost:9092") \\
        .option("subscribe", "clicks").load()

Spark finds the source by itself: it looks for modules named pyspark_*, and pyspark_ottla names our DataSource.
How the pieces map to Spark's interface for Python sources:

    Spark asks                      here
    DataSource                      datasource.py       options are checked, the schema is told, rooms are opened
    DataSourceReader                reader.py           a batch query: one snapshot of offsets, planned once
    DataSourceStreamReader          stream_reader.py    latest offsets under a limit, a plan that is a pure function
    read(partition)                 range_reading.py    a task fetches its ranges and hands out Arrow batches
    DataSourceArrowWriter           writer.py           a batch write
    DataSourceStreamArrowWriter     stream_writer.py    tasks write in transactions, the driver ends them

Nothing here is imported until it is asked for: pyspark and pyarrow are loaded by the file that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.spark.running.session import session
from ottla.spark.running.spark_home import SparkMissing
from ottla.spark.sink.once import once
from ottla.spark.tokens.driver import hand_out_tokens

if TYPE_CHECKING:
    from ottla.spark.source.lag import lag_of, watch_lag

__all__ = ["SparkMissing", "hand_out_tokens", "lag_of", "once", "session", "watch_lag"]


def __getattr__(name: str) -> Any:
    """What needs pyspark is loaded when it is first used."""
    if name in ("lag_of", "watch_lag"):
        from ottla.spark.source import lag

        return getattr(lag, name)
    raise AttributeError(f"module 'ottla.spark' has no attribute {name!r}")
