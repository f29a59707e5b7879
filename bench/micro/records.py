"""What a record costs: our native codec, its Python twin, and aiokafka's Cython codec, in one run.

Batches of 150 records of 100 bytes, no key, uncompressed, as PERF.md section 4 has them. All sides build and check the
CRC, and the loop over the records in Python is included; a reader touches key and value of every record.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from bench.micro.measure import Comparison, Row, compare

from ottla.records import _native as native
from ottla.records import batch as python_batch
from ottla.records import builder as python_builder
from ottla.records.arrow import to_arrow

RECORDS = 150
VALUE = bytes(range(100))
TIMESTAMP_MS = 1_700_000_000_000


def encode_with(builder_type: type) -> bytes:
    builder = builder_type(size_limit_bytes=1 << 20)
    append = builder.append
    for timestamp_ms in TIMES:
        append(timestamp_ms, None, VALUE)
    return builder.close()


def encode_native() -> bytes:
    return encode_with(native.BatchBuilder)


def encode_python() -> bytes:
    return encode_with(python_builder.BatchBuilder)


def encode_many_native() -> bytes:
    builder = native.BatchBuilder(size_limit_bytes=1 << 20)
    builder.append_many(TIMES, None, VALUES)
    return builder.close()


def encode_aiokafka() -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    append = builder.append
    for index, timestamp_ms in enumerate(TIMES):
        append(index, timestamp_ms, None, VALUE, NO_HEADERS)
    return builder.build()


def decode_with(batch_type: type) -> None:
    batch = batch_type(BATCH)
    batch.check()
    for record in batch.records():
        record.key  # noqa: B018
        record.value  # noqa: B018


def decode_native() -> None:
    decode_with(native.RecordBatch)


def decode_python() -> None:
    decode_with(python_batch.RecordBatch)


def decode_tuples() -> None:
    batch = native.RecordBatch(BATCH)
    batch.check()
    for _offset, _time, key, value, _headers in batch.tuples():
        key, value  # noqa: B018


def decode_columns() -> None:
    native.decode_columns(BATCH)


def answer_to_tuples() -> None:
    for batch in native.RecordStream(ANSWER):
        batch.check()
        for _offset, _time, key, value, _headers in batch.tuples():
            key, value  # noqa: B018


def answer_to_arrow() -> None:
    to_arrow(ANSWER)


def decode_aiokafka() -> None:
    batch = DefaultRecordBatch(BATCH)
    batch.validate_crc()
    for record in batch:
        record.key  # noqa: B018
        record.value  # noqa: B018


TIMES = [TIMESTAMP_MS + index for index in range(RECORDS)]
VALUES = [VALUE] * RECORDS
NO_HEADERS: list[object] = []
BATCH = encode_native()
ANSWER_BATCHES = 60  # a fetch answer of about 1 MB
ANSWER = BATCH * ANSWER_BATCHES

SIDES: dict[str, Callable[[], object]] = {
    "encode native": encode_native,
    "encode native, append_many": encode_many_native,
    "encode Python": encode_python,
    "encode aiokafka": encode_aiokafka,
    "decode native": decode_native,
    "decode native, tuples": decode_tuples,
    "decode native, columns": decode_columns,
    "decode Python": decode_python,
    "decode aiokafka": decode_aiokafka,
}

# The whole way to a pyarrow table, pyarrow's own cost per table included.
ANSWER_SIDES: dict[str, Callable[[], object]] = {"tuples": answer_to_tuples, "pyarrow": answer_to_arrow}

COMPARISONS = [
    Comparison("encode 100 B: native / aiokafka", "encode native", "encode aiokafka", at_most=0.45),
    Comparison("decode 100 B: native / aiokafka", "decode native", "decode aiokafka", at_most=0.45),
    Comparison("encode 100 B: Python / native", "encode Python", "encode native", at_least=15),
    Comparison("decode 100 B: Python / native", "decode Python", "decode native", at_least=15),
    Comparison("decode 100 B: Arrow columns / tuples", "decode native, columns", "decode native, tuples", at_most=0.6),
]
ANSWER_COMPARISONS = [Comparison("decode 1 MB of 100 B: pyarrow / tuples", "pyarrow", "tuples", at_most=0.6)]


def rows(rounds: int) -> list[Row]:
    unit = "ns per record"
    found = compare(SIDES, COMPARISONS, rounds, per_call=RECORDS, unit=unit)
    return found + compare(ANSWER_SIDES, ANSWER_COMPARISONS, rounds, per_call=RECORDS * ANSWER_BATCHES, unit=unit)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    for row in rows(rounds):
        mark = " " if row.reached else "✗"
        figures = f"{row.ours:.0f} / {row.theirs:.0f} {row.unit}"
        print(f"{row.comparison.name:34} {row.ratio:7.2f} {mark} {row.comparison.bar:14} {figures}")


if __name__ == "__main__":
    main()
