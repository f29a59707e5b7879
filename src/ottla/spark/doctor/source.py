"""format("ottla-doctor"): every task reports the Python process that it runs in, as a row.

    spark.read.format("ottla-doctor").option("tasks", 8).option("kafka.bootstrap.servers", "broker:9092").load().show()

Spark finds it, plans it and runs its tasks in the same way as format("ottla"): what these rows show, queries will meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.spark.running.arrival import Arriving
from ottla.spark.running.worker_exit import exit_quietly_when_closed

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME: Final = "ottla-doctor"
TASKS: Final = "tasks"
TASKS_MAX: Final = 10_000
CLIENT_PREFIX: Final = "kafka."

exit_quietly_when_closed()


class DoctorSource(Arriving, DataSource):
    """A row for each task."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        from ottla.spark.doctor.facts import COLUMNS

        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        count = max(1, min(TASKS_MAX, int(self.options.get(TASKS, "1"))))
        client = {
            name.removeprefix(CLIENT_PREFIX): value
            for name, value in dict(self.options).items()
            if name.startswith(CLIENT_PREFIX)
        }
        return DoctorReader(count, client)


class DoctorReader(Arriving, DataSourceReader):
    """Asks the process that runs the task."""

    def __init__(self, count: int, client: Mapping[str, str]) -> None:
        self._count = count
        self._client = client

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._count)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from ottla.spark.doctor.facts import collect_facts

        yield tuple(collect_facts(self._client))
