"""Writing: our Producer beside confluent-kafka and kafka-python, our AsyncProducer beside aiokafka, on the same broker.

Defaults against defaults: nobody has a setting but the address of the broker, unless its line says so. (aiokafka has
acks=1 by default and everybody else acks=all; ours is idempotent, as Java's is.) Each measurement is a process of its
own (writers.py). Rounds take turns, so that whatever else the machine does hits everybody; figures are medians of
ratios within a round.

Two brokers: one that acknowledges without a sync, as Apache Kafka does, with four partitions; and "out of the box":
`ottla broker start` with nothing but a port and a directory, so durable, and a topic that its first record makes.

    python -m bench.client.produce [--rounds 5] [--records 1000000] [--only KIND ...] [--part PART] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from bench.client.writers import KINDS, TABLE_ROWS, Measured

PARTITIONS: Final = 4
REPLICATED: Final = ("ottla.admin.listener=", f"num.partitions={PARTITIONS}")
OUT_OF_THE_BOX: Final = ("ottla.admin.listener=", "ottla.durability=durable")
CONFLUENT: Final = "confluent produce"
LARGE_KINDS: Final = (
    CONFLUENT,
    "ours send",
    "ours produce",
    "ours send, 16 KB batches",
    "ours produce, 16 KB batches",
    "bare sender",
    "confluent, queue of a million",
    "aiokafka send",
    "ours asyncio send",
)
BOX_KINDS: Final = (CONFLUENT, "ours send", "ours produce")

Found = dict[str, list[Measured]]


def measure(rounds: int, count: int, size: int, kinds: list[str], settings: tuple[str, ...] = REPLICATED) -> Found:
    """Every kind once per round, in turn, each round on a new broker: what was written must not slow the next one.

    Before each, as much is written and removed as it will write: memory that the host has taken back costs more than
    any client when a broker's files touch it again, and who is measured first would pay for it.
    """
    from bench.walk.processes import BrokerProcess, Child
    from bench.walk.throughput import warm

    found: Found = {kind: [] for kind in kinds}
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory), settings) as broker:
            for kind in kinds if number % 2 else reversed(kinds):
                total = max(TABLE_ROWS, count // KINDS[kind][3])
                warm(Path(directory), total * size * 5 // 4)
                task = [kind, str(broker.port), str(total), str(size)]
                with Child("bench.client.writers", *task) as child:
                    found[kind].append(json.loads(child.line()))
                mine = found[kind][-1]
                shown = f"{mine['records_per_s'] / 1000:.0f} k/s, {mine['cpu_us']:.2f} us CPU, {mine['rss_mb']:.0f} MB"
                print(f"round {number + 1}, {size} B, {kind}: {shown}", file=sys.stderr)
    return found


def figure(
    name: str, found: Found, ours: str, theirs: str = CONFLUENT, what: str = "records_per_s", **bar: float
) -> list[Any]:
    """One line of the table; none when a side of it was not measured."""
    from bench.walk.figures import Figure

    if not found.get(ours) or not found.get(theirs):
        return []
    pairs = list(zip(found[ours], found[theirs], strict=True))
    middle = statistics.median(mine[what] / other[what] for mine, other in pairs)
    scale = 1000 if what == "records_per_s" else 1
    mine, other = (statistics.median(each[what] for each in found[kind]) / scale for kind in (ours, theirs))
    shown = f"{mine:.0f} / {other:.0f} k/s" if what == "records_per_s" else f"{mine:.2f} / {other:.2f} us CPU"
    return [Figure(name, middle, f"{shown}; {ours} / {theirs}", **bar)]


def figures(
    rounds: int = 5, count: int = 1_000_000, only: list[str] | None = None, part: str | None = None
) -> list[Any]:
    """The lines of the table: ratios within a round, and their bars. `only` measures no other kinds."""

    def chosen(kinds: Any) -> list[str]:
        return [kind for kind in kinds if only is None or kind in only]

    def measured(name: str, records: int, size: int, kinds: Any, settings: tuple[str, ...] = REPLICATED) -> Found:
        return measure(rounds, records, size, chosen(kinds), settings) if part in (None, name) else {}

    box = measured("box", count, 100, BOX_KINDS, OUT_OF_THE_BOX)
    small = measured("100", count, 100, KINDS)
    large = measured("1000", count // 4, 1000, LARGE_KINDS)
    lines = [
        figure("out of the box 100 B, a future for each", box, "ours send", at_least=2),
        figure("out of the box 100 B, no future", box, "ours produce", at_least=2),
        figure("defaults 100 B, a future for each", small, "ours send", at_least=2.5),
        figure("defaults 100 B, no future", small, "ours produce", at_least=3),
        figure("defaults 1 KB, a future for each", large, "ours send", at_least=2),
        figure("defaults 1 KB, no future", large, "ours produce", at_least=2.5),
        figure("batch.size=16384 100 B, a future for each", small, "ours send, 16 KB batches", at_least=1.5),
        figure("batch.size=16384 100 B, no future", small, "ours produce, 16 KB batches", at_least=1.5),
        figure("batch.size=16384 1 KB, a future for each", large, "ours send, 16 KB batches", at_least=1.2),
        figure("batch.size=16384 1 KB, no future", large, "ours produce, 16 KB batches", at_least=1.2),
        figure("defaults 100 B, asyncio", small, "ours asyncio send", "aiokafka send", at_least=6),
        figure("defaults 1 KB, asyncio", large, "ours asyncio send", "aiokafka send", at_least=6),
        figure("1 KB, no future, beside the ceiling", large, "ours produce", "bare sender"),
        figure("1 KB, confluent-kafka beside the ceiling", large, CONFLUENT, "bare sender"),
        figure("100 B, lists of 1000", small, "ours send_many", at_least=4),
        figure("100 B, Arrow tables of 10,000", small, "ours send_arrow", at_least=4),
        figure("100 B, theirs with a queue of a million", small, "ours send", "confluent, queue of a million"),
        figure("1 KB, theirs with a queue of a million", large, "ours send", "confluent, queue of a million"),
        figure("100 B, theirs with a callback for each", small, "ours send", "confluent with callback"),
        figure("100 B, beside kafka-python", small, "ours send", "kafka-python send"),
        figure("CPU per record, 100 B, a future for each", small, "ours send", what="cpu_us", at_most=1),
        figure("CPU per record, 100 B, no future", small, "ours produce", what="cpu_us", at_most=1),
        figure("CPU per record, 100 B, 16 KB batches", small, "ours send, 16 KB batches", what="cpu_us", at_most=1),
        figure("CPU per record, 1 KB", large, "ours send", what="cpu_us", at_most=1),
        figure("CPU per record, 1 KB, 16 KB batches", large, "ours send, 16 KB batches", what="cpu_us", at_most=1),
        figure("CPU per record, lists", small, "ours send_many", what="cpu_us", at_most=1),
        figure("CPU per record, Arrow tables", small, "ours send_arrow", what="cpu_us", at_most=1),
        figure("CPU per record, asyncio", small, "ours asyncio send", "aiokafka send", "cpu_us", at_most=1),
    ]
    return [line for found in lines for line in found]


def main() -> None:
    from bench.walk.figures import markdown, table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", metavar="KIND", choices=KINDS, help="measure these kinds and no others")
    parser.add_argument("--part", choices=("box", "100", "1000"), help="out of the box, 100 B or 1 KB alone")
    parser.add_argument("--markdown", action="store_true")
    wanted = parser.parse_args()
    found = figures(wanted.rounds, wanted.records, wanted.only, wanted.part)
    print(markdown(found) if wanted.markdown else table(found))


if __name__ == "__main__":
    main()
