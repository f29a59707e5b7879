"""Portions of files in memory that is used again."""

from pathlib import Path

import pytest

from ottla.broker.network import portions
from ottla.broker.network.portions import read_portion
from ottla.errors import KafkaStorageError
from ottla.storage.files import DiskFiles
from ottla.storage.segment.records_file import FileSlice


@pytest.fixture
def piece(tmp_path: Path) -> FileSlice:
    portions._spares.clear()
    file = DiskFiles().open(tmp_path / "file", create=True)
    file.write_at(0, [bytes(range(200))])
    return FileSlice(file, 50, 150)


def test_a_portion_is_what_stands_in_the_file(piece: FileSlice) -> None:
    assert read_portion(piece, 0, 10) == bytes(range(50, 60))
    assert read_portion(piece, 140, 10) == bytes(range(190, 200))


def test_memory_is_used_again_only_when_nobody_holds_it(piece: FileSlice) -> None:
    first = read_portion(piece, 0, 10)
    second = read_portion(piece, 10, 10)
    assert (first, second) == (bytes(range(50, 60)), bytes(range(60, 70)))
    memory = first.obj
    del first
    assert read_portion(piece, 20, 10).obj is memory
    assert second == bytes(range(60, 70))


def test_where_the_file_ends_there_is_less(piece: FileSlice) -> None:
    piece.file.truncate(55)
    assert read_portion(piece, 0, 10) == bytes(range(50, 55))


def test_what_goes_wrong_is_told_by_the_file(piece: FileSlice) -> None:
    piece.file.close()
    with pytest.raises(KafkaStorageError):
        read_portion(piece, 0, 10)
