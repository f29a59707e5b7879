"""What a producer does in drawn sequences of sends, turns, answers, errors, time-outs, splits, transactions, as text.

Run by test_twins_agree.py once with the native leaf and once with its Python twin: the text must be the same, byte for
byte. Everything the outside can see is in it: the bytes of every batch in the order of the requests, decisions and
their times, futures, callbacks, the memory that is free.

    OTTLA_RECORDS=native python twin_trace.py FIRST_SEED SEED_COUNT
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

from ottla.errors import OttlaError

_spec = importlib.util.spec_from_file_location("producing", Path(__file__).with_name("producing.py"))
assert _spec is not None
assert _spec.loader is not None
producing = importlib.util.module_from_spec(_spec)
sys.modules["producing"] = producing
_spec.loader.exec_module(producing)

STEPS = 150
BENDS = ("ok",) * 6 + ("hang up before", "hang up after", "not leader", "not enough replicas after append")
ACTIONS = (
    ("send",) * 10 + ("turn",) * 4 + ("answer",) * 4 + ("flush", "move", "restart", "close node") + ("transaction",) * 3
)


class Trace:
    """One world and the text about it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        batch_bytes = self.chance.choice([200, 1000, 40_000])
        self.world = producing.World(
            partitions=self.chance.choice([1, 2, 4, 70]),
            batch_bytes=batch_bytes,
            memory_bytes=self.chance.choice([3_000 + 2 * batch_bytes, 10**6]),
            in_flight_limit=self.chance.choice([1, 2, 5]),
            idempotent=self.chance.random() < 0.8,
            delivery_limit_ms=self.chance.choice([300, 10**9]),
            request_limit_bytes=self.chance.choice([600, 1 << 20]),
            retries=self.chance.choice([0, 3, 1000]),
            transactional_id=self.chance.choice([None, None, "who"]),
        )
        self.outcome: Any = None  # of the last call of a transaction
        manager = self.world.manager
        if manager is not None and manager.is_transactional:
            manager.set_features(self.chance.choice([0, 2]))
            self.world.accumulator.admit = manager.maybe_add_partition
            self.outcome = manager.initialize()
        limit_bytes = self.chance.choice([150, 1 << 20])
        for log in self.world.logs:
            log.size_limit_bytes = limit_bytes
        self.lines: list[str] = []
        self.futures: list[Any] = []
        self._split = self.world.accumulator.split
        self.world.accumulator.split = self.split

    def run(self) -> list[str]:
        self.turn()
        for number in range(STEPS):
            getattr(self, self.chance.choice(ACTIONS).replace(" ", "_"))(number)
        self.world.accumulator.change_flushing(1)
        for _ in range(60):
            self.turn()
            self.world.network.closed.clear()
            for node_id, requests in self.world.network.requests.items():
                while requests:
                    self.world.answer(node_id)
            self.world.now_ms += 60
        for future in self.futures:
            self.lines.append(f"{future!r} {future.metadata()} {future.done() and future.exception(0)!r}")
        failed = self.world.failures.take()
        self.lines.append(f"{failed} {self.world.accumulator.pool.available_bytes} {len(self.world.sender.in_flight)}")
        return self.lines

    def send(self, number: int) -> None:
        world = self.world
        partition = self.chance.choice([None, None, self.chance.randrange(world.metadata.count)])
        key = self.chance.choice([None, b"k%d" % self.chance.randrange(5)]) if partition is None else None
        if key is not None:
            partition = world.state.partition_of(key)
        value = b"%04d" % number + b"x" * self.chance.choice([5, 60, 400])
        try:
            found = world.send(value, partition, key)
        except OttlaError as error:
            self.lines.append(f"refused {number} {error!r}")
            return
        if hasattr(found, "is_granted"):
            self.lines.append("no memory")
            world.accumulator.leave(found)
            return
        self.futures.append(found)
        if self.chance.random() < 0.3:
            found.add_delivery_callback(
                lambda metadata, error: self.lines.append(f"told {number} {metadata} {error!r}")
            )

    def transaction(self, number: int) -> None:
        """Begin one, or end the one that is open; one call at a time."""
        manager = self.world.manager
        if manager is None or not manager.is_transactional or not self.is_over():
            return
        state = manager.state.name
        if state == "READY":
            manager.begin()
        elif state == "IN_TRANSACTION" and self.chance.random() < 0.7:
            self.outcome = manager.begin_commit()
        elif state in ("IN_TRANSACTION", "ABORTABLE_ERROR"):
            self.outcome = manager.begin_abort()
        self.lines.append(f"{number} {state} to {manager.state.name}, {manager.identity}")

    def is_over(self) -> bool:
        """Whether the last call has ended; whoever called is told so."""
        if self.outcome is not None and self.outcome.done:
            self.lines.append(f"{self.outcome.operation} ended with {self.outcome.error!r}")
            with contextlib.suppress(OttlaError):
                self.outcome.acknowledge()
            self.outcome = None
        return self.outcome is None

    def split(self, batch: Any, limit_bytes: int, now_ms: float) -> Any:
        """What the sender calls for a batch that was too large."""
        parts = self._split(batch, limit_bytes, now_ms)
        self.lines.append(f"split at {now_ms} {[self.world.bytes_of(part).hex() for part in parts]}")
        return parts

    def turn(self, number: int = 0) -> None:
        world = self.world
        world.now_ms += self.chance.choice([0, 1, 5, 50, 200])
        for decision in world.turn():
            batches = getattr(decision, "batches", ())
            shown = [(batch.queue.name, world.bytes_of(batch).hex(), repr(batch.stamp)) for batch in batches]
            self.lines.append(f"{world.now_ms} {type(decision).__name__} {shown or _words(decision)}")
        self.lines.append(f"{world.sender.is_saturated} {world.accumulator.pool.available_bytes}")

    def answer(self, number: int) -> None:
        waiting = [node_id for node_id, requests in self.world.network.requests.items() if requests]
        if waiting:
            self.world.answer(self.chance.choice(waiting), self.chance.choice(BENDS))

    def flush(self, number: int) -> None:
        self.world.accumulator.change_flushing(1)
        self.turn()
        self.world.accumulator.change_flushing(-1)

    def move(self, number: int) -> None:
        self.world.metadata.version += 1
        self.world.metadata.leaderless = {0} if self.chance.random() < 0.3 else set()

    def restart(self, number: int) -> None:
        self.chance.choice(self.world.logs).restart()

    def close_node(self, number: int) -> None:
        self.world.network.closed = {self.chance.choice([1, 2])} if self.chance.random() < 0.5 else set()


def _words(decision: Any) -> str:
    error = getattr(decision, "error", None)
    return f"{error!r}" if error is not None else str(decision) if not hasattr(decision, "planned") else ""


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(first, first + count):
        print(f"seed {seed}")
        print("\n".join(Trace(seed).run()))


if __name__ == "__main__":
    main()
