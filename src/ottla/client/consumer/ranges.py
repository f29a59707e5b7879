"""Reading ranges of offsets: what is decided about them. Plain: no socket, no clock, no thread.

A range is a topic, a partition, the first offset and the one behind the last. It is read when the position has reached
its end, and what compaction, transactions and their markers left out between is no loss. What is one:

    asked for          the log has             lost
    [start, end)       begins behind start     up to where it begins: retention or DeleteRecords took it
    [start, end)       ends before end         what the log never had, or has no more: it was cut off or made again
    a topic by its id  another id              all that was not read yet: the topic was deleted and made again

1. A partition has one position, so ranges of the same partition are read one after the other, in waves.
2. With read_committed a log seems to end where the oldest open transaction began. As long as its high watermark is at
   the end of the range or behind it, nothing is lost: the transaction will end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition


class DataLost(OttlaError):
    """Records that were to be read are gone: retention or DeleteRecords took them, or the topic was deleted, cut off or
    made again. Read from where the log begins now, keep records longer, or allow the loss (failOnDataLoss=false)."""


class ReadTimedOut(OttlaError):
    """No record came in time, though the log should have them. See whether the brokers can be reached; raise the
    time-out (kafkaConsumer.pollTimeoutMs) if they are only slow."""


class Range(Protocol):
    """Offsets of one partition: from `start`, up to but without `end`; with an id (Kafka's text form) of that topic."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def topic_id(self) -> str | None: ...


class TopicRange(NamedTuple):
    """A Range."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = None


class Lost(NamedTuple):
    """Offsets that nobody can give any more, and why; `is_sure` when the broker said so and no change of leaders can
    make it look like that for a moment."""

    start: int
    end: int
    why: str
    is_sure: bool


def waves(ranges: Iterable[Range]) -> list[dict[TopicPartition, tuple[int, int]]]:
    """(start, end) by partition, cut so that no wave has a partition twice; empty ranges are nothing to read."""
    found: list[dict[TopicPartition, tuple[int, int]]] = []
    turns: dict[TopicPartition, int] = {}
    for each in ranges:
        if each.start < 0 or each.end < each.start:
            raise ValueError(f"offsets {each.start} to {each.end} of {each.topic}-{each.partition} are no range")
        if each.start == each.end:
            continue
        name = TopicPartition(each.topic, each.partition)
        turn = turns[name] = turns.get(name, -1) + 1
        if turn == len(found):
            found.append({})
        found[turn][name] = (each.start, each.end)
    return found


def find_loss(
    position: int, end: int, *, log_start: int | None, log_end: int | None, high_watermark: int | None
) -> Lost | None:
    """What is lost of [position, end) in a log from `log_start` to `log_end`, as far as these are known."""
    if log_start is not None and log_start > position:
        lost_end = min(log_start, end)
        return Lost(position, lost_end, f"the log begins at offset {log_start} now", is_sure=True)
    if log_end is None:
        return None
    last = max(log_end, high_watermark if high_watermark is not None else log_end)
    # What is there is read first; only who stands at the end, or behind it, misses the rest.
    if last < end and position >= log_end:
        return Lost(position, end, f"the log ends at offset {last}", is_sure=False)
    return None


def sentence(name: TopicPartition, lost: Lost) -> str:
    return f"offsets {lost.start} to {lost.end - 1} of {name} are gone: {lost.why}"
