"""`python -m bench.tables`: what it costs to make table rows of records, per CPU second of one process.

    python -m bench.tables [--seconds 2] [--markdown] [--worker [--megabytes 200]]

1. Records of about 100 bytes and of about 1 KB, in batches without compression as a fetch has them. The same seven
   fields in every format: two numbers, a flag, a time, an enum and two texts; random letters fill the record.
2. "values" is the decoder alone: a column of bytes becomes typed columns. "file" is all that a worker does between the
   socket and the disk: batches to columns, values to columns, and both to one Parquet file in memory, zstd; raw has the
   value as bytes. What comes in is written with the system's page cache at best, so the disk is left out.
3. MB are megabytes of record values. CPU time is the process's own, with all threads; the median of some rounds.
4. With --worker: the whole way of the worker (worker.py), from a broker in another process to a table on the disk.
5. `framed` records name their schema by an id; `one bad` has a record in a hundred that does not decode.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet
from bench.tables import worker
from bench.tables.records import AVRO, PROTOBUF, as_avro, as_json, clicks

from ottla.client.consumer.arrow_tables import Rows, decode_span, table_shape
from ottla.client.consumer.record_choice import FetchedRecords
from ottla.records import BatchBuilder, assign_offsets
from ottla.schemas.arrow import protobuf_types
from ottla.schemas.arrow.avro_rows import AvroRows
from ottla.schemas.arrow.avro_types import arrow_type
from ottla.schemas.arrow.decoded import Decoded
from ottla.schemas.arrow.json_rows import JsonRows
from ottla.schemas.arrow.protobuf_rows import ProtobufRows, message_of
from ottla.schemas.model import WholeSchema
from ottla.schemas.protobuf.messages import class_of
from ottla.schemas.protobuf.values import fill

ROUNDS = 5
COUNTS = {100: 20_000, 1_000: 5_000}
BATCH_BYTES = 16_384
WORKER_ROW = "{:10} {:>6} {:8} {:>9} {:>9} {:>6} {:>8} {:>4}"
FRAME = b"\0\0\0\0\1"


class Side(NamedTuple):
    """One kind of records: their values, and what decodes them; None for raw."""

    name: str
    values: Sequence[bytes]
    decode: Callable[[pa.Array], Decoded] | None


class Figure(NamedTuple):
    """Megabytes and thousands of records per CPU second."""

    mb: float
    records: float


def sides(size: int) -> list[Side]:
    """All kinds of records of about this size."""
    count = COUNTS[size]
    kind = arrow_type(AVRO)
    schema = fastavro.parse_schema(AVRO)
    avro = [as_avro(schema, click) for click in clicks(count, max(size - 42, 0))]
    texts = [as_json(click) for click in clicks(count, max(size - 135, 0))]
    message = message_of(WholeSchema(PROTOBUF, {}), "Click")
    protobuf = [fill(class_of(message)(), click).SerializeToString() for click in clicks(count, max(size - 52, 0))]
    known = WholeSchema(json.dumps(AVRO), {})
    columns = protobuf_types.arrow_type(message)
    framed = ProtobufRows(message, columns, lambda _: WholeSchema(PROTOBUF, {}))
    return [
        Side("raw", texts, None),
        Side("JSON", texts, JsonRows(kind).decode),
        Side("JSON, one bad", _one_bad(texts), JsonRows(kind).decode),
        Side("JSON, framed", [FRAME + text for text in texts], JsonRows(kind, framed=True).decode),
        Side("Avro", avro, AvroRows(AVRO, kind, None).decode),
        Side("Avro, one bad", _one_bad(avro), AvroRows(AVRO, kind, None).decode),
        Side("Avro, framed", [FRAME + content for content in avro], AvroRows(AVRO, kind, lambda _: known).decode),
        Side("Protobuf", protobuf, ProtobufRows(message, columns, None).decode),
        Side("Protobuf, one bad", _one_bad(protobuf), ProtobufRows(message, columns, None).decode),
        Side("Protobuf, framed", [FRAME + b"\0" + content for content in protobuf], framed.decode),
    ]


def _one_bad(values: Sequence[bytes]) -> list[bytes]:
    return [value[:-1] if number % 100 == 50 else value for number, value in enumerate(values)]


def fetched(values: Sequence[bytes]) -> bytes:
    """The batches of these values, as a fetch brings them."""
    data, next_offset = bytearray(), 0
    while next_offset < len(values):
        builder = BatchBuilder(size_limit_bytes=BATCH_BYTES)
        count = builder.append_many(1, None, list(values[next_offset : next_offset + BATCH_BYTES // len(values[0])]))
        batch = bytearray(builder.close())
        assign_offsets(batch, 0, next_offset, 3)
        data += batch
        next_offset += count
    return bytes(data)


def write_file(side: Side, data: bytes) -> None:
    """From the bytes of a fetch to those of a file."""
    rows = Rows(table_shape())
    records = FetchedRecords("t", 0, memoryview(data), 0)
    while rows.count < len(side.values):
        decode_span(records, 1_000_000, rows, check_crcs=True)
    table = rows.table().combine_chunks()
    if side.decode is not None:
        column = side.decode(table.column("value").chunk(0)).column
        table = table.set_column(table.schema.get_field_index("value"), "value", column)
    pa.parquet.write_table(table, io.BytesIO(), compression="zstd")


def measured(side: Side, work: Callable[[], object], seconds: float) -> Figure:
    work()
    taken = []
    for _ in range(ROUNDS):
        begin, repeats = time.process_time(), 0
        while time.process_time() - begin < seconds / ROUNDS:
            work()
            repeats += 1
        taken.append((time.process_time() - begin) / repeats)
    took = statistics.median(taken)
    return Figure(sum(map(len, side.values)) / took / 1e6, len(side.values) / took / 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.tables")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each figure is measured")
    parser.add_argument("--markdown", action="store_true", help="as docs/performance-log.md has it")
    parser.add_argument("--worker", action="store_true", help="the whole way, from a broker to a table")
    parser.add_argument("--megabytes", type=float, default=200.0, help="how much of it")
    chosen = parser.parse_args()
    if chosen.worker:
        row = "| {} | {} | {} | {} | {} | {} | {} | {} |" if chosen.markdown else WORKER_ROW
        worker.main(chosen.megabytes, list(COUNTS), row)
        return
    form = "| {} | {} | {} | {} | {} | {} |" if chosen.markdown else "{:17} {:>6} {:>10} {:>12} {:>10} {:>12}"
    print(form.format("records", "bytes", "values MB", "values k/s", "file MB", "file k/s"))
    if chosen.markdown:
        print("| --- | --- | --- | --- | --- | --- |")
    for size in COUNTS:
        for side in sides(size):
            column, data = pa.array(side.values, pa.binary()), fetched(side.values)
            file = measured(side, lambda side=side, data=data: write_file(side, data), chosen.seconds)  # type: ignore[misc]
            values = ["-", "-"]
            if side.decode is not None:
                alone = measured(side, lambda side=side, column=column: side.decode(column), chosen.seconds)  # type: ignore[misc]
                values = [f"{alone.mb:.0f}", f"{alone.records:,.0f}"]
            mean = sum(map(len, side.values)) // len(side.values)
            print(form.format(side.name, mean, *values, f"{file.mb:.0f}", f"{file.records:,.0f}"), flush=True)


if __name__ == "__main__":
    main()
