"""What a record costs: our native codec, its Python twin, and aiokafka's Cython codec, in one run.

Batches of 150 records of 100 bytes, no key, uncompressed, as PERF.md section 4 has them. All sides build and check the
CRC, and the loop over the records in Python is included. Rounds alternate between the sides, and a ratio is the median
of the ratios of single rounds: on a shared machine only figures from the same moment may be compared.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from ottla.records import _native as native
from ottla.records import batch as python_batch
from ottla.records import builder as python_builder

RECORDS = 150
VALUE = bytes(range(100))
TIMESTAMP_MS = 1_700_000_000_000
# Long enough that the clock does not matter, short enough that a neighbour seldom falls into one side only.
SAMPLE_S = 0.02

Row = tuple[str, float, str, str]


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

# What is compared with what, and the bar that issue 2 sets.
RATIOS = [
    ("encode 100 B: native / aiokafka", "encode native", "encode aiokafka", "at most", 0.45),
    ("decode 100 B: native / aiokafka", "decode native", "decode aiokafka", "at most", 0.45),
    ("encode 100 B: Python / native", "encode Python", "encode native", "at least", 15.0),
    ("decode 100 B: Python / native", "decode Python", "decode native", "at least", 15.0),
    ("decode 100 B: Arrow columns / tuples", "decode native, columns", "decode native, tuples", "at most", 0.6),
]


def nanoseconds_per_record(work: Callable[[], object]) -> float:
    """The best of short samples, each repeated for SAMPLE_S: a neighbour can only make a sample slower."""
    repeats, took = 1, 0.0
    while took < SAMPLE_S:
        repeats *= 2
        started = time.perf_counter()
        for _ in range(repeats):
            work()
        took = time.perf_counter() - started
    return took / repeats / RECORDS * 1e9


def measure(rounds: int) -> dict[str, list[float]]:
    """Per side one figure per round; the sides take turns."""
    taken: dict[str, list[float]] = {name: [] for name in SIDES}
    for _ in range(rounds):
        for name, work in SIDES.items():
            taken[name].append(nanoseconds_per_record(work))
    return taken


def rows(rounds: int) -> list[Row]:
    """Name, median ratio, bar, and the nanoseconds behind it."""
    taken = measure(rounds)
    found = []
    for name, ours, theirs, word, bar in RATIOS:
        ratio = statistics.median(a / b for a, b in zip(taken[ours], taken[theirs], strict=True))
        detail = f"{statistics.median(taken[ours]):.0f} / {statistics.median(taken[theirs]):.0f} ns per record"
        found.append((name, ratio, f"{word} {bar}", detail))
    return found


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    for name, ratio, bar, detail in rows(rounds):
        print(f"{name:40} {ratio:7.2f}  ({bar})  {detail}")


if __name__ == "__main__":
    main()
