"""What a task does: fetch its ranges, decode them, hand out Arrow batches in exactly the shape that Spark wants.

1. Every record of the ranges that is there, once, in the order of offsets within a range; what is gone raises DataLost
   or is reported and skipped (failOnDataLoss). The rules are in client/consumer/ranges.py, the reading itself in
   client/consumer/range_reader.py.
2. Only the columns of `schema` are decoded. Keys and values become what keyFormat and valueFormat say (formats.py).
3. Connections are kept between the tasks of a worker process (kept.py); the reader of a task that failed is not used
   again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ottla.client.consumer.range_reader import RangeReader
from ottla.client.consumer.ranges import DataLost, Range, ReadTimedOut
from ottla.spark.formats.formats import RowFormats
from ottla.spark.source.kept import KeptForTasks

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.source.options import SourceOptions

__all__ = ["DataLost", "ReadTimedOut", "read_ranges"]


def read_ranges(
    options: SourceOptions, ranges: Sequence[Range], schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of these ranges, with the columns of `schema`."""
    formats = RowFormats(options, schema)
    # Whoever reads ranges needs no group; kafka.group.id is for what the driver asks and commits.
    settings = {name: value for name, value in options.client_settings("consumer").items() if name != "group.id"}
    reader = _kept.take(settings)
    is_sound = False
    try:
        for batch in reader.read(
            ranges,
            formats.raw_schema,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=options.poll_timeout_ms,
        ):
            yield formats.decoded(batch)
        is_sound = True
    except GeneratorExit:
        is_sound = True  # nobody wants the rest: a query with a limit
        raise
    finally:
        if is_sound:
            _kept.give_back(settings, reader)
        else:
            reader.close()


_kept: Final = KeptForTasks(RangeReader)
