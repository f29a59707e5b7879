"""Reading: our Consumer beside confluent-kafka, our AsyncConsumer beside aiokafka, against the same broker.

Each measurement is a process of its own that reads the same topic (4 partitions, batches of 16 KB) from its beginning
and tells records per second and CPU per record, from its first records to its last, so that connecting is not counted.
Rounds take turns, so that whatever else the machine does hits everybody; figures are medians of ratios within a round.
confluent-kafka is measured twice: with its defaults, as everybody else is, and tuned (`TUNED`), because with its
defaults it waits most of the time when records are small.

    python -m bench.client.consume [--rounds 5] [--records 2000000] [--markdown]
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

TOPIC: Final = "bench-consume"
PARTITIONS: Final = 4
POLL_RECORDS: Final = 1000
TUNED: Final = {"fetch.queue.backoff.ms": 1, "queued.min.messages": 1_000_000}


# --- one measurement, in a process of its own ------------------------------------------------------------------------


class Meter:
    """From the first records to the last."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._count = 0
        self._first = 0
        self._begun_s = self._cpu_s = 0.0

    def more(self, count: int) -> bool:
        """So many came; False when that was all."""
        if not self._count and count:
            self._begun_s, self._cpu_s, self._first = time.perf_counter(), cpu_s(), count
        self._count += count
        return self._count < self._total

    def result(self) -> dict[str, float]:
        count = self._count - self._first
        return {
            "records_per_s": count / (time.perf_counter() - self._begun_s),
            "cpu_us": (cpu_s() - self._cpu_s) / count * 1e6,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def read_ours(port: int, total: int, take: Callable[[Any], int]) -> dict[str, float]:
    from ottla import Consumer, TopicPartition

    meter = Meter(total)
    with Consumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
        while meter.more(take(consumer)):
            pass
        return meter.result()


def ours_list(port: int, total: int) -> dict[str, float]:
    return read_ours(port, total, lambda consumer: len(consumer.poll(5, max_records=POLL_RECORDS)))


def ours_arrow(port: int, total: int) -> dict[str, float]:
    def take(consumer: Any) -> int:
        table = consumer.poll_arrow(5)
        return 0 if table is None else int(table.num_rows)

    return read_ours(port, total, take)


def ours_one(port: int, total: int) -> dict[str, float]:
    from ottla import Consumer, TopicPartition

    meter = Meter(total)
    with Consumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
        for _ in consumer:
            if not meter.more(1):
                break
        return meter.result()


def confluent_list(port: int, total: int) -> dict[str, float]:
    return read_confluent(port, total, lambda consumer: len(consumer.consume(POLL_RECORDS, 5)), TUNED)


def confluent_defaults(port: int, total: int) -> dict[str, float]:
    return read_confluent(port, total, lambda consumer: len(consumer.consume(POLL_RECORDS, 5)), {})


def confluent_one(port: int, total: int) -> dict[str, float]:
    return read_confluent(port, total, lambda consumer: 0 if consumer.poll(5) is None else 1, TUNED)


def read_confluent(port: int, total: int, take: Callable[[Any], int], settings: dict[str, int]) -> dict[str, float]:
    import confluent_kafka

    meter = Meter(total)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "bench", "enable.auto.commit": False, **settings}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    while meter.more(take(consumer)):
        pass
    found = meter.result()
    consumer.close()
    return found


def ours_async(port: int, total: int) -> dict[str, float]:
    from ottla import TopicPartition
    from ottla.aio import Consumer

    async def run() -> dict[str, float]:
        meter = Meter(total)
        async with Consumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
            while meter.more(len(await consumer.poll(5, max_records=POLL_RECORDS))):
                pass
            return meter.result()

    return run_on_loop(run)


def aiokafka_list(port: int, total: int) -> dict[str, float]:
    import aiokafka

    async def run() -> dict[str, float]:
        meter = Meter(total)
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([aiokafka.TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
        while meter.more(sum(map(len, (await consumer.getmany(timeout_ms=5000, max_records=POLL_RECORDS)).values()))):
            pass
        found = meter.result()
        await consumer.stop()
        return found

    return run_on_loop(run)


def run_on_loop(run: Callable[[], Any]) -> dict[str, float]:
    """Both asyncio clients on the faster loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(run())
    found: dict[str, float] = uvloop.run(run())
    return found


def bare(port: int, total: int) -> dict[str, float]:
    """What the machine gives to somebody who drops what it reads."""
    from bench.client.bare import BareReader

    meter = Meter(total)
    reader = BareReader(port, TOPIC, PARTITIONS)
    while meter.more(reader.read()):
        pass
    reader.close()
    return meter.result()


KINDS: Final[dict[str, Callable[[int, int], dict[str, float]]]] = {
    "bare receiver": bare,
    "confluent defaults": confluent_defaults,
    "confluent consume(1000)": confluent_list,
    "ours poll": ours_list,
    "ours arrow": ours_arrow,
    "confluent poll()": confluent_one,
    "ours iteration": ours_one,
    "aiokafka getmany": aiokafka_list,
    "ours asyncio poll": ours_async,
}


# --- all of them -----------------------------------------------------------------------------------------------------


def fill(port: int, count: int, size: int) -> None:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "linger.ms": 50,
            "batch.size": 16_384,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    value = b"x" * size
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def measure(rounds: int, count: int, size: int) -> dict[str, list[dict[str, float]]]:
    """Every kind once per round, in turn."""
    from bench.walk.processes import BrokerProcess, Child

    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory)) as broker:
        fill(broker.port, count, size)
        for number in range(rounds):
            for kind in KINDS:
                with Child("bench.client.consume", "--child", kind, str(broker.port), str(count)) as child:
                    found[kind].append(json.loads(child.line()))
                    speed = found[kind][-1]["records_per_s"] / 1000
                    print(f"round {number + 1}, {size} B, {kind}: {speed:.0f} k/s", file=sys.stderr)
    return found


def figures(rounds: int = 5, count: int = 2_000_000) -> list[Any]:
    """The lines of the table: ratios within a round, and their bars."""
    from bench.walk.figures import Figure

    small = measure(rounds, max(count // POLL_RECORDS, 1) * POLL_RECORDS, 100)
    # Whole lists only: confluent-kafka's consume(1000) waits out its time-out for a list that is not full.
    large = measure(max(1, rounds // 2), max(count // 8 // POLL_RECORDS, 1) * POLL_RECORDS, 1024)

    def ratio(found: dict[str, list[dict[str, float]]], ours: str, theirs: str, what: str) -> tuple[float, str]:
        pairs = list(zip(found[ours], found[theirs], strict=True))
        middle = statistics.median(mine[what] / other[what] for mine, other in pairs)
        scale = 1000 if what == "records_per_s" else 1
        mine, other = (statistics.median(each[what] for each in found[kind]) / scale for kind in (ours, theirs))
        shown = f"{mine:.0f} / {other:.0f} k/s" if what == "records_per_s" else f"{mine:.2f} / {other:.2f} us CPU"
        return middle, f"{shown}; {ours} / {theirs}"

    def figure(name: str, found: Any, ours: str, theirs: str, what: str = "records_per_s", **bar: float) -> Figure:
        value, detail = ratio(found, ours, theirs, what)
        return Figure(name, value, detail, **bar)

    confluent, defaults = "confluent consume(1000)", "confluent defaults"
    return [
        figure("consume 100 B, lists, defaults", small, "ours poll", defaults, at_least=4),
        figure("consume 1 KB, lists, defaults", large, "ours poll", defaults, at_least=1.5),
        figure("consume 1 KB, Arrow tables, defaults", large, "ours arrow", defaults, at_least=3),
        figure("consume 100 B, asyncio, defaults", small, "ours asyncio poll", "aiokafka getmany", at_least=6),
        figure("consume 1 KB, asyncio, defaults", large, "ours asyncio poll", "aiokafka getmany", at_least=6),
        figure("consume 1 KB, Arrow tables, beside the ceiling", large, "ours arrow", "bare receiver"),
        figure("consume 1 KB, confluent-kafka beside the ceiling", large, defaults, "bare receiver"),
        figure("CPU per record, 1 KB, lists, defaults", large, "ours poll", defaults, "cpu_us", at_most=1),
        figure("CPU per record, 1 KB, Arrow, defaults", large, "ours arrow", defaults, "cpu_us", at_most=1),
        figure("consume 100 B, lists of 1000", small, "ours poll", confluent, at_least=2),
        figure("consume 100 B, Arrow tables", small, "ours arrow", confluent, at_least=5),
        figure("consume 100 B, one by one", small, "ours iteration", "confluent poll()", at_least=2),
        figure("CPU per record, lists", small, "ours poll", confluent, "cpu_us", at_most=1),
        figure("CPU per record, Arrow", small, "ours arrow", confluent, "cpu_us", at_most=1),
        figure("CPU per record, asyncio", small, "ours asyncio poll", "aiokafka getmany", "cpu_us", at_most=1),
        figure("consume 1 KB, lists of 1000", large, "ours poll", confluent, at_least=1),
        figure("consume 1 KB, Arrow tables", large, "ours arrow", confluent, at_least=1),
    ]


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        kind, port, count = sys.argv[2:5]
        print(json.dumps(KINDS[kind](int(port), int(count))), flush=True)
        return
    from bench.walk.figures import markdown, table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--markdown", action="store_true")
    wanted = parser.parse_args()
    found = figures(wanted.rounds, wanted.records)
    print(markdown(found) if wanted.markdown else table(found))


if __name__ == "__main__":
    main()
