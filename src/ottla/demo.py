"""`make demo`: a record becomes a batch, a batch becomes a request, and the other side reads it back.

A placeholder until the broker is here: it runs the real record codec, the real message codec and the real framing, in
memory. With the broker it becomes `ottla broker start` with a producer and a consumer.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ottla.net.framing import frame_prefix
from ottla.protocol.header import decode_request, encode_request
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import CHOSEN, BatchBuilder, Compression, Record, RecordBatch

RECORDS = 1000
TOPIC = "greetings"

T = TypeVar("T")


def main() -> None:
    print(f"ottla: record codec in use: {CHOSEN}\n")
    print(f"{RECORDS} records as one batch, sent as a ProduceRequest and read again:\n")
    print(f"{'compression':12} {'batch':>9} {'frame':>9} {'build':>9} {'read':>9}")
    for compression in Compression:
        read(to_frame(build(compression)))  # once unmeasured: libraries are loaded and functions made on first use
        batch, build_us = timed(partial(build, compression))
        frame = to_frame(batch)
        records, read_us = timed(partial(read, frame))
        assert [records[0].value, len(records)] == [b"hello 0", RECORDS]
        sizes = f"{len(batch):>7} B {len(frame):>7} B"
        print(f"{compression.label:12} {sizes} {build_us:>6.0f} µs {read_us:>6.0f} µs")
    print(f"\nlast record read: {records[-1]}")


def build(compression: Compression) -> bytes:
    builder = BatchBuilder(compression=compression, size_limit_bytes=1 << 20)
    for number in range(RECORDS):
        builder.append(1_700_000_000_000 + number, b"key", f"hello {number}".encode())
    return bytes(builder.close())


def to_frame(batch: bytes) -> bytes:
    topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    parts = encode_request(request, version=9, correlation_id=1, client_id="demo")
    return b"".join([frame_prefix(parts), *parts])


def read(frame: bytes) -> list[Record]:
    _, request = decode_request(memoryview(frame)[4:])
    assert isinstance(request, ProduceRequest)
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    batch = RecordBatch(records)
    batch.check()
    return list(batch.records())


def timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - started) * 1e6


if __name__ == "__main__":
    main()
