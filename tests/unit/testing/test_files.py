"""The twin loses what a disk may lose, and nothing it may not lose."""

import errno
from pathlib import Path

import pytest

from ottla.errors import DiskFull, KafkaStorageError
from ottla.storage.files import DirectoryInUse
from ottla.testing import files as twin
from ottla.testing.files import MemoryFiles, Operation

ROOT = Path("/data")
FILE = ROOT / "a"


def filled(seed: int = 0, content: bytes = b"synced") -> MemoryFiles:
    """A file whose bytes and name are on the disk."""
    files = MemoryFiles(seed=seed)
    files.make_directory(ROOT)
    files.sync_directory(Path("/"))
    files.replace_bytes(FILE, content)
    files.trace.clear()
    return files


def contents(seeds: range, change) -> set[bytes]:
    """What the file holds after `change` and a crash, over many seeds."""
    found = set()
    for seed in seeds:
        files = filled(seed)
        change(files)
        files.crash()
        found.add(files.read_bytes(FILE))
    return found


# --- crashes ---------------------------------------------------------------------------------------------------------


def test_what_is_synced_survives_every_crash():
    def write_and_sync(files):
        file = files.open(FILE)
        file.write_at(6, [b" and more"])
        file.sync()

    assert contents(range(50), write_and_sync) == {b"synced and more"}


def test_an_unsynced_append_is_lost_kept_or_torn_at_any_byte():
    def append(files):
        files.open(FILE).write_at(6, [b"abc"])

    found = contents(range(400), append)
    assert {b"synced", b"syncedabc", b"synceda", b"syncedab"} <= found
    assert b"synced\0b" in found  # torn at its start: the file has grown, the first byte never came


def test_of_several_unsynced_writes_any_subset_may_survive():
    def write_twice(files):
        file = files.open(FILE)
        file.write_at(0, [b"X"])
        file.write_at(5, [b"Y"])

    assert contents(range(200), write_twice) == {b"synced", b"Xynced", b"synceY", b"XynceY"}


def test_an_unsynced_cut_may_be_undone():
    assert contents(range(50), lambda files: files.open(FILE).truncate(2)) == {b"synced", b"sy"}


def test_a_crash_can_be_told_to_keep_nothing_or_everything():
    for keep, content, names in (("nothing", b"synced", ["a"]), ("everything", b"Xynced", ["a", "b"])):
        files = filled()
        files.open(FILE).write_at(0, [b"X"])
        files.open(ROOT / "b", create=True)
        files.crash(keep)
        assert (files.read_bytes(FILE), files.list_directory(ROOT)) == (content, names)


def test_syncing_a_file_does_not_keep_its_name():
    files = filled()
    file = files.open(ROOT / "b", create=True)
    file.write_at(0, [b"x"])
    file.sync(metadata=True)
    files.crash("nothing")
    assert files.list_directory(ROOT) == ["a"]


def test_a_synced_name_of_an_unsynced_file_survives_without_its_bytes():
    files = filled()
    files.open(ROOT / "b", create=True).write_at(0, [b"x"])
    files.sync_directory(ROOT)
    files.crash("nothing")
    assert files.read_bytes(ROOT / "b") == b""


def test_names_are_lost_from_the_end_only():
    found = set()
    for seed in range(100):
        files = filled(seed)
        files.open(ROOT / "b", create=True)
        files.rename(FILE, ROOT / "c")
        files.remove(ROOT / "b")
        files.crash()
        found.add(tuple(files.list_directory(ROOT)))
    assert found == {("a",), ("a", "b"), ("b", "c"), ("c",)}


def test_syncing_one_directory_does_not_keep_the_names_of_another():
    files = filled()
    files.make_directory(ROOT / "t-0")
    files.open(ROOT / "t-0" / "f", create=True)
    files.sync_directory(ROOT / "t-0")
    files.crash("nothing")
    assert files.list_directory(ROOT) == ["a"]


def test_a_directory_that_was_being_removed_may_come_back_with_a_part():
    found = set()
    for seed in range(100):
        files = filled(seed)
        files.make_directory(ROOT / "t")
        for name in ("x", "y"):
            files.open(ROOT / "t" / name, create=True)
        files.sync_directory(ROOT / "t")
        files.sync_directory(ROOT)
        files.remove_directory(ROOT / "t")
        files.crash()
        found.add(tuple(files.list_directory(ROOT / "t")) if files.exists(ROOT / "t") else None)
    assert found == {None, (), ("y",), ("x", "y")}


def test_handles_and_locks_of_the_life_before_are_dead():
    files = filled()
    file = files.open(FILE)
    before = files.lock(ROOT / ".lock")
    files.crash()
    with pytest.raises(KafkaStorageError):
        file.write_at(0, [b"x"])
    assert not files.open_files
    files.lock(ROOT / ".lock")
    before.release()
    with pytest.raises(DirectoryInUse):
        files.lock(ROOT / ".lock")


def test_the_same_seed_gives_the_same_crash():
    def state(seed):
        files = filled(seed)
        for n in range(20):
            files.open(ROOT / f"f{n}", create=True).write_at(0, [bytes(range(100))])
        files.crash()
        return [(name, files.read_bytes(ROOT / name)) for name in files.list_directory(ROOT)]

    assert state(3) == state(3)
    assert len({tuple(state(seed)) for seed in range(10)}) > 1


@pytest.mark.parametrize("keep", ["any", "nothing", "everything"])
def test_a_crash_at_any_step_of_a_replacement_leaves_the_old_or_the_new_content(keep):
    probe = filled(content=b"the old content")
    probe.replace_bytes(FILE, b"NEW")
    assert [each.kind for each in probe.trace] == [
        *("open", "truncate", "write", "sync", "close", "rename", "sync_directory"),
    ]
    found = []
    for step in range(1, len(probe.trace) + 2):
        for seed in range(40 if keep == "any" else 1):
            files = filled(seed, b"the old content")
            files.fail(step, for_ever=True)  # nothing after this step happens
            try:
                files.replace_bytes(FILE, b"NEW")
                finished = True
            except KafkaStorageError:
                finished = False
            files.crash(keep)
            content = files.read_bytes(FILE)
            assert content == b"NEW" if finished else content in (b"the old content", b"NEW")
            files.replace_bytes(FILE, b"again")
            assert files.read_bytes(FILE) == b"again"
            found.append(content)
    assert {b"the old content", b"NEW"} == set(found)


def test_a_replacement_without_the_sync_in_the_middle_would_be_noticed():
    def careless(files):
        file = files.open(ROOT / "a.tmp", create=True)
        file.write_at(0, [b"NEW"])
        file.close()
        files.rename(ROOT / "a.tmp", FILE)
        files.sync_directory(ROOT)

    assert b"" in contents(range(50), careless)


# --- a full disk -----------------------------------------------------------------------------------------------------


def test_a_write_without_room_is_cut_back_and_goes_through_when_there_is_room():
    files = filled()
    files.fill(free_bytes=3)
    file = files.open(FILE)
    assert files.free_bytes(ROOT) == 3
    with pytest.raises(DiskFull, match="No space left"):
        file.write_at(6, [b"abcd"])
    assert file.read_at(0, 100) == b"synced"
    file.write_at(6, [b"abc"])
    with pytest.raises(DiskFull):
        file.write_at(9, [b"x"])
    file.write_at(0, [b"S"])  # what is there already needs no room
    files.fill(free_bytes=1)
    file.write_at(9, [b"x"])
    assert file.read_at(0, 100) == b"Syncedabcx"


def test_a_full_disk_keeps_what_fits_inside_a_longer_file():
    files = filled()
    file = files.open(FILE)
    file.truncate(100)
    files.fill(free_bytes=2)
    with pytest.raises(DiskFull):
        file.write_at(6, [b"abcd"])
    assert file.size() == 100
    assert file.read_at(0, 10) == b"syncedab\0\0"


def test_a_hole_takes_no_room_until_it_is_written():
    files = filled()
    before = files.free_bytes(ROOT)
    file = files.open(ROOT / "b", create=True)
    file.truncate(10 << 20)
    assert files.free_bytes(ROOT) == before
    file.write_at(0, [bytes(8)])
    assert files.free_bytes(ROOT) == before - 8
    file.sync()
    files.sync_directory(ROOT)
    files.crash()
    assert files.size(ROOT / "b") == 10 << 20


def test_removing_makes_room():
    files = filled()
    files.fill(free_bytes=0)
    files.remove(FILE)
    assert files.free_bytes(ROOT) == len(b"synced")


def test_the_twin_is_bounded():
    files = MemoryFiles(capacity_bytes=100)
    with pytest.raises(DiskFull):
        files.open(Path("/a"), create=True).write_at(0, [bytes(101)])


# --- failures --------------------------------------------------------------------------------------------------------


def test_the_nth_operation_fails_once():
    files = filled()
    file = files.open(FILE)
    files.fail(2)
    file.write_at(0, [b"A"])
    with pytest.raises(KafkaStorageError, match="Input/output error"):
        file.write_at(1, [b"B"])
    file.write_at(2, [b"C"])
    assert file.read_at(0, 3) == b"AyC"


def test_every_operation_from_the_nth_on_fails_until_the_crash():
    files = filled()
    files.fail(1, for_ever=True)
    for _ in range(3):
        with pytest.raises(KafkaStorageError):
            files.read_bytes(FILE)
    files.crash()
    assert files.read_bytes(FILE) == b"synced"


def test_a_failure_can_be_chosen_by_what_is_done_to_which_file():
    files = filled()
    files.fail(lambda each: each.kind == "write" and each.path == ROOT / "b", errno.ENOSPC)
    files.open(FILE).write_at(0, [b"x"])
    other = files.open(ROOT / "b", create=True)
    with pytest.raises(DiskFull):
        other.write_at(0, [b"x"])
    other.write_at(0, [b"x"])


def test_a_failed_sync_is_not_a_full_disk():
    files = filled()
    file = files.open(FILE)
    for kind, sync in (("sync", file.sync), ("sync_directory", lambda: files.sync_directory(ROOT))):
        files.fail(lambda each, kind=kind: each.kind == kind, errno.ENOSPC)
        with pytest.raises(KafkaStorageError) as caught:
            sync()
        assert type(caught.value) is KafkaStorageError


def test_a_sync_after_a_failed_sync_does_not_save_what_the_first_one_lost():
    def sync_twice(files):
        file = files.open(FILE)
        file.write_at(0, [b"X"])
        files.fail(1)
        with pytest.raises(KafkaStorageError):
            file.sync()
        assert file.read_at(0, 1) == b"X"
        file.sync()

    assert contents(range(50), sync_twice) == {b"synced", b"Xynced"}


def test_a_name_lost_by_a_failed_sync_of_its_directory_stays_lost():
    found = set()
    for seed in range(30):
        files = filled(seed)
        files.open(ROOT / "b", create=True)
        files.fail(1)
        with pytest.raises(KafkaStorageError):
            files.sync_directory(ROOT)
        files.sync_directory(ROOT)
        files.crash()
        found.add(tuple(files.list_directory(ROOT)))
    assert found == {("a",), ("a", "b")}


# --- the rest --------------------------------------------------------------------------------------------------------


def test_a_bit_flips_for_readers_and_on_the_disk():
    files = filled()
    files.flip_bit(FILE, 8 * 2 + 1)
    flipped = b"sy" + bytes([ord("n") ^ 2]) + b"ced"
    assert files.read_bytes(FILE) == flipped
    files.crash("nothing")
    assert files.read_bytes(FILE) == flipped


def test_a_flipped_bit_does_not_make_unsynced_bytes_durable():
    files = filled()
    files.open(FILE).write_at(6, [b"abc"])
    files.flip_bit(FILE, 8 * 7)
    assert files.read_bytes(FILE) == b"syncedacc"
    files.crash("nothing")
    assert files.read_bytes(FILE) == b"synced"


def test_the_trace_tells_what_was_done_in_which_order():
    files = filled()
    file = files.open(FILE)
    file.write_at(2, [b"ab", b"c"])
    file.sync()
    files.rename(FILE, ROOT / "b")
    assert list(files.trace) == [
        Operation("open", FILE),
        Operation("write", FILE, 2, 3),
        Operation("sync", FILE),
        Operation("rename", FILE, target=ROOT / "b"),
    ]


def test_open_files_are_counted():
    files = filled()
    file = files.open(FILE)
    assert [each.path for each in files.open_files] == [FILE]
    file.close()
    assert not files.open_files
    assert file.fileno() is None


def test_changes_take_the_time_of_the_given_clock():
    now = [5]
    files = MemoryFiles(now_ms=lambda: now[0])
    file = files.open(Path("/a"), create=True)
    now[0] = 9
    file.write_at(0, [b"x"])
    assert files.modified_ms(Path("/a")) == 9


def test_the_oldest_unsynced_changes_reach_the_disk_by_themselves(monkeypatch):
    monkeypatch.setattr(twin, "PENDING_LIMIT", 3)
    files = filled()
    file = files.open(FILE)
    for n in range(5):
        file.write_at(n, [b"%d" % n])
        files.open(ROOT / f"f{n}", create=True)
    files.crash("nothing")
    assert files.read_bytes(FILE) == b"01nced"
    assert files.list_directory(ROOT) == ["a", "f0", "f1"]


def test_a_rename_across_directories_is_refused_in_words():
    files = filled()
    with pytest.raises(ValueError, match="different directories"):
        files.rename(FILE, Path("/b"))
