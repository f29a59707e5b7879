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


def topic_of(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"the name of a topic is text that is not empty, not {value!r}")
    return value


def topics_of(value: Iterable[str] | str) -> list[str]:
    """One name, or several."""
    return [topic_of(value)] if isinstance(value, str) else [topic_of(each) for each in _all(value, "names of topics")]


def pattern_of(value: object) -> re.Pattern[str]:
    try:
        return re.compile(value)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise TypeError(f"a pattern is text or a compiled regular expression, not {value!r}") from None
    except re.error as error:
        raise ValueError(f"{value!r} is no regular expression: {error}") from None


def partition_of(value: object) -> TopicPartition:
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"a partition is TopicPartition(topic, partition), not {value!r}")
    number = whole_number(value[1], "the number of a partition")
    if number < 0:
        raise ValueError(f"the number of a partition is 0 or more, not {number}")
    return TopicPartition(topic_of(value[0]), number)


def partitions_of(value: Iterable[object]) -> list[TopicPartition]:
    if isinstance(value, TopicPartition):
        raise TypeError(f"a list of partitions is wanted, not one: write [{value!r}]")
    return [partition_of(each) for each in _all(value, "partitions")]


def offset_of(value: object) -> OffsetAndMetadata:
    """An offset as it is committed; a number stands for itself."""
    return value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(whole_number(value, "an offset"))


def time_ms_of(value: object) -> int:
    time_ms = whole_number(value, "a time")
    if time_ms < 0:
        raise ValueError("times are milliseconds since 1970, 0 or more; for the ends use beginning_offsets()")
    return time_ms


def by_partition(value: Mapping[Any, Any], value_of: Callable[[Any], V]) -> dict[TopicPartition, V]:
    if not isinstance(value, Mapping):
        raise TypeError(f"a mapping of partitions is wanted, {{TopicPartition(topic, partition): ...}}, not {value!r}")
    return {partition_of(name): value_of(each) for name, each in value.items()}


def whole_number(value: object, what: str) -> int:
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} is a whole number, not {value!r}") from None


def seconds_of(value: float) -> float:
    """How long to wait."""
    if not isinstance(value, int | float):
        raise TypeError(f"a timeout is a number of seconds, not {value!r}")
    if value != value:  # NaN compares with nothing, so the wait would have no end
        raise ValueError("a timeout is a number of seconds, not NaN")
    return value


def callable_of(value: Any, what: str) -> Any:
    if not callable(value):
        raise TypeError(f"{what} is a function, not {value!r}")
    return value


def _all(value: Iterable[K], what: str) -> list[K]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{what} are wanted in a list, not {value!r}")
    return list(value)
