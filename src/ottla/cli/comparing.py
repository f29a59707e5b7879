"""Whether the replicas of a partition have the same records: a function of the bytes that each of them sent.

1. What is compared is what a reader gets: offset, time, key, value and headers of every record. Bytes may differ
   where a replica was compacted on its own.
2. Only as far as every replica sent whole batches: `next_offset` is where to go on reading.
3. A record that only some replicas have is a difference, unless the topic is compacted: then each replica cleans when
   it likes, and only records that several of them have are compared.
4. A batch whose checksum is wrong is a difference of that replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records import Record, RecordStream

SHOWN_LIMIT: Final = 5


class Difference(NamedTuple):
    """Where replicas are not the same, and how."""

    offset: int
    what: str


class Compared(NamedTuple):
    """The differences, how many records were compared, and where to go on; None when some replica sent nothing."""

    differences: list[Difference]
    records: int
    next_offset: int | None


class _Read(NamedTuple):
    records: dict[int, Record]
    next_offset: int
    damage: str | None


def compare(parts: Mapping[int, bytes], start: int, limit: int, *, is_compacted: bool = False) -> Compared:
    """What each broker sent from `start` on, compared up to `limit`."""
    read = {broker: _records(data, start, limit) for broker, data in parts.items()}
    damaged = [Difference(start, f"broker {broker}: {each.damage}") for broker, each in read.items() if each.damage]
    if damaged:
        return Compared(damaged, 0, None)
    end = min(min(each.next_offset for each in read.values()), limit)
    if end <= start:
        silent = [broker for broker, each in read.items() if each.next_offset <= start]
        what = f"broker {', '.join(map(str, silent))} has no record from here on, and others do"
        several = any(each.next_offset > start for each in read.values())
        return Compared([Difference(start, what)] if several else [], 0, None)
    offsets = sorted({offset for each in read.values() for offset in each.records if offset < end})
    differences = [found for offset in offsets if (found := _different(offset, read, is_compacted)) is not None]
    return Compared(differences, len(offsets), end)


def _records(data: bytes, start: int, limit: int) -> _Read:
    found: dict[int, Record] = {}
    end = start
    try:
        for batch in RecordStream(data):
            batch.check()
            found.update((record.offset, record) for record in batch if start <= record.offset < limit)
            end = batch.next_offset
    except CorruptMessage as error:
        return _Read(found, end, f"damaged: {error}")
    return _Read(found, end, None)


def _different(offset: int, read: Mapping[int, _Read], is_compacted: bool) -> Difference | None:
    have = {broker: each.records[offset] for broker, each in read.items() if offset in each.records}
    missing = sorted(set(read) - set(have))
    if missing and not is_compacted:
        return Difference(offset, f"missing on broker {', '.join(map(str, missing))}")
    first, *others = sorted(have)
    unlike = [broker for broker in others if have[broker] != have[first]]
    if unlike:
        return Difference(offset, f"another record on broker {', '.join(map(str, unlike))} than on {first}")
    return None
