"""Whole Spark under kills: twelve shapes of streaming queries run at once, and their driver, Python workers and the
broker are killed; what is in the topics is what a batch computation gives, each row once.

`make test` kills a driver after its decision and a worker before its own; the long mode aims ten kills at each shape,
and kills the broker besides. Kills of the sink's steps alone, many more of them: test_sink_kills.py.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.our_broker import BrokerProcess
from tests.patience import HANG_S
from tests.postgres import postgres
from tests.postgres import why_not as no_postgres
from tests.spark.running import why_not

from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.spark.pipelines.postgres_batches import connected

__all__ = ["postgres"]  # a fixture

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PROGRAMS = Path(__file__).parent / "programs"
SHAPES = ["append", "complete", "update", "window", "dedup", "join", "state", "once", "two", "upsert", "whole"]
TOPICS = [*SHAPES, "two-more"]
FEW = 150  # `whole` has the counts below it, so keys vanish from it
NAMES, WINDOW_S, CLOSING = 5, 20, "closing"
BEGIN_S = 1_000  # Spark's first watermark is 0, and what is not later than that is late
LIFE_LIMIT_S = 600
Row = tuple[str, str]

IN_A_TASK = [("write", 0, "self"), ("write:done", 1, "self"), ("takeover:done", 0, "self"), ("look", 1, "driver")]
IN_A_WRITE = [("write:done", 0, "driver"), ("takeover:done", 0, "driver-alone")]
IN_A_COMMIT = [("end", 0, "driver"), ("end:done", 0, "driver"), ("commit:done", 0, "driver"), ("end:done", 1, "driver")]
TEN_KILLS = [*IN_A_TASK, *IN_A_WRITE, *IN_A_COMMIT]
TEN_IN_A_TABLE = [(point, 0, "driver") for point in ("line", "written", "done", "line", "done") * 2]


class Events:
    """What is in the source, and what each shape makes of it."""

    def __init__(self, count: int) -> None:
        numbers = [number for number in range(count) for _ in range(2 if number % 4 == 0 else 1)]  # every fourth twice
        self.events = [{"id": number, "name": f"n{number % NAMES}", "at": BEGIN_S + number} for number in numbers]
        self.answers = [{"id": number, "at": BEGIN_S + number + 1} for number in range(0, count, 3)]

    def fill(self, broker: BrokerProcess) -> None:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(topic, 2) for topic in ["events", "answers", *TOPICS]])
        with Producer(bootstrap_servers=servers) as producer:
            for topic, records in (("events", self.events), ("answers", self.answers)):
                for partition in range(2):
                    of_partition = [record for record in records if record["id"] % 2 == partition]
                    producer.send_many(topic, [json.dumps(record) for record in of_partition], partition=partition)

    def rows(self, shape: str) -> Counter[Row]:
        """What is to be in the topic of a shape that writes each result once."""
        once = Counter((event["name"], str(event["id"])) for event in self.events)
        if shape == "window":
            windows = Counter((event["name"], event["at"] // WINDOW_S * WINDOW_S) for event in self.events)
            return Counter((name, f"{start}/{count}") for (name, start), count in windows.items())
        if shape == "dedup":
            return Counter(dict.fromkeys(once, 1))
        if shape == "join":
            answered = {str(answer["id"]) for answer in self.answers}
            return Counter({(name, number): count for (name, number), count in once.items() if number in answered})
        if shape == "state":
            numbers = ((name, f"{name}/{n + 1}") for name, count in self.counts().items() for n in range(count))
            return Counter(numbers)
        return once

    def counts(self) -> Counter[str]:
        return Counter(event["name"] for event in self.events)


class Kills:
    """Lives of the driver until all is written, with faults on its way."""

    def __init__(
        self,
        broker: BrokerProcess,
        directory: Path,
        kills: dict[str, list[tuple[str, int, str]]],
        per_batch: int = 200,
        jdbc: str | None = None,
    ) -> None:
        self.faults = [
            {
                "point": point,
                "task": task,
                "batch": number // 2,
                "victim": victim,
                "topic": shape,
                "once": str(directory / f"fault-{shape}-{number}"),
            }
            for shape, planned in kills.items()
            for number, (point, task, victim) in enumerate(planned)
        ]
        self._plan = {
            "servers": broker.bootstrap_servers,
            "directory": str(directory / "checkpoints"),
            "per_batch": per_batch,
            "faults": self.faults,
            "shapes": [*SHAPES, *(["jdbc"] if jdbc else [])],
            "jdbc": jdbc,
        }
        (directory / "checkpoints").mkdir()

    @property
    def struck(self) -> list[str]:
        """The shapes of the faults that have happened."""
        return [fault["topic"] for fault in self.faults if Path(fault["once"]).exists()]

    def live(self) -> int:
        """One life of the driver; gives how it ended, a negative number for a signal."""
        driver = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "shape_queries.py"), json.dumps(self._plan)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PYTHONPATH", "")])},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return driver.wait(LIFE_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            raise

    def live_until_all_is_written(self, lives: int) -> list[int]:
        ends = []
        while not ends or ends[-1] != 0:
            assert len(ends) < lives, ends
            ends.append(self.live())
        return ends


def committed(broker: BrokerProcess, topic: str) -> list[tuple[str, str | None]]:
    """Keys and values that a reader of committed records sees, but for what closed the windows."""
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    rows: list[tuple[str, str | None]] = []
    with Consumer(bootstrap_servers=broker.bootstrap_servers, **settings) as consumer:
        partitions = [TopicPartition(topic, index) for index in range(2)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        deadline_s = time.monotonic() + HANG_S
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            assert time.monotonic() < deadline_s, f"{topic} is held back by an open transaction"
            records = consumer.poll(0.2)
            rows += [(record.key.decode(), record.value and record.value.decode()) for record in records]
    return [row for row in rows if row[0] != CLOSING]


def check(broker: BrokerProcess, events: Events) -> None:
    """Everything is there once."""
    for topic in TOPICS:
        rows = committed(broker, topic)
        if topic in ("complete", "update", "upsert"):
            check_totals(topic, rows, events.counts())
        elif topic == "whole":
            last = {name: total for name, total in dict(rows).items() if total is not None}
            assert last == {name: str(total) for name, total in events.counts().items() if total < FEW}
        else:
            expected = events.rows(topic)
            wrong = {row: (count, expected[row]) for row, count in Counter(rows).items() if count != expected[row]}
            assert (topic, wrong, set(expected) - set(rows)) == (topic, {}, set())


def check_totals(topic: str, rows: list[Row], counts: Counter[str]) -> None:
    """The last one is right, and none is smaller than the one before; in update mode none is there twice."""
    totals: dict[str, list[int]] = {}
    for name, total in rows:
        totals.setdefault(name, []).append(int(total))
    assert {name: values[-1] for name, values in totals.items()} == counts, topic
    for values in totals.values():
        assert values == sorted(values), topic
        assert topic == "complete" or len(values) == len(set(values)), topic


def check_table(url: str, events: Events) -> None:
    """The totals are in the table, too."""
    with connected({"url": url}) as connection:
        rows = connection.execute("SELECT name, count FROM totals").fetchall()
    assert {name: total for name, total in rows if name != CLOSING} == events.counts()


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> str | None:
    """A database for the shape that writes a table, where there is one."""
    if no_postgres() is not None:
        return None
    return f"jdbc:postgresql://{request.getfixturevalue('postgres')}/postgres?user=postgres"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as made:
        yield made


def test_every_shape_has_each_row_once_after_kills_of_driver_and_worker(broker, tmp_path):
    events = Events(100)
    events.fill(broker)
    aimed = {
        "append": [("write", 1, "self"), ("end:done", 0, "driver")],
        "state": [("write:done", 0, "self")],
        "two": [("takeover:done", 1, "self")],
        "upsert": [("write:done", 1, "self")],
    }
    kills = Kills(broker, tmp_path, aimed, per_batch=80)
    ends = kills.live_until_all_is_written(lives=3)
    assert ends == [-signal.SIGKILL, 0]
    assert sorted(kills.struck) == ["append", "append", "state", "two", "upsert"]
    check(broker, events)


class BrokerKiller(threading.Thread):
    """Kills the broker and starts it again, at random moments, so often."""

    def __init__(self, broker: BrokerProcess, times: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._broker, self._left, self._chance = broker, times, random.Random(seed)
        self._is_over = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while self._left and not self._is_over.wait(self._chance.uniform(2, 6)):
                self._broker.kill()
                self._broker.start()
                self._left -= 1
        except Exception as error:
            self.failure = error

    def stop(self) -> int:
        """How many kills were left; the broker is up."""
        self._is_over.set()
        self.join()
        assert self.failure is None, self.failure
        return self._left


@pytest.mark.long
def test_ten_kills_aimed_at_each_shape(broker, tmp_path, table):
    events = Events(1200)
    events.fill(broker)
    aimed = dict.fromkeys(TOPICS, TEN_KILLS) | ({"jdbc": TEN_IN_A_TABLE} if table else {})
    kills = Kills(broker, tmp_path, aimed, jdbc=table)
    ends = kills.live_until_all_is_written(lives=180)
    missed = Counter(dict.fromkeys(aimed, len(TEN_KILLS))) - Counter(kills.struck)
    print(f"{len(ends)} lives, {len(kills.struck)} kills; not reached: {dict(missed)}")
    assert all(Counter(kills.struck)[shape] >= len(TEN_KILLS) - 2 for shape in aimed), missed
    check(broker, events)
    if table:
        check_table(table, events)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_ten_kills_of_the_broker_under_all_shapes(broker, tmp_path, seed):
    events = Events(1200)
    events.fill(broker)
    kills = Kills(broker, tmp_path, {})
    killer = BrokerKiller(broker, times=10, seed=seed)
    killer.start()
    ends = kills.live_until_all_is_written(lives=40)
    left = killer.stop()
    print(f"{len(ends)} lives, {10 - left} kills of the broker")
    assert not left, "all was written before ten kills"
    check(broker, events)
