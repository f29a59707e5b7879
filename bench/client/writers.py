"""One measurement of writing, in a process of its own: who writes, how, and what it took.

Each writer sends so many records of one size and tells records per second and CPU per record, from the second record to
the end of flush(), so that connecting is not counted. Nobody has a setting but the address, unless a kind says so.

    python -m bench.client.writers KIND PORT RECORDS BYTES
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, Final

TOPIC: Final = "bench-produce"
LIST_RECORDS: Final = 1000
TABLE_ROWS: Final = 10_000
FLUSH_LIMIT_S: Final = 120

Measured = dict[str, float]


class Meter:
    """From now to the end."""

    def __init__(self) -> None:
        self._begun_s, self._cpu_s = time.perf_counter(), cpu_s()

    def result(self, count: int) -> Measured:
        return {
            "records_per_s": count / (time.perf_counter() - self._begun_s),
            "cpu_us": (cpu_s() - self._cpu_s) / count * 1e6,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def write_ours(port: int, count: int, size: int, how: str, batch_bytes: int | None) -> Measured:
    from ottla import Producer

    settings: dict[str, object] = {"bootstrap.servers": f"127.0.0.1:{port}"}
    if batch_bytes is not None:
        settings["batch.size"] = batch_bytes
    value = b"x" * size
    with Producer(settings) as producer:
        producer.send(TOPIC, value).result(FLUSH_LIMIT_S)
        table = arrow_table(value, TABLE_ROWS) if how == "arrow" else None
        if table is not None:
            producer.send_arrow(TOPIC, table.slice(0, 1))  # loads what pyarrow loads by its first use
        meter = Meter()
        kept: list[Any] = []
        if how == "send":
            send, keep = producer.send, kept.append
            for _ in range(count):
                keep(send(TOPIC, value))
        elif how == "produce":
            produce = producer.produce
            for _ in range(count):
                produce(TOPIC, value)
        elif how == "arrow":
            for _ in range(count // TABLE_ROWS):
                kept.append(producer.send_arrow(TOPIC, table, wants_future=True))
        else:
            values = [value] * LIST_RECORDS
            for _ in range(count // LIST_RECORDS):
                kept.append(producer.send_many(TOPIC, values))
        producer.flush(FLUSH_LIMIT_S)
        found = meter.result(count)
        assert all(each.done() for each in kept)
        return found


def arrow_table(value: bytes, rows: int) -> Any:
    import pyarrow as pa

    return pa.table({"value": pa.array([value] * rows)})


def write_confluent(port: int, count: int, size: int, how: str, batch_bytes: int | None) -> Measured:
    import confluent_kafka

    settings: dict[str, object] = {"bootstrap.servers": f"127.0.0.1:{port}"}
    if how == "queue":
        settings["queue.buffering.max.messages"] = 1_000_000
    producer = confluent_kafka.Producer(settings)
    value = b"x" * size
    failed: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(error)

    producer.produce(TOPIC, value)
    producer.flush()
    meter = Meter()
    produce = producer.produce
    arguments = {"on_delivery": delivered} if how == "callback" else {}
    for number in range(count):
        while True:
            try:
                produce(TOPIC, value, **arguments)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(FLUSH_LIMIT_S)
    assert not failed
    return meter.result(count)


def write_bare(port: int, count: int, size: int, how: str, batch_bytes: int | None) -> Measured:
    """The ceiling: see bare.py."""
    from bench.client.bare import BareWriter
    from bench.client.produce import PARTITIONS

    from ottla import Producer

    with Producer({"bootstrap.servers": f"127.0.0.1:{port}"}) as producer:
        producer.send(TOPIC, b"x").result(FLUSH_LIMIT_S)  # the topic is made by its first record
    writer = BareWriter(port, TOPIC, PARTITIONS, size)
    try:
        writer.write()
        writer.flush()
        meter = Meter()
        requests = max(1, count // writer.records_each)
        for _ in range(requests):
            writer.write()
        writer.flush()
        return meter.result(requests * writer.records_each)
    finally:
        writer.close()


def write_kafka_python(port: int, count: int, size: int, how: str, batch_bytes: int | None) -> Measured:
    import kafka

    value = b"x" * size
    producer = kafka.KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
    producer.send(TOPIC, value).get(FLUSH_LIMIT_S)
    meter = Meter()
    for _ in range(count):
        producer.send(TOPIC, value)
    producer.flush(FLUSH_LIMIT_S)
    found = meter.result(count)
    producer.close()
    return found


def write_ours_async(port: int, count: int, size: int, how: str, batch_bytes: int | None) -> Measured:
    from ottla.aio import Producer

    async def run() -> Measured:
        value = b"x" * size
        async with Producer({"bootstrap.servers": f"127.0.0.1:{port}"}) as producer:
            await (await producer.send(TOPIC, value))
            meter = Meter()
            kept = [await producer.send(TOPIC, value) for _ in range(count)]
            await producer.flush(FLUSH_LIMIT_S)
            found = meter.result(count)
            assert all(each.done() for each in kept)
            return found

    return run_on_loop(run)


def write_aiokafka(port: int, count: int, size: int, how: str, batch_bytes: int | None) -> Measured:
    import aiokafka

    async def run() -> Measured:
        value = b"x" * size
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
        await producer.start()
        await producer.send_and_wait(TOPIC, value)
        meter = Meter()
        kept = [await producer.send(TOPIC, value) for _ in range(count)]
        await producer.flush()
        found = meter.result(count)
        assert all(each.done() for each in kept)
        await producer.stop()
        return found

    return run_on_loop(run)


def run_on_loop(run: Callable[[], Any]) -> Measured:
    """Both asyncio clients on the faster loop."""
    try:
        import uvloop
    except ImportError:
        return dict(asyncio.run(run()))
    return dict(uvloop.run(run()))


Write = Callable[[int, int, int, str, int | None], Measured]
SMALL_BATCH_BYTES: Final = 16_384
# kind: who writes, how, batch.size if it is not the default, and which part of the records (slow ones write fewer)
KINDS: Final[dict[str, tuple[Write, str, int | None, int]]] = {
    "confluent produce": (write_confluent, "plain", None, 1),
    "ours send": (write_ours, "send", None, 1),
    "ours produce": (write_ours, "produce", None, 1),
    "ours send, 16 KB batches": (write_ours, "send", SMALL_BATCH_BYTES, 1),
    "ours produce, 16 KB batches": (write_ours, "produce", SMALL_BATCH_BYTES, 1),
    "bare sender": (write_bare, "", None, 1),
    "confluent, queue of a million": (write_confluent, "queue", None, 1),
    "confluent with callback": (write_confluent, "callback", None, 1),
    "ours send_many": (write_ours, "many", None, 1),
    "ours send_arrow": (write_ours, "arrow", None, 1),
    "aiokafka send": (write_aiokafka, "", None, 5),
    "ours asyncio send": (write_ours_async, "", None, 1),
    "kafka-python send": (write_kafka_python, "", None, 20),
}


def main() -> None:
    kind, port, count, size = sys.argv[1:5]
    write, how, batch_bytes, _ = KINDS[kind]
    print(json.dumps(write(int(port), int(count), int(size), how, batch_bytes)), flush=True)


if __name__ == "__main__":
    main()
