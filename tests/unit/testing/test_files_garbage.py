"""After a power cut, room that was given to a file and not synced may have anything in it; what was synced has not."""

from __future__ import annotations

from pathlib import Path

from ottla.testing.files import MemoryFiles

PATH = Path("/file")


def left_after_a_crash(seed: int) -> bytes:
    files = MemoryFiles(seed=seed)
    file = files.open(PATH, create=True)
    files.sync_directory(PATH.parent)
    file.write_at(0, [b"synced"])
    file.sync()
    file.write_at(3, [b"CED and more"])  # over the end
    files.crash()
    return files.read_bytes(PATH)


def test_unsynced_room_may_have_zeros_or_garbage_but_synced_bytes_are_old_or_new():
    found = {left_after_a_crash(seed) for seed in range(300)}
    assert all(each[:3] == b"syn" and len(each) >= 6 for each in found)
    assert all(one in (old, old - 32) for each in found for one, old in zip(each[3:6], b"ced", strict=True))
    assert b"synced" + bytes(9) in found
    assert any(set(each[6:]) - set(b"\0 and more") for each in found), "garbage"
