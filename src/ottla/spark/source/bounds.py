"""From what the options say about begin and end to an offset for each partition.

1. Offsets or times that are listed one by one must name every partition that is read, and no other: a partition that
   was forgotten would be read from a place nobody chose.
2. A starting time that no record has reached is an error, or the end (startingOffsetsByTimestampStrategy=latest); an
   ending time that no record has reached is the end.
3. What the group of startingGroupId has committed wins over the other starting options.
4. Offsets that somebody chose (one by one, or by a commit) are exact: if they are gone, something is lost. "earliest"
   and times are not: the first record there is when it is read is what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from ottla.light_tuples import NamedTuple
from ottla.spark.option_table import InvalidOption
from ottla.spark.source.option_rows import EARLIEST, LATEST, Bound
from ottla.spark.source.options import SourceOptions
from ottla.values import TopicPartition

NAMED_LIMIT: Final = 10

Positions = dict[TopicPartition, int]


class Places(Protocol):
    """What is asked of the cluster; TopicPositions answers it."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions: ...
    def latest(self, partitions: Iterable[TopicPartition]) -> Positions: ...
    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...
    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> Positions: ...


class Begin(NamedTuple):
    """Where a new query begins, and which of these offsets somebody chose exactly."""

    positions: Positions
    exact: frozenset[TopicPartition]


def starting_positions(
    options: SourceOptions,
    partitions: frozenset[TopicPartition],
    places: Places,
    wanted: frozenset[TopicPartition] | None = None,
) -> Begin:
    """Where a new query begins, in all its partitions or in those that are wanted."""
    wanted = partitions if wanted is None else wanted
    group_id = options.starting_group_id
    found = {} if group_id is None else places.committed(group_id, wanted)
    chosen = {each for each, offset in (options.starting.offsets or {}).items() if offset >= 0}
    exact = frozenset(found) | (chosen & wanted)
    rest = wanted - found.keys()
    if rest:
        found |= _resolved("starting", options.starting, rest, partitions, places, options.timestamp_strategy)
    return Begin(found, exact)


def ending_positions(
    options: SourceOptions,
    partitions: frozenset[TopicPartition],
    places: Places,
    wanted: frozenset[TopicPartition] | None = None,
) -> Positions:
    """Where a batch ends, in all its partitions or in those that are wanted."""
    wanted = partitions if wanted is None else wanted
    return _resolved("ending", options.ending, wanted, partitions, places, "latest")


def _resolved(
    side: str,
    bound: Bound,
    wanted: frozenset[TopicPartition],
    partitions: frozenset[TopicPartition],
    places: Places,
    strategy: str,
) -> Positions:
    if bound.place is not None:
        return _of_places(dict.fromkeys(wanted, bound.place), places)
    if bound.offsets is not None:
        _check_named(f"{side}Offsets", bound.offsets, partitions)
        return _of_places({each: bound.offsets[each] for each in wanted}, places)
    if bound.timestamps_ms is not None:
        _check_named(f"{side}OffsetsByTimestamp", bound.timestamps_ms, partitions)
        return _of_times({each: bound.timestamps_ms[each] for each in wanted}, places, strategy)
    assert bound.timestamp_ms is not None, "a bound says one thing"
    return _of_times(dict.fromkeys(wanted, bound.timestamp_ms), places, strategy)


def _of_places(offsets: Mapping[TopicPartition, int], places: Places) -> Positions:
    earliest = places.earliest([each for each, offset in offsets.items() if offset == EARLIEST])
    latest = places.latest([each for each, offset in offsets.items() if offset == LATEST])
    return {**offsets, **earliest, **latest}


def _of_times(times_ms: Mapping[TopicPartition, int], places: Places, strategy: str) -> Positions:
    found = places.at_times(times_ms)
    without = sorted(each for each, offset in found.items() if offset is None)
    if without and strategy == "error":
        raise InvalidOption(
            f"no record is as late as the starting time in {_named(without)}; choose an earlier time, or set"
            " startingOffsetsByTimestampStrategy=latest to begin these at their end"
        )
    return {each: offset for each, offset in found.items() if offset is not None} | places.latest(without)


def _check_named(option: str, named: Mapping[TopicPartition, int], partitions: frozenset[TopicPartition]) -> None:
    forgotten, unknown = sorted(partitions - named.keys()), sorted(named.keys() - partitions)
    if forgotten:
        raise InvalidOption(f"{option} must name every partition, and {_named(forgotten)} is missing; -2 is earliest")
    if unknown:
        raise InvalidOption(f"{option} names {_named(unknown)}, which the query does not read or which does not exist")


def _named(partitions: list[TopicPartition]) -> str:
    names = ", ".join(str(each) for each in partitions[:NAMED_LIMIT])
    return names if len(partitions) <= NAMED_LIMIT else f"{names} and {len(partitions) - NAMED_LIMIT} more"
