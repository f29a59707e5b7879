"""What the calls of the faces may be given: topics, partitions, offsets, times.

1. What cannot be used is a TypeError or a ValueError of the call itself that says what was given and what is wanted.
   Further in it would come up in another thread, or in a request that all callers share.
2. Whole numbers may be of any kind that Python takes for an index (numpy's, too).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from operator import index
from typing import Any, TypeVar

from ottla.values import OffsetAndMetadata, TopicPartition

K = TypeVar("K")
V = TypeVar("V")


def topic_of(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise TypeError(f"the name of a topic is text that is not empty, not {given!r}")
    return given


def topics_of(given: Iterable[str] | str) -> list[str]:
    """One name, or several."""
    return [topic_of(given)] if isinstance(given, str) else [topic_of(each) for each in _all(given, "names of topics")]


def pattern_of(given: object) -> re.Pattern[str]:
    try:
        return re.compile(given)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise TypeError(f"a pattern is text or a compiled regular expression, not {given!r}") from None
    except re.error as error:
        raise ValueError(f"{given!r} is no regular expression: {error}") from None


def partition_of(given: object) -> TopicPartition:
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(f"a partition is TopicPartition(topic, partition), not {given!r}")
    number = whole_number(given[1], "the number of a partition")
    if number < 0:
        raise ValueError(f"the number of a partition is 0 or more, not {number}")
    return TopicPartition(topic_of(given[0]), number)


def partitions_of(given: Iterable[object]) -> list[TopicPartition]:
    if isinstance(given, TopicPartition):
        raise TypeError(f"a list of partitions is wanted, not one: write [{given!r}]")
    return [partition_of(each) for each in _all(given, "partitions")]


def offset_of(given: object) -> OffsetAndMetadata:
    """An offset as it is committed; a number stands for itself."""
    return given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(whole_number(given, "an offset"))


def time_ms_of(given: object) -> int:
    time_ms = whole_number(given, "a time")
    if time_ms < 0:
        raise ValueError("times are milliseconds since 1970, 0 or more; for the ends use beginning_offsets()")
    return time_ms


def by_partition(given: Mapping[Any, Any], value_of: Callable[[Any], V]) -> dict[TopicPartition, V]:
    if not isinstance(given, Mapping):
        raise TypeError(f"a mapping of partitions is wanted, {{TopicPartition(topic, partition): ...}}, not {given!r}")
    return {partition_of(name): value_of(each) for name, each in given.items()}


def whole_number(given: object, what: str) -> int:
    try:
        return index(given)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} is a whole number, not {given!r}") from None


def seconds_of(given: float) -> float:
    """How long to wait."""
    if not isinstance(given, int | float):
        raise TypeError(f"a timeout is a number of seconds, not {given!r}")
    return given


def callable_of(given: Any, what: str) -> Any:
    if not callable(given):
        raise TypeError(f"{what} is a function, not {given!r}")
    return given


def _all(given: Iterable[K], what: str) -> list[K]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{what} are wanted in a list, not {given!r}")
    return list(given)
