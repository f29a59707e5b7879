"""What a consumer pays for 1 MB of 1 KB values that were received: lists and tables beside the least there is to do.

The least is a proof of the sum and one copy out of the frame. 24 frames take turns, so that none is in a fast cache, as
an answer of some megabytes is not; the records are in batches of 16 KB, of one partition, without keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from bench.micro.measure import Comparison, Row, compare

from ottla.client.consumer.arrow_tables import Rows, decode_span, table_shape
from ottla.client.consumer.record_choice import FetchedRecords
from ottla.records import BatchBuilder, assign_offsets
from ottla.records.implementation import crc32c

VALUE = b"x" * 1024
BATCH_BYTES = 16_384
FRAME_BYTES = 1_000_000
FRAMES = 24
LIST_RECORDS = 1000


def frame() -> bytearray:
    data = bytearray()
    next_offset = 0
    while len(data) < FRAME_BYTES:
        builder = BatchBuilder(size_limit_bytes=BATCH_BYTES)
        count = builder.append_many(1, None, [VALUE] * (BATCH_BYTES // len(VALUE)))
        batch = bytearray(builder.close())
        assign_offsets(batch, 0, next_offset, 3)
        data += batch
        next_offset += count
    return data


frames = itertools.cycle([frame() for _ in range(FRAMES)])


def read_lists() -> None:
    fetched = FetchedRecords("t", 0, memoryview(next(frames)), 0)
    while fetched.take(LIST_RECORDS):
        pass


def read_table() -> None:
    rows = Rows(table_shape())
    decode_span(FetchedRecords("t", 0, memoryview(next(frames)), 0), 32_768, rows, check_crcs=True)
    rows.table()


def prove_and_copy() -> None:
    data = next(frames)
    crc32c(data)
    bytes(data)


SIDES: dict[str, Callable[[], object]] = {"lists": read_lists, "table": read_table, "sum and copy": prove_and_copy}
COMPARISONS = [
    Comparison("1 MB of 1 KB as lists of 1,000 / sum and one copy", "lists", "sum and copy", at_most=2.5),
    Comparison("1 MB of 1 KB as an Arrow table / sum and one copy", "table", "sum and copy", at_most=2.0),
]


def rows(rounds: int) -> list[Row]:
    return compare(SIDES, COMPARISONS, rounds, per_call=1000, unit="us per MB")
