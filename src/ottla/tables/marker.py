"""The marker of a table: which offsets its rows have. It stands in the table and changes with its rows, in one commit.

    Iceberg   one property of the table, PROPERTY, whose text is JSON
    Delta     transactions of applications, each with a number: ottla/<topic id>/epoch and ottla/<topic id>/<partition>

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
from collections.abc import Mapping
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple

PROPERTY: Final = "ottla.marker"
APPLICATION: Final = "ottla"
EPOCH: Final = "epoch"
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
    prefix = f"{APPLICATION}/{marker.topic_id}"
    offsets = {f"{prefix}/{partition}": offset for partition, offset in sorted(marker.next_offsets.items())}
    return {f"{prefix}/{EPOCH}": marker.epoch, **offsets}


def read_transactions(versions: Mapping[str, int]) -> Marker | None:
    """The marker among all transactions of a Delta table; those of others are passed over."""
    ours = [name.split("/") for name in versions if name.startswith(f"{APPLICATION}/")]
    if not ours:
        return None
    topic_ids = {parts[1] for parts in ours}
    if len(topic_ids) > 1 or any(len(parts) != 3 for parts in ours):
        raise UnreadableMarker(f"it has transactions of several topics: {', '.join(sorted(topic_ids))}")
    (topic_id,) = topic_ids
    numbers = {parts[2]: _number(versions["/".join(parts)]) for parts in ours}
    if EPOCH not in numbers:
        raise UnreadableMarker(f"it has offsets of topic {topic_id}, and no epoch")
    epoch = numbers.pop(EPOCH)
    return Marker(topic_id, epoch, {_partition(partition): offset for partition, offset in numbers.items()})


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
