"""format("ottla"): the names that Spark asks for, and the rooms behind them.

    spark.read.format("ottla")         reader          reader.py
    spark.readStream.format("ottla")   streamReader    stream_reader.py
    df.write.format("ottla")           writer          writer.py
    df.writeStream.format("ottla")     streamWriter    stream_writer.py

1. Options are checked here, before a query begins.
2. A user schema (.schema("value binary")) chooses columns; nothing else reads fewer of them, because Spark
   does not tell a Python source which columns a query uses.
3. This file is imported when Spark looks for data sources: it loads nothing but what every query needs.
4. What is pickled checks the Python that it arrives in: executors may have another one (running/arrival.py).
5. Every Python process of Spark that works for us imports it, so here they learn to end quietly (worker_exit.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from ottla.spark.running.arrival import Arriving
from ottla.spark.running.versions import ensure_streams
from ottla.spark.running.worker_exit import exit_quietly_when_closed
from ottla.spark.running.worker_memory import freeze_what_is_loaded

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.spark.source.options import SourceOptions

exit_quietly_when_closed()


class OttlaSource(Arriving, DataSource):
    """Topics as rows, and rows as records."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        from ottla.spark.source.options import SourceOptions
        from ottla.spark.source.schema import row_schema

        return row_schema(SourceOptions.parse(dict(self.options), streaming=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.source.reader import BatchReader

        return BatchReader(self._checked(schema, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        ensure_streams()
        from ottla.spark.source.stream_reader import StreamReader

        return StreamReader(self._checked(schema, streaming=True), schema)

    def _checked(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        """The options of the query, with checked columns."""
        from ottla.spark.source.options import SourceOptions
        from ottla.spark.source.schema import chosen_columns

        options = SourceOptions.parse(dict(self.options), streaming=streaming)
        chosen_columns(options, schema)
        return options

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.spark.sink.numbered_writer import batch_sink

        if overwrite:
            from ottla.spark.option_table import InvalidOption

            raise InvalidOption('a topic can only be added to; write with mode("append")')
        return batch_sink(dict(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        ensure_streams()
        from ottla.spark.sink.stream_writer import StreamSink

        freeze_what_is_loaded()  # planned and committed for every batch, by processes that Spark uses again
        # Spark says overwrite for outputMode("complete"). All rows of the batch are appended then, as in the connector.
        return StreamSink(dict(self.options), schema)
