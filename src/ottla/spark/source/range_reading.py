"""What a task does: fetch its ranges, decode them, hand out Arrow batches in exactly the shape that Spark wants.

1. Every record of the ranges that is there, once, in the order of offsets within a range; what is gone raises DataLost
   or is reported and skipped (failOnDataLoss). The rules are in client/consumer/ranges.py, the reading itself in
   client/consumer/range_reader.py.
2. Only the columns of `schema` are decoded. Keys and values become what keyFormat and valueFormat say (formats.py).
3. Connections are kept between the tasks of a worker process: Spark forks its workers from a daemon and uses them
   again. At most READERS_MAX stay open, each for IDLE_S after its last task. A reader belongs to the process that made
   it and to one task at a time; one whose task failed is not used again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.client.consumer.range_reader import RangeReader
from ottla.client.consumer.ranges import DataLost, Range, ReadTimedOut
from ottla.spark.formats.formats import RowFormats

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.source.options import SourceOptions

__all__ = ["DataLost", "ReadTimedOut", "read_ranges"]

READERS_MAX: Final = 8
IDLE_S: Final = 60.0


def read_ranges(
    options: SourceOptions, ranges: Sequence[Range], schema: pyarrow.Schema
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of these ranges, with the columns of `schema`."""
    formats = RowFormats(options, schema)
    # Whoever reads ranges needs no group; kafka.group.id is for what the driver asks and commits.
    settings = {name: value for name, value in options.client_settings("consumer").items() if name != "group.id"}
    reader = _kept.take(settings)
    is_sound = False
    try:
        for batch in reader.read(
            ranges,
            formats.raw_schema,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=options.poll_timeout_ms,
        ):
            yield formats.decoded(batch)
        is_sound = True
    except GeneratorExit:
        is_sound = True  # nobody wants the rest: a query with a limit
        raise
    finally:
        if is_sound:
            _kept.give_back(settings, reader)
        else:
            reader.close()


class KeptReaders:
    """Readers that wait for the next task of this process, by the settings that they were made with."""

    def __init__(
        self,
        make: Callable[[Mapping[str, object]], RangeReader] = RangeReader,
        *,
        readers_max: int = READERS_MAX,
        idle_s: float = IDLE_S,
        timer: Callable[[float, Callable[[], None]], Any] | None = None,
    ) -> None:
        self._make = make
        self._readers_max = readers_max
        self._idle_s = idle_s
        self._timer = timer or _daemon_timer
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: list[tuple[frozenset[tuple[str, str]], RangeReader, Any]] = []

    def take(self, settings: Mapping[str, object]) -> RangeReader:
        """One that waits, else a new one."""
        self._notice_fork()
        key = _key(settings)
        with self._lock:
            for index, (kept_key, reader, timer) in enumerate(self._waiting):
                if kept_key == key:
                    del self._waiting[index]
                    timer.cancel()
                    return reader
        return self._make(settings)

    def give_back(self, settings: Mapping[str, object], reader: RangeReader) -> None:
        """Keep it for the next task; the one idle longest is closed for it."""
        self._notice_fork()
        if not reader.is_usable:
            return
        timer = self._timer(self._idle_s, lambda: self._close_idle(reader))
        with self._lock:
            self._waiting.append((_key(settings), reader, timer))
            surplus = self._waiting[: -self._readers_max]
            del self._waiting[: -self._readers_max]
        for _, old, old_timer in surplus:
            old_timer.cancel()
            old.close()

    def _close_idle(self, reader: RangeReader) -> None:
        with self._lock:
            kept = len(self._waiting)
            self._waiting = [each for each in self._waiting if each[1] is not reader]
            is_mine = len(self._waiting) < kept
        if is_mine:
            reader.close()

    def close(self) -> None:
        """Close all that wait."""
        self._notice_fork()
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, reader, timer in waiting:
            timer.cancel()
            reader.close()

    def _notice_fork(self) -> None:
        """What the parent keeps is the parent's: its threads and its lock did not come along."""
        if os.getpid() != self._pid:
            self._begin()


def _key(settings: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    return frozenset((name, str(value)) for name, value in settings.items())


def _daemon_timer(seconds: float, call: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer


_kept: Final = KeptReaders()
