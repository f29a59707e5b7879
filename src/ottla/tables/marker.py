"""The marker of a table: which offsets its rows have. It stands in the table and changes with its rows, in one commit.

    Iceberg   one property of the table, PROPERTY, whose text is JSON
    Delta     transactions of applications, each a name and a number: ottla/epoch, ottla/<partition>, and beside them
              ottla/partitions (how many to ask for) and ottla/topic-0 to -2 (the id of the topic in pieces of 43 bits)

1. Nothing else is state: who starts reads the marker. Rows of all offsets below next_offsets are in the table, but for
   those that were deleted before they were read, which were told.
2. The epoch counts the writers of a table, as that of a producer does: who starts commits one more before it writes
   rows. A writer that finds another epoch is fenced. So a marker of my epoch was written by me, also when the answer of
   the commit was lost.
3. The id of the topic is that of the broker: a topic that was made anew under its name is another one.
4. What others wrote into the table is read with care: one that is no marker is an error, never no marker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple
from ottla.values import uuid_from_text, uuid_to_text

PROPERTY: Final = "ottla.marker"
APPLICATION: Final = "ottla"
EPOCH: Final = "epoch"
COUNT: Final = "partitions"
TOPIC: Final = "topic-"
TOPIC_PARTS: Final = 3
TOPIC_BITS: Final = 43
TOPIC_MASK: Final = (1 << TOPIC_BITS) - 1
PARTITIONS_MAX: Final = 1_000_000
NUMBER_MAX: Final = (1 << 63) - 1
PARTITION_MAX: Final = (1 << 31) - 1


class UnreadableMarker(OttlaError):
    """The table has a marker that cannot be read, so nobody knows which records it has. Restore an older version of the
    table, or begin another one."""


class Marker(NamedTuple):
    """How far a table is."""

    topic_id: str
    epoch: int
    next_offsets: Mapping[int, int]


def written_text(marker: Marker) -> str:
    """The property of an Iceberg table."""
    offsets = {str(partition): offset for partition, offset in sorted(marker.next_offsets.items())}
    return json.dumps({"topic_id": marker.topic_id, EPOCH: marker.epoch, "next_offsets": offsets})


def read_text(text: str | None) -> Marker | None:
    """The marker in such a property; None where there is no property."""
    if text is None:
        return None
    try:
        value = json.loads(text)
        topic_id, epoch, offsets = value["topic_id"], value[EPOCH], value["next_offsets"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnreadableMarker(f"the property {PROPERTY} is none of ours: {text[:100]!r}") from None
    if not isinstance(topic_id, str) or not isinstance(offsets, dict):
        raise UnreadableMarker(f"the property {PROPERTY} is none of ours: {text[:100]!r}")
    found = {_partition(partition): _number(offset) for partition, offset in offsets.items()}
    return Marker(topic_id, _number(epoch), found)


def written_transactions(marker: Marker) -> dict[str, int]:
    """The transactions of a commit to a Delta table."""
    value = int.from_bytes(uuid_from_text(marker.topic_id), "big")
    numbers = {f"{TOPIC}{part}": value >> part * TOPIC_BITS & TOPIC_MASK for part in range(TOPIC_PARTS)}
    numbers |= {EPOCH: marker.epoch, COUNT: 1 + max(marker.next_offsets, default=-1)}
    numbers |= {str(partition): offset for partition, offset in sorted(marker.next_offsets.items())}
    return {f"{APPLICATION}/{name}": number for name, number in numbers.items()}


def read_transactions(version_of: Callable[[str], int | None]) -> Marker | None:
    """The marker of a Delta table that is asked for each transaction by its name; None when there is none of ours."""
    epoch = version_of(f"{APPLICATION}/{EPOCH}")
    if epoch is None:
        return None
    parts = [version_of(f"{APPLICATION}/{TOPIC}{part}") for part in range(TOPIC_PARTS)]
    count = version_of(f"{APPLICATION}/{COUNT}")
    if count is None or not 0 <= count <= PARTITIONS_MAX or not all(_is_part(part) for part in parts):
        raise UnreadableMarker("its transactions have an epoch, and do not say of which topic and partitions")
    value = sum(part << number * TOPIC_BITS for number, part in enumerate(parts) if part is not None)
    if value >> 128:
        raise UnreadableMarker("its transactions name a topic that cannot be")
    offsets = {number: version_of(f"{APPLICATION}/{number}") for number in range(count)}
    known = {partition: _number(offset) for partition, offset in offsets.items() if offset is not None}
    return Marker(uuid_to_text(value.to_bytes(16, "big")), _number(epoch), known)


def _is_part(number: int | None) -> bool:
    return number is not None and 0 <= number <= TOPIC_MASK


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise UnreadableMarker(f"{str(value)[:100]!r} is no offset and no epoch")
    return value


def _partition(text: str) -> int:
    if (
        not (text.isascii() and text.isdecimal())
        or len(text) > 10
        or int(text) > PARTITION_MAX
        or str(int(text)) != text
    ):
        raise UnreadableMarker(f"{text[:100]!r} is no partition")
    return int(text)
