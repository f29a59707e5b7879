"""Room ahead of a large file: asked for in time, never seen by a reader, given back by a segment that is complete."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ottla.native import is_native
from ottla.storage import reserving
from ottla.storage.files import DiskFiles
from ottla.storage.reserving import MOST_BYTES, SHARE, room_ahead
from ottla.storage.segment.records_file import RESERVES_FROM_BYTES, RecordsFile
from ottla.testing.files import MemoryFiles

PIECE = bytes(1 << 20)


class Wishes:
    """A file that only counts, and grants or refuses room."""

    def __init__(self, *, grants: bool) -> None:
        self.grants = grants
        self.asked: list[tuple[int, int]] = []
        self.cut: list[int] = []

    def write_at(self, position, buffers):
        return sum(map(len, buffers))

    def reserve(self, position, size_bytes):
        self.asked.append((position, size_bytes))
        return self.grants

    def truncate(self, size_bytes):
        self.cut.append(size_bytes)


def filled(file, megabytes):
    records = RecordsFile(file, 0)
    for _ in range(megabytes):
        records.append([PIECE])
    return records


def test_a_small_file_asks_for_none():
    file = Wishes(grants=True)
    filled(file, RESERVES_FROM_BYTES // len(PIECE) - 1).trim()
    assert (file.asked, file.cut) == ([], [])


def test_a_large_file_gets_an_eighth_up_to_a_bound():
    assert room_ahead(RESERVES_FROM_BYTES) == RESERVES_FROM_BYTES // SHARE
    assert room_ahead(1 << 30) == MOST_BYTES


def test_room_is_asked_for_where_the_last_room_ends():
    file = Wishes(grants=True)
    filled(file, 40)
    assert file.asked[0] == (RESERVES_FROM_BYTES, RESERVES_FROM_BYTES // SHARE)
    ends = [position + size for position, size in file.asked]
    assert all(end <= position for end, (position, _) in zip(ends, file.asked[1:], strict=False))
    assert ends[-1] > 40 << 20


def test_who_is_refused_does_not_ask_again_before_the_file_is_cut():
    file = Wishes(grants=False)
    records = filled(file, 20)
    assert len(file.asked) == 1
    records.trim()
    assert file.cut == []
    records.truncate(RESERVES_FROM_BYTES)
    records.append([PIECE])
    assert len(file.asked) == 2


def test_room_is_given_back_once():
    file = Wishes(grants=True)
    records = filled(file, 9)
    records.trim()
    records.trim()
    assert file.cut == [9 << 20]


def test_room_does_not_move_the_end_and_is_gone_after_the_roll(tmp_path):
    files = DiskFiles()
    file = files.open(tmp_path / "records", create=True)
    try:
        records = filled(file, 12)
        assert file.size() == 12 << 20
        assert file.read_at(11 << 20, 2 << 20) == PIECE
        records.trim()
        assert file.size() == 12 << 20
        assert (tmp_path / "records").stat().st_blocks * 512 <= (12 << 20) + 65_536
    finally:
        file.close()


@pytest.mark.skipif(
    sys.platform != "linux" or not is_native("ottla.storage._reserving"), reason="the native leaf was not built"
)
def test_the_leaf_answers_what_its_twin_does_or_reserves_without_moving_the_end(tmp_path):
    from ottla.storage._reserving import reserve

    assert reserve(0x7FFF_FFFF, 0, 4096) is reserving.reserve(0x7FFF_FFFF, 0, 4096) is False
    with (tmp_path / "records").open("wb") as file:
        was_reserved = reserve(file.fileno(), 0, 1 << 20)
        found = os.fstat(file.fileno())
    assert found.st_size == 0
    assert (found.st_blocks * 512 >= 1 << 20) is was_reserved


def test_the_disk_in_memory_has_none_to_give():
    file = MemoryFiles().open(Path("/records"), create=True)
    assert file.reserve(0, 4096) is False
