"""Writing: our Producer beside confluent-kafka and kafka-python, our AsyncProducer beside aiokafka, on the same broker.

Each measurement is a process of its own that sends to a topic of four partitions, acks=all, and tells records per
second and CPU per record from the second record to the end of flush(), so that connecting is not counted. Rounds take
turns, so that whatever else the machine does hits everybody; figures are medians of ratios within a round.

confluent-kafka has its defaults (batches of up to 1 MB, linger 5 ms, no idempotence, the system's socket buffers) and a
queue of a million messages; the others have batch.size=262144, and where it says "16 KB" nothing but the defaults. Ours
is idempotent, as Java's is.

    python -m bench.client.produce [--rounds 5] [--records 1000000] [--markdown]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

TOPIC: Final = "bench-produce"
PARTITIONS: Final = 4
BATCH_BYTES: Final = 262_144
LIST_RECORDS: Final = 1000
TABLE_ROWS: Final = 10_000
FLUSH_LIMIT_S: Final = 120

Measured = dict[str, float]


# --- one measurement, in a process of its own ------------------------------------------------------------------------


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

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all", "queue.buffering.max.messages": 1_000_000}
    )
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


def write_kafka_python(port: int, count: int, size: int, how: str, batch_bytes: int | None) -> Measured:
    import kafka

    value = b"x" * size
    producer = kafka.KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}", acks="all", batch_size=batch_bytes or 16_384)
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
        settings = {"bootstrap.servers": f"127.0.0.1:{port}", "batch.size": batch_bytes}
        value = b"x" * size
        async with Producer(settings) as producer:
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
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=f"127.0.0.1:{port}", acks="all", linger_ms=5, max_batch_size=batch_bytes or 16_384
        )
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
# kind: who writes, how, batch.size, and which part of the records (slow ones write fewer)
KINDS: Final[dict[str, tuple[Write, str, int | None, int]]] = {
    "confluent produce": (write_confluent, "plain", None, 1),
    "ours send": (write_ours, "send", BATCH_BYTES, 1),
    "ours produce": (write_ours, "produce", BATCH_BYTES, 1),
    "ours send_many": (write_ours, "many", BATCH_BYTES, 1),
    "ours send_arrow": (write_ours, "arrow", BATCH_BYTES, 1),
    "confluent with callback": (write_confluent, "callback", None, 1),
    "ours send, 16 KB batches": (write_ours, "send", None, 1),
    "ours produce, 16 KB batches": (write_ours, "produce", None, 1),
    "aiokafka send": (write_aiokafka, "", BATCH_BYTES, 5),
    "ours asyncio send": (write_ours_async, "", BATCH_BYTES, 1),
    "kafka-python send": (write_kafka_python, "", BATCH_BYTES, 20),
}


# --- all of them -----------------------------------------------------------------------------------------------------


def measure(rounds: int, count: int, size: int, kinds: list[str]) -> dict[str, list[Measured]]:
    """Every kind once per round, in turn, each round on a new broker: what was written must not slow the next one."""
    from bench.walk.processes import BrokerProcess, Child

    found: dict[str, list[Measured]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        settings = ("ottla.admin.listener=", f"num.partitions={PARTITIONS}")
        with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory), settings) as broker:
            for kind in kinds:
                total = max(TABLE_ROWS, count // KINDS[kind][3])
                task = [kind, str(broker.port), str(total), str(size)]
                with Child("bench.client.produce", "--child", *task) as child:
                    found[kind].append(json.loads(child.line()))
                speed = found[kind][-1]["records_per_s"] / 1000
                print(f"round {number + 1}, {size} B, {kind}: {speed:.0f} k/s", file=sys.stderr)
    return found


def figures(rounds: int = 5, count: int = 1_000_000) -> list[Any]:
    """The lines of the table: ratios within a round, and their bars."""
    from bench.walk.figures import Figure

    small = measure(rounds, count, 100, list(KINDS))
    large = measure(rounds, count // 4, 1000, ["confluent produce", "ours send", "ours produce"])

    def figure(name: str, found: Any, ours: str, theirs: str, what: str = "records_per_s", **bar: float) -> Figure:
        pairs = list(zip(found[ours], found[theirs], strict=True))
        middle = statistics.median(mine[what] / other[what] for mine, other in pairs)
        scale = 1000 if what == "records_per_s" else 1
        mine, other = (statistics.median(each[what] for each in found[kind]) / scale for kind in (ours, theirs))
        shown = f"{mine:.0f} / {other:.0f} k/s" if what == "records_per_s" else f"{mine:.2f} / {other:.2f} us CPU"
        return Figure(name, middle, f"{shown}; {ours} / {theirs}", **bar)

    confluent = "confluent produce"
    return [
        figure("produce 100 B, a future for each", small, "ours send", confluent, at_least=2),
        figure("produce 100 B, no future", small, "ours produce", confluent, at_least=3),
        figure("produce 100 B, lists of 1000", small, "ours send_many", confluent, at_least=4),
        figure("produce 100 B, Arrow tables of 10,000", small, "ours send_arrow", confluent, at_least=4),
        figure("the same beside a callback for each", small, "ours send", "confluent with callback"),
        figure("a future for each, 16 KB batches", small, "ours send, 16 KB batches", confluent),
        figure("no future, 16 KB batches", small, "ours produce, 16 KB batches", confluent),
        figure("produce 1 KB, a future for each", large, "ours send", confluent, at_least=1.5),
        figure("produce 1 KB, no future", large, "ours produce", confluent, at_least=1.5),
        figure("produce 100 B, asyncio", small, "ours asyncio send", "aiokafka send", at_least=4),
        figure("beside kafka-python", small, "ours send", "kafka-python send"),
        figure("CPU per record, a future for each", small, "ours send", confluent, "cpu_us", at_most=1),
        figure("CPU per record, no future", small, "ours produce", confluent, "cpu_us", at_most=1),
        figure("CPU per record, lists", small, "ours send_many", confluent, "cpu_us", at_most=1),
        figure("CPU per record, Arrow tables", small, "ours send_arrow", confluent, "cpu_us", at_most=1),
        figure("CPU per record, 16 KB batches", small, "ours send, 16 KB batches", confluent, "cpu_us", at_most=1),
        figure("CPU per record, 1 KB", large, "ours send", confluent, "cpu_us", at_most=1),
        figure("CPU per record, asyncio", small, "ours asyncio send", "aiokafka send", "cpu_us", at_most=1),
    ]


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        kind, port, count, size = sys.argv[2:6]
        write, how, batch_bytes, _ = KINDS[kind]
        print(json.dumps(write(int(port), int(count), int(size), how, batch_bytes)), flush=True)
        return
    from bench.walk.figures import markdown, table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--markdown", action="store_true")
    wanted = parser.parse_args()
    found = figures(wanted.rounds, wanted.records)
    print(markdown(found) if wanted.markdown else table(found))


if __name__ == "__main__":
    main()
