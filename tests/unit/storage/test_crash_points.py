"""The power goes before every single change of the disk, and every state that it may leave is recovered from.

The other tests of crashes draw what is left; here it is gone through (testing/crash_states.py): before each operation
of a recorded life that changes the disk, all combinations of what was not synced, where there are few enough of them.
What recovery finds must keep the promises S2, S3 and S5: nothing that was acknowledged is missing, nothing is there
that was never written, files are old or new, and recovering again changes nothing.

`make test` goes through some of the operations; the long mode through all of them, with more combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.cluster.store import test_kraft_store as metadata
from tests.unit.storage import test_compaction_crash as compaction
from tests.unit.storage import test_log_crash as logs
from tests.unit.storage.test_manager_faults import Life

from ottla.cluster.changes import SetFeature
from ottla.testing.crash_states import crash_states
from ottla.testing.files import MemoryFiles, Operation

READS = ("read", "list", "lock", "close")
ALL = 256  # combinations of one moment, in the long mode: all subsets of eight unsynced changes
SOME = 16  # in `make test`, at every STRIDE-th operation
STRIDE = 4


class RecordedFiles(MemoryFiles):
    """A disk that calls somebody before every change."""

    before_change: Callable[[], None] | None = None

    def attempt(self, operation: Operation, *, may_be_full: bool = True) -> None:
        if self.before_change is not None and operation.kind not in READS:
            self.before_change()
        super().attempt(operation, may_be_full=may_be_full)


class Explorer:
    """Recovers from what every moment may leave; `first` and `stride` say which moments."""

    def __init__(self, files: RecordedFiles, check: Callable[[MemoryFiles], None], *, stride: int, limit: int) -> None:
        self.moments = self.states = 0
        self._files = files
        self._check = check
        self._stride = stride
        self._limit = limit
        files.before_change = self.explore

    def explore(self) -> None:
        self.moments += 1
        if self.moments % self._stride:
            return
        for number, disk in enumerate(crash_states(self._files, limit=self._limit, seed=self.moments)):
            self.states += 1
            try:
                self._check(disk)
            except Exception as error:
                raise AssertionError(f"state {number} before change {self.moments}: {error}") from error

    def end(self) -> None:
        self._files.before_change = None
        self.explore()


def recorded() -> RecordedFiles:
    files = RecordedFiles()
    files.make_directory(Path("/data"))
    files.sync_directory(Path("/"))
    return files


# --- one log ---------------------------------------------------------------------------------------------------------


def explore_log(tell: Callable[[logs.Story], None], stride: int, limit: int) -> Explorer:
    story = logs.Story(0)
    story.files = recorded()
    explorer = Explorer(story.files, lambda disk: logs.check_recovered(story, disk), stride=stride, limit=limit)
    tell(story)
    explorer.end()
    return explorer


@pytest.mark.parametrize("tell", logs.STORIES)
def test_a_log_keeps_its_promises_in_what_some_moments_may_leave(tell):
    assert explore_log(tell, STRIDE, SOME).states > 20


@pytest.mark.long
@pytest.mark.parametrize("tell", logs.STORIES)
def test_a_log_keeps_its_promises_in_all_that_any_moment_may_leave(tell):
    assert explore_log(tell, 1, ALL).states > 500


# --- all logs of a broker, with their tables -------------------------------------------------------------------------


def explore_life(stride: int, limit: int) -> Explorer:
    life = Life(0)
    life.files = recorded()

    def check(disk: MemoryFiles) -> None:
        again = Life(0)
        again.files = disk
        again.acknowledged, again.written = life.acknowledged, life.written
        again.deletable_offset = life.deletable_offset
        again.check_recovered()

    explorer = Explorer(life.files, check, stride=stride, limit=limit)
    life.run()
    life.logs.close()
    explorer.end()
    assert not life.errors
    return explorer


def test_all_logs_keep_their_promises_in_what_some_moments_may_leave():
    assert explore_life(STRIDE, SOME).states > 50


@pytest.mark.long
def test_all_logs_keep_their_promises_in_all_that_any_moment_may_leave():
    assert explore_life(1, ALL).states > 500


# --- compaction ------------------------------------------------------------------------------------------------------


def explore_compaction(stride: int, limit: int) -> Explorer:
    files = recorded()
    _, log = compaction.written_log(0, files)
    recovery_point, before = log.recovery_point, compaction.last_committed(log)

    def check(disk: MemoryFiles) -> None:
        found = compaction.opened(disk, recovery_point)
        assert compaction.last_committed(found) == before
        found.close()
        once = compaction.content(disk)
        assert not [name for name in once if name.endswith((".cleaned", ".swap", ".deleted"))]
        compaction.opened(disk, recovery_point).close()
        assert compaction.content(disk) == once

    explorer = Explorer(files, check, stride=stride, limit=limit)
    compaction.clean(files, log)
    explorer.end()
    return explorer


def test_compaction_keeps_what_is_committed_in_what_some_moments_may_leave():
    assert explore_compaction(STRIDE, SOME).states > 50


@pytest.mark.long
def test_compaction_keeps_what_is_committed_in_all_that_any_moment_may_leave():
    assert explore_compaction(1, ALL).states > 500


# --- metadata --------------------------------------------------------------------------------------------------------


def explore_metadata(stride: int, limit: int) -> Explorer:
    files, wanted = recorded(), metadata.commits()
    reached = metadata.REACHED
    acknowledged = 0

    def check(disk: MemoryFiles) -> None:
        recovered = metadata.open_store(disk)
        found = metadata.content(recovered.load())
        assert found in reached, "a state that no whole commit led to"
        assert reached.index(found) in (acknowledged, acknowledged + 1)
        recovered.close()
        recovered = metadata.open_store(disk)
        assert metadata.content(recovered.load()) == found
        after = recovered.commit([SetFeature("share.version", 1)])
        recovered.close()
        assert metadata.content(metadata.open_store(disk).load()) == metadata.content(after)

    explorer = Explorer(files, check, stride=stride, limit=limit)
    store = metadata.open_store(files)
    store.load()
    for changes in wanted:
        store.commit(changes)
        acknowledged += 1
    explorer.end()
    return explorer


def test_metadata_is_that_of_a_whole_commit_in_what_some_moments_may_leave():
    assert explore_metadata(STRIDE, SOME).states > 10


@pytest.mark.long
def test_metadata_is_that_of_a_whole_commit_in_all_that_any_moment_may_leave():
    assert explore_metadata(1, ALL).states > 100


# --- what is gone through --------------------------------------------------------------------------------------------


def left_by(change: Callable[[MemoryFiles], None], limit: int = 100) -> set[bytes | None]:
    """What the file may be after a crash; None: it is not there."""
    files, path = recorded(), Path("/data/a")
    file = files.open(path, create=True)
    file.write_at(0, [b"old!"])
    file.sync()
    files.sync_directory(path.parent)
    change(files)
    return {disk.read_bytes(path) if disk.exists(path) else None for disk in crash_states(files, limit=limit)}


def writes(*changes: tuple[int, bytes]) -> Callable[[MemoryFiles], None]:
    def write(files: MemoryFiles) -> None:
        file = files.open(Path("/data/a"))
        for position, content in changes:
            file.write_at(position, [content])

    return write


CHANGES: list[tuple[Callable[[MemoryFiles], None], set[bytes | None]]] = [
    (lambda files: None, {b"old!"}),
    (writes((0, b"NE")), {b"old!", b"NEd!", b"Nld!"}),
    (writes((4, b"ab")), {b"old!", b"old!ab", b"old!a", b"old!\0\0"}),
    (writes((0, b"N"), (3, b"W")), {b"old!", b"Nld!", b"oldW", b"NldW"}),
    (lambda files: files.open(Path("/data/a")).truncate(1), {b"old!", b"o"}),
    (lambda files: files.remove(Path("/data/a")), {b"old!", None}),
    (lambda files: files.replace_bytes(Path("/data/a"), b"new"), {b"new"}),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES, ids=range(len(CHANGES)))
def test_every_allowed_combination_of_unsynced_changes_is_gone_through(change, expected):
    assert left_by(change) == expected


def test_beyond_the_limit_nothing_everything_and_each_alone_are_among_them():
    found = left_by(writes(*((4 + number, bytes([65 + number])) for number in range(9))), limit=40)
    assert {b"old!", b"old!ABCDEFGHI", b"old!A", b"old!ABCDEFGH"} <= found
    assert len(found) <= 40


def test_the_disk_that_is_explored_is_not_touched():
    files, path = recorded(), Path("/data/a")
    files.open(path, create=True).write_at(0, [b"abc"])
    for disk in crash_states(files, limit=100):
        disk.make_directory(Path("/data/more"))
        if disk.exists(path):
            disk.open(path).write_at(0, [b"xyz!"])
    assert files.read_bytes(path) == b"abc"
    assert files.list_directory(path.parent) == ["a"]


def moments(explore: Callable[[int, int], Explorer]) -> Iterator[int]:
    for stride in (1, 1_000_000):
        yield explore(stride, 1).moments


def test_a_life_is_recorded_the_same_way_every_time():
    assert len(set(moments(explore_metadata))) == 1
