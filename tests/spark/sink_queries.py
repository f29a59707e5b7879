"""What Spark does with a sink for one batch, without Spark: write() for each task, then commit() of the messages."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow
from pyspark.sql.types import StructType
from tests.patience import wait_until
from tests.spark.test_sink_kills import committed

from ottla import Admin, NewTopic
from ottla.spark.sink.stream_writer import StreamSink

SCHEMA = StructType().add("value", "string")
PARTITIONS, ROWS = 3, 6


def rows_of(batch: int, task: int) -> list[str]:
    return [f"{batch}/{task}/{number}" for number in range(ROWS)]


def arrow(values: list[str]) -> Any:
    return pyarrow.record_batch([pyarrow.array(values, pyarrow.string())], names=["value"])


class Query:
    """One streaming query; `sink_class` may watch the steps."""

    def __init__(self, broker: Any, topic: str, sink_class: type[StreamSink] = StreamSink, **options: str) -> None:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS)])
        self.broker, self.topic, self.sink_class = broker, topic, sink_class
        self.options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, **options}

    def sink(self) -> StreamSink:
        return self.sink_class(self.options, SCHEMA)

    def write(self, batch: int, task: int, batches: Iterable[Any] | None = None) -> Any:
        given = [arrow(rows_of(batch, task))] if batches is None else batches
        return pickle.loads(pickle.dumps(self.sink().write_task(self.topic, batch, task, iter(given))))

    def run(self, batch: int, tasks: int = 2) -> list[Any]:
        messages = [self.write(batch, task) for task in range(tasks)]
        self.sink().commit(messages, batch)
        return messages

    def check(self, batches: int, tasks: int = 2) -> None:
        expected = Counter(row for batch in range(batches) for task in range(tasks) for row in rows_of(batch, task))
        assert committed(self.broker, self.topic, expected.total()) == expected


SHORT = {"kafka.transaction.timeout.ms": "300", "driverRecovery": "0"}


def wait_until_aborted(broker: Any, transactional_id: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        describe = admin.describe_transactions
        wait_until(lambda: describe([transactional_id])[transactional_id].state == "CompleteAbort", "the abort")
