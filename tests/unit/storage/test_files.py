"""One suite for the disk and its twin in memory; what only the real disk can show follows after it."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.errors import DiskFull, KafkaStorageError, TooManyOpenFiles
from ottla.storage import files as files_module
from ottla.storage.files import DirectoryInUse, DiskFiles, Files, storage_error
from ottla.testing.files import MemoryFiles


@pytest.fixture(params=["disk", "memory"])
def kind(request):
    return request.param


@pytest.fixture
def files(kind) -> Files:
    return DiskFiles() if kind == "disk" else MemoryFiles()


@pytest.fixture
def root(kind, files, tmp_path) -> Path:
    path = tmp_path / "log dirs" / "one"
    files.make_directory(path)
    return path


def written(files: Files, path: Path, content: bytes) -> Path:
    file = files.open(path, create=True)
    file.write_at(0, [content])
    file.close()
    return path


# --- reading and writing ---------------------------------------------------------------------------------------------


def test_what_is_written_is_read_at_any_position(files, root):
    file = files.open(root / "a", create=True)
    assert file.write_at(0, [b"hello ", bytearray(b"wor"), memoryview(b"ld")]) == 11
    assert file.read_at(0, 100) == b"hello world"
    assert file.read_at(6, 3) == b"wor"
    assert file.read_at(11, 5) == b""
    assert file.read_at(500, 5) == b""
    assert file.read_at(3, 0) == b""
    assert file.size() == files.size(root / "a") == 11
    assert file.path == root / "a"
    file.close()


def test_a_write_in_the_middle_changes_only_its_bytes(files, root):
    file = files.open(written(files, root / "a", b"0123456789"))
    assert file.write_at(3, [b"abc"]) == 3
    assert files.read_bytes(root / "a") == b"012abc6789"
    file.close()


def test_a_write_beyond_the_end_leaves_zeros_between(files, root):
    file = files.open(written(files, root / "a", b"ab"))
    file.write_at(5, [b"c"])
    assert files.read_bytes(root / "a") == b"ab\0\0\0c"
    file.close()


def test_nothing_is_written_for_no_bytes(files, root):
    file = files.open(root / "a", create=True)
    assert file.write_at(7, [b""]) == 0
    assert file.size() == 0
    file.close()


def test_more_buffers_than_one_call_takes_are_all_written(files, root):
    pieces = [bytes([n % 251]) * (n % 3) for n in range(5000)]
    file = files.open(root / "a", create=True)
    assert file.write_at(0, pieces) == len(b"".join(pieces))
    assert file.read_at(0, 1 << 20) == b"".join(pieces)
    file.close()


def test_truncate_cuts_and_grows_with_zeros(files, root):
    file = files.open(written(files, root / "a", b"0123456789"))
    file.truncate(4)
    assert file.read_at(0, 100) == b"0123"
    file.truncate(6)
    assert file.read_at(0, 100) == b"0123\0\0"
    file.truncate(10 << 20)
    assert file.size() == 10 << 20
    assert file.read_at((10 << 20) - 2, 100) == b"\0\0"
    file.write_at(5, [b"x"])
    assert file.size() == 10 << 20
    assert file.read_at(0, 8) == b"0123\0x\0\0"
    file.close()


def test_sync_works_on_files_and_directories(files, root):
    file = files.open(root / "a", create=True)
    file.write_at(0, [b"x"])
    file.sync()
    file.sync(metadata=True)
    file.close()
    files.sync_directory(root)


def test_a_file_opened_again_is_left_as_it_is(files, root):
    written(files, root / "a", b"kept")
    files.open(root / "a", create=True).close()
    assert files.read_bytes(root / "a") == b"kept"


def test_a_closed_file_refuses_everything(files, root):
    file = files.open(written(files, root / "a", b"abc"))
    file.close()
    file.close()
    for use in (
        file.size,
        file.sync,
        lambda: file.read_at(0, 1),
        lambda: file.write_at(0, [b"x"]),
        lambda: file.truncate(0),
    ):
        with pytest.raises(KafkaStorageError):
            use()
    assert files.read_bytes(root / "a") == b"abc"


def test_a_file_opened_for_reading_refuses_changes(files, root):
    file = files.open(written(files, root / "a", b"abc"), read_only=True)
    assert file.read_at(1, 2) == b"bc"
    with pytest.raises(KafkaStorageError, match="cannot write"):
        file.write_at(0, [b"x"])
    with pytest.raises(KafkaStorageError, match="cannot truncate"):
        file.truncate(0)
    file.close()


def test_a_negative_position_is_refused(files, root):
    file = files.open(written(files, root / "a", b"abc"))
    with pytest.raises(KafkaStorageError):
        file.read_at(-1, 1)
    with pytest.raises(KafkaStorageError):
        file.write_at(-1, [b"x"])
    file.close()


def test_a_removed_file_can_still_be_read_by_who_has_it_open(files, root):
    file = files.open(written(files, root / "a", b"abc"))
    files.remove(root / "a")
    assert not files.exists(root / "a")
    assert file.read_at(0, 3) == b"abc"
    file.close()


# --- names -----------------------------------------------------------------------------------------------------------


def test_missing_files_stay_file_not_found(files, root):
    for use in (
        files.open,
        files.size,
        files.modified_ms,
        files.list_directory,
        files.remove,
        files.remove_directory,
        files.sync_directory,
        files.read_bytes,
        files.free_bytes,
        lambda path: files.rename(path, root / "b"),
        lambda path: files.open(path / "below", create=True),
        lambda path: files.set_modified_ms(path, 5),
        lambda path: files.replace_bytes(path / "below", b""),
        lambda path: files.lock(path / ".lock"),
    ):
        with pytest.raises(FileNotFoundError):
            use(root / "none")
    files.remove(root / "none", missing_ok=True)
    assert not files.exists(root / "none")
    assert not files.is_directory(root / "none")
    assert files.list_directory(root) == []


def test_names_are_listed_sorted(files, root):
    for name in ("b", "a", ".c"):
        written(files, root / name, b"")
    files.make_directory(root / "d")
    assert files.list_directory(root) == [".c", "a", "b", "d"]
    assert files.is_directory(root / "d")
    assert files.exists(root / "d")
    assert not files.is_directory(root / "a")
    assert not files.exists(root / "a" / "below")


def test_a_directory_that_exists_is_left_as_it_is(files, root):
    files.make_directory(root / "x" / "y")
    written(files, root / "x" / "y" / "f", b"1")
    files.make_directory(root / "x" / "y")
    assert files.list_directory(root / "x" / "y") == ["f"]


def test_a_rename_replaces_a_file(files, root):
    written(files, root / "a", b"new")
    written(files, root / "b", b"old")
    files.rename(root / "a", root / "b")
    assert files.list_directory(root) == ["b"]
    assert files.read_bytes(root / "b") == b"new"


def test_a_directory_is_renamed_with_what_is_in_it(files, root):
    files.make_directory(root / "t-0")
    written(files, root / "t-0" / "f", b"1")
    files.rename(root / "t-0", root / "t-0.x-delete")
    assert files.list_directory(root) == ["t-0.x-delete"]
    assert files.read_bytes(root / "t-0.x-delete" / "f") == b"1"


def test_a_rename_does_not_replace_a_directory_that_holds_something(files, root):
    written(files, root / "file", b"1")
    for name in ("a", "b"):
        files.make_directory(root / name)
        written(files, root / name / "f", b"")
    for old, new in (("a", "b"), ("file", "b"), ("a", "file")):
        with pytest.raises(KafkaStorageError, match="cannot rename"):
            files.rename(root / old, root / new)
    assert files.list_directory(root) == ["a", "b", "file"]


def test_a_directory_is_removed_with_everything_in_it(files, root):
    files.make_directory(root / "x" / "y")
    written(files, root / "x" / "f", b"1")
    written(files, root / "x" / "y" / "g", b"1")
    files.remove_directory(root / "x")
    assert files.list_directory(root) == []


def test_files_and_directories_are_not_mixed_up(files, root):
    written(files, root / "a", b"")
    files.make_directory(root / "d")
    for use in (
        lambda: files.open(root / "d"),
        lambda: files.open(root / "d", read_only=True),
        lambda: files.read_bytes(root / "d"),
        lambda: files.remove(root / "d"),
        lambda: files.list_directory(root / "a"),
        lambda: files.sync_directory(root / "a"),
        lambda: files.remove_directory(root / "a"),
        lambda: files.make_directory(root / "a"),
    ):
        with pytest.raises(KafkaStorageError):
            use()
    assert files.list_directory(root) == ["a", "d"]


def test_the_time_of_the_last_change_can_be_read_and_set(files, root):
    written(files, root / "a", b"")
    files.set_modified_ms(root / "a", 1_700_000_000_123)
    assert files.modified_ms(root / "a") == 1_700_000_000_123


def test_a_read_only_file_is_its_owners_and_nobody_opens_it_for_writing(kind, files, root):
    file = files.open(root / "a", create=True)
    files.make_read_only(root / "a")
    file.write_at(0, [b"by who had it open"])
    file.close()
    assert (
        files.read_bytes(root / "a") == files.open(root / "a", read_only=True).read_at(0, 100) == b"by who had it open"
    )
    if kind == "disk":
        assert stat.S_IMODE((root / "a").stat().st_mode) == 0o400
    if kind == "memory" or os.geteuid() != 0:  # the kernel lets root do it
        with pytest.raises(KafkaStorageError):
            files.open(root / "a")
    files.replace_bytes(root / "a", b"another file")
    files.open(root / "a").close()


def test_there_is_room_on_the_disk(files, root):
    assert files.free_bytes(root) > 1 << 20


def test_a_detached_file_goes_on_for_those_who_have_it(files, root):
    file = files.open(written(files, root / "a", b"still here"))
    file.detach()
    assert file.read_at(0, 100) == b"still here"


# --- replacing -------------------------------------------------------------------------------------------------------


def test_a_replaced_file_holds_only_the_new_content(files, root):
    files.replace_bytes(root / "a", b"long old content")
    files.replace_bytes(root / "a", b"new")
    assert files.read_bytes(root / "a") == b"new"
    assert files.list_directory(root) == ["a"]


def test_what_an_earlier_crash_left_beside_a_file_does_not_get_into_it(files, root):
    written(files, root / "a.tmp", b"left behind, and longer")
    files.replace_bytes(root / "a", b"new")
    assert files.read_bytes(root / "a") == b"new"


def test_two_who_replace_a_file_at_once_do_not_write_into_each_others_copy():
    files = MemoryFiles()
    files.make_directory(Path("/data"))
    path, attempt = Path("/data/a"), files.attempt

    def interrupted(operation, **how):
        if operation.kind == "sync":  # the first copy is written and not renamed yet: the second one comes and goes
            files.attempt = attempt
            files.replace_bytes(path, b"second")
        attempt(operation, **how)

    files.attempt = interrupted
    files.replace_bytes(path, b"first, and longer")
    assert files.read_bytes(path) == b"first, and longer"
    assert files.list_directory(Path("/data")) == ["a"]


# --- locks -----------------------------------------------------------------------------------------------------------


def test_a_directory_is_locked_once(files, root):
    lock = files.lock(root / ".lock")
    for _ in range(2):  # a refusal must not loosen the lock that is held
        with pytest.raises(DirectoryInUse, match=str(root)) as caught:
            files.lock(root / ".lock")
    assert "log.dirs" in str(caught.value)
    lock.release()
    other = files.lock(root / ".lock")
    lock.release()  # again; it is not this one's to release any more
    with pytest.raises(DirectoryInUse):
        files.lock(root / ".lock")
    other.release()
    assert files.exists(root / ".lock")


# --- only the real disk ----------------------------------------------------------------------------------------------

TRY_TO_LOCK = """
import sys
from pathlib import Path
from ottla.errors import OttlaError
from ottla.storage.files import DiskFiles
try:
    DiskFiles().lock(Path(sys.argv[1]))
except OttlaError as error:
    print(error)
else:
    print("locked")
"""


def locked_by_another_process(path: Path) -> str:
    command = [sys.executable, "-c", TRY_TO_LOCK, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_another_process_is_kept_out_while_the_lock_is_held(tmp_path):
    lock = DiskFiles().lock(tmp_path / ".lock")
    with pytest.raises(DirectoryInUse):
        DiskFiles().lock(tmp_path / ".lock")
    refusal = locked_by_another_process(tmp_path / ".lock")
    assert refusal.startswith("Another broker is using this log directory")
    assert f"{tmp_path} is locked by another process" in refusal
    lock.release()
    assert locked_by_another_process(tmp_path / ".lock") == "locked"


def test_a_lock_is_the_same_one_through_a_symbolic_link(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    lock = DiskFiles().lock(tmp_path / "data" / ".lock")
    with pytest.raises(DirectoryInUse):
        DiskFiles().lock(tmp_path / "link" / ".lock")
    lock.release()


def test_only_one_of_many_threads_gets_the_lock(tmp_path):
    outcomes = []

    def take():
        try:
            outcomes.append(DiskFiles().lock(tmp_path / ".lock"))
        except DirectoryInUse:
            outcomes.append(None)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = [lock for lock in outcomes if lock is not None]
    assert len(taken) == 1
    taken[0].release()


class Kernel:
    """Stands in for `os.pwritev`: writes a few bytes per call and has a limit where the disk is full."""

    def __init__(self, monkeypatch, *, per_call: int = 1 << 30, room: int = 1 << 30, error: int = errno.ENOSPC) -> None:
        self.per_call, self.room, self.error = per_call, room, error
        self.pwritev = os.pwritev
        monkeypatch.setattr(files_module.os, "pwritev", self.write)

    def write(self, number: int, buffers: list[bytes], position: int) -> int:
        content = b"".join(buffers)[: min(self.per_call, self.room)]
        if not content:
            raise OSError(self.error, os.strerror(self.error))
        self.room -= len(content)
        return self.pwritev(number, [content], position)


@pytest.fixture
def ten_bytes(tmp_path):
    file = DiskFiles().open(written(DiskFiles(), tmp_path / "a", b"0123456789"))
    yield file
    file.close()


def content_of(file) -> bytes:
    return file.read_at(0, 1000)


@pytest.mark.parametrize("per_call", [1, 2, 3, 5, 7])
def test_a_write_goes_on_where_the_kernel_stopped(monkeypatch, ten_bytes, per_call):
    Kernel(monkeypatch, per_call=per_call)
    assert ten_bytes.write_at(10, [b"abc", b"", b"defg", b"h"]) == 8
    assert content_of(ten_bytes) == b"0123456789abcdefgh"


@pytest.mark.parametrize("room", range(8))
def test_an_append_for_which_there_is_no_room_leaves_the_file_as_it_was(monkeypatch, ten_bytes, room):
    kernel = Kernel(monkeypatch, room=room)
    with pytest.raises(DiskFull, match=r"cannot write .*: No space left"):
        ten_bytes.write_at(10, [b"abc", b"defgh"])
    assert content_of(ten_bytes) == b"0123456789"
    kernel.room = 8
    ten_bytes.write_at(10, [b"abc", b"defgh"])
    assert content_of(ten_bytes) == b"0123456789abcdefgh"


def test_a_full_disk_does_not_cut_a_file_that_was_longer_than_the_write(monkeypatch, ten_bytes):
    Kernel(monkeypatch, room=3)
    with pytest.raises(DiskFull):
        ten_bytes.write_at(4, [b"abcde"])
    assert content_of(ten_bytes) == b"0123abc789"


def test_a_write_that_fails_otherwise_is_not_called_a_full_disk(monkeypatch, ten_bytes):
    Kernel(monkeypatch, room=3, error=errno.EIO)
    with pytest.raises(KafkaStorageError) as caught:
        ten_bytes.write_at(10, [b"abcde"])
    assert type(caught.value) is KafkaStorageError
    assert caught.value.code == 56


def test_a_file_that_cannot_be_cut_back_is_not_called_a_full_disk(monkeypatch, ten_bytes):
    def refuse(number, size_bytes):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    Kernel(monkeypatch, room=3)
    monkeypatch.setattr(files_module.os, "ftruncate", refuse)
    with pytest.raises(KafkaStorageError) as caught:
        ten_bytes.write_at(10, [b"abcde"])
    assert type(caught.value) is KafkaStorageError


def test_a_write_that_makes_no_progress_ends(monkeypatch, ten_bytes):
    monkeypatch.setattr(files_module.os, "pwritev", lambda number, buffers, position: 0)
    with pytest.raises(KafkaStorageError, match="wrote nothing"):
        ten_bytes.write_at(10, [b"abc"])


@pytest.mark.parametrize("per_call", [1, 2, 3, 4])
def test_a_read_goes_on_where_the_kernel_stopped(monkeypatch, ten_bytes, per_call):
    pread = os.pread
    monkeypatch.setattr(files_module.os, "pread", lambda number, size, at: pread(number, min(size, per_call), at))
    assert ten_bytes.read_at(1, 8) == b"12345678"
    assert ten_bytes.read_at(4, 100) == b"456789"


@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_a_sync_that_fails_for_want_of_room_is_not_something_to_try_again(monkeypatch, ten_bytes, tmp_path, call):
    def refuse(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files_module.os, call, refuse)
    with pytest.raises(KafkaStorageError) as caught:
        ten_bytes.sync(metadata=call == "fsync")
    assert not isinstance(caught.value, DiskFull)


def test_a_replacement_without_room_leaves_the_old_content_and_no_rubbish(monkeypatch, tmp_path):
    DiskFiles().replace_bytes(tmp_path / "a", b"old")
    Kernel(monkeypatch, room=4)
    with pytest.raises(DiskFull):
        DiskFiles().replace_bytes(tmp_path / "a", b"new content")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert DiskFiles().list_directory(tmp_path) == ["a"]


def test_errors_of_the_operating_system_become_ours():
    def translated(number):
        return type(storage_error(OSError(number, os.strerror(number)), "write", Path("/x")))

    assert translated(errno.ENOSPC) is translated(errno.EDQUOT) is DiskFull
    assert translated(errno.EIO) is translated(errno.EROFS) is KafkaStorageError
    assert translated(errno.ENOENT) is FileNotFoundError
    assert issubclass(DiskFull, KafkaStorageError)
    assert DiskFull.code == 56


def test_a_file_number_is_there_for_sendfile(tmp_path):
    file = DiskFiles().open(written(DiskFiles(), tmp_path / "a", b"abc"))
    assert os.pread(file.fileno(), 3, 0) == b"abc"
    assert not os.get_inheritable(file.fileno())
    file.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_disk_that_is_really_full_is_told_apart():
    file = DiskFiles().open(Path("/dev/full"))
    with pytest.raises(DiskFull):
        file.write_at(0, [b"x"])
    file.close()


def test_a_detached_file_is_closed_when_nobody_has_it_any_more(tmp_path):
    file = DiskFiles().open(written(DiskFiles(), tmp_path / "a", b"x"))
    number = file.fileno()
    file.detach()
    os.fstat(number)
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_no_number_for_one_more_file_is_an_error_of_its_own():
    for number in (errno.EMFILE, errno.ENFILE):
        error = storage_error(OSError(number, os.strerror(number)), "open", Path("/a"))
        assert type(error) is TooManyOpenFiles
        assert error.retriable
