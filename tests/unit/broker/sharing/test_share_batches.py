"""Which batches of a slice are looked at: those that somebody can get, and not what lies behind them."""

from __future__ import annotations

from ottla.broker.sharing.batches import part_of, read_batches
from ottla.records import BatchBuilder, RecordBatch
from ottla.storage.segment.records_file import FileSlice

RECORDS = 10


class Bytes:
    """A file that knows how far it was read."""

    def __init__(self, content):
        self.content = content
        self.furthest = 0

    def read_at(self, position, size_bytes):
        self.furthest = max(self.furthest, position)
        return self.content[position : position + size_bytes]


def batch_at(offset):
    builder = BatchBuilder(base_offset=offset, size_limit_bytes=1 << 20)
    for _ in range(RECORDS):
        builder.append(0, None, bytes(4_000))
    return bytes(builder.close())


def sliced(count):
    batches = [batch_at(number * RECORDS) for number in range(count)]
    file = Bytes(b"".join(batches))
    return FileSlice(file, 0, len(file.content)), len(batches[0])


def test_all_batches_are_found_when_nobody_says_how_far():
    piece, _ = sliced(20)
    assert [(each.first, each.last) for each in read_batches(piece)] == [(at, at + 9) for at in range(0, 200, 10)]


def test_nothing_is_read_behind_the_batch_of_the_last_offset_that_is_wanted():
    piece, size_bytes = sliced(20)
    found = read_batches(piece, until=14)
    assert [(each.first, each.last) for each in found] == [(0, 9), (10, 19)]
    assert piece.file.furthest < 2 * size_bytes


def test_a_part_has_whole_batches():
    piece, size_bytes = sliced(20)
    part = part_of(piece, read_batches(piece, until=34), 12, 25)
    assert (part.position, part.size_bytes) == (size_bytes, 2 * size_bytes)
    assert RecordBatch(part.file.read_at(part.position, part.size_bytes)).base_offset == 10
