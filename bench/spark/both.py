"""What both sides have in common: a broker, a topic full of rows, a Spark session that knows both connectors."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
from bench.walk.processes import BrokerProcess
from tests.conformance.kafka_jars import JarsMissing, find_jars

import ottla

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "rows"
PARTITIONS: Final = 2
VALUE_BYTES: Final = 100
OURS: Final = "ottla"
THEIRS: Final = "kafka"


class Both:
    def __init__(self, directory: Path, rows: int, rounds: int, *, by_connect: bool = False) -> None:
        self.directory = directory
        self._by_connect = by_connect
        self.rows = rows
        self.rounds = rounds
        self.why_alone: str | None = None
        self.spark: SparkSession
        self.servers = ""
        self._stack = contextlib.ExitStack()
        self._numbers = 0

    def __enter__(self) -> Self:
        data = self.directory / "data"
        data.mkdir()
        broker = self._stack.enter_context(BrokerProcess(data))
        self.broker_pid = broker.pid
        self.servers = f"127.0.0.1:{broker.port}"
        if not self._by_connect:
            self._fill()
        self.spark = self._session()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def sides(self) -> list[str]:
        return [OURS, THEIRS] if self.why_alone is None else [OURS]

    def turns(self, measure: Callable[[str], float]) -> dict[str, list[float]]:
        """What each side gives, in turns; the first turn of each only warms it up."""
        found: dict[str, list[float]] = {side: [] for side in self.sides}
        for number in range(self.rounds + 1):
            order = self.sides if number % 2 else self.sides[::-1]
            for side in order:
                value = measure(side)
                if number:
                    found[side].append(value)
        return found

    def reading(self, side: str, **options: str) -> DataFrame:
        reader = self.spark.read.format(side).option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", TOPIC).options(**options).load()

    def new_name(self) -> str:
        self._numbers += 1
        return f"out-{self._numbers}"

    def new_topic(self) -> str:
        name = self.new_name()
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([ottla.NewTopic(name, PARTITIONS, 1)])
        return name

    def new_directory(self) -> Path:
        self._numbers += 1
        return self.directory / f"checkpoint-{self._numbers}"

    def _fill(self) -> None:
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([ottla.NewTopic(TOPIC, PARTITIONS, 1)])
        chunk = 50_000
        values = pa.array([os.urandom(VALUE_BYTES) for _ in range(chunk)], pa.binary())
        settings = {"batch_size": 262_144, "linger_ms": 5}
        with ottla.Producer(bootstrap_servers=self.servers, **settings) as producer:
            for number in range(0, self.rows, chunk):
                places = pa.array([number // chunk % PARTITIONS] * chunk, pa.int32())
                producer.send_arrow(TOPIC, pa.RecordBatch.from_arrays([values, places], ["value", "partition"]))

    def _session(self) -> SparkSession:
        from ottla.spark import session
        from ottla.spark.pipelines.connecting import open_session

        settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"}
        try:
            settings["spark.jars"] = ",".join(str(jar) for jar in find_jars("spark-4.3", "spark").glob("*.jar"))
        except JarsMissing as reason:
            self.why_alone = str(reason)
        if self._by_connect:
            log = self.directory / "spark.log"
            return self._stack.enter_context(open_session("bench", master="local[2]", settings=settings, log=log))
        made = session("bench", master="local[2]", settings=settings)
        self._stack.callback(made.stop)
        made.sparkContext.setLogLevel("ERROR")
        return made


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
