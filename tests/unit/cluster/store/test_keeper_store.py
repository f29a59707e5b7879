"""The embedded store against the worst a disk may do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.changes import (
    AlterConfig,
    Change,
    CreateTopic,
    SetFeature,
    apply_all,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ConfigResource, Partition, ResourceType, Topic
from ottla.cluster.store.frames import DamagedLog, frame, read_frames
from ottla.cluster.store.interface import StoreFailed
from ottla.cluster.store.kept_log import CLOSED, FOLDER, LOG, SNAPSHOT, KeeperStore, found_cluster_id
from ottla.cluster.written import changes_for, write_change
from ottla.errors import DiskFull, KafkaStorageError, OttlaError
from ottla.storage.directory.checkpoints import ForeignDirectory
from ottla.testing.files import MemoryFiles

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
DATA = Path("/data")
FIRST = (SetFeature("metadata.version", 30),)


def open_store(files: MemoryFiles, *, after_changes: int = 5, after_bytes: int = 1 << 20) -> KeeperStore:
    return KeeperStore(
        DATA, CLUSTER, files=files, first=FIRST, snapshot_after_changes=after_changes, snapshot_after_bytes=after_bytes
    )


def commits() -> list[list[Change]]:
    """Seven commits of one to three changes: with a snapshot every five changes, several are made."""
    topics = [CreateTopic(Topic(f"t{n}", bytes([n + 1]) * 16, (Partition((1,), (1,), 1),))) for n in range(7)]
    return [
        [
            topic,
            *[
                AlterConfig(ConfigResource(ResourceType.TOPIC, topic.topic.name), ((f"k{k}", "v"),))
                for k in range(n % 3)
            ],
        ]
        for n, topic in enumerate(topics)
    ]


def content(image: ClusterImage) -> tuple[int, list[dict[str, object]]]:
    return image.change_number, [write_change(each) for each in changes_for(image)]


def images(of: Sequence[Sequence[Change]]) -> list[ClusterImage]:
    """The image after no commit, after the first, and so on."""
    reached = [apply_all(ClusterImage(CLUSTER), FIRST)]
    for changes in of:
        reached.append(apply_all(reached[-1], changes))
    return reached


def run_until_it_fails(files: MemoryFiles, wanted: Sequence[Sequence[Change]]) -> int:
    """Commit until the disk fails; gives how many commits were acknowledged, -1 when not even the store was made."""
    acknowledged = -1
    try:
        store = open_store(files)
        store.load()
        acknowledged = 0
        for changes in wanted:
            store.commit(changes)
            acknowledged += 1
    except OttlaError:
        pass
    return acknowledged


def operations_of_a_whole_run() -> int:
    files = MemoryFiles()
    assert run_until_it_fails(files, commits()) == len(commits())
    return len(files.trace)


OPERATIONS = operations_of_a_whole_run()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("number", range(1, OPERATIONS + 1))
def test_after_a_crash_at_any_operation_all_that_was_acknowledged_is_there_and_no_half_commit(
    number: int, seed: int
) -> None:
    files, wanted = MemoryFiles(seed=seed), commits()
    files.fail(number, for_ever=True)
    acknowledged = run_until_it_fails(files, wanted)
    files.crash()
    recovered = open_store(files)
    reached = [content(each) for each in images(wanted)]
    found = content(recovered.load())
    assert found in reached, "a state that no whole commit led to"
    assert reached.index(found) in (max(acknowledged, 0), max(acknowledged, 0) + 1)
    after = recovered.commit([SetFeature("again", 1)])
    assert content(open_store(files).load()) == content(after)


@pytest.mark.parametrize("seed", range(4))
def test_a_second_crash_during_recovery_loses_nothing(seed: int) -> None:
    wanted = commits()
    for number in range(1, 12):
        files = MemoryFiles(seed=seed)
        assert run_until_it_fails(files, wanted) == len(wanted)
        store = open_store(files)
        store.load()
        files.fail(lambda each: each.kind == "sync")
        with pytest.raises(StoreFailed):
            store.commit([SetFeature("half", 1)])
        files.crash()
        files.fail(number, for_ever=True)
        try:
            open_store(files).load()
        except OttlaError:
            pass
        files.crash()
        image = open_store(files).load()
        assert image.topic("t6") is not None
        # What recovery showed once stays: the unfinished commit is whole or gone, in this life and the next.
        assert content(open_store(files).load()) == content(image)


def test_recovery_shows_only_what_a_crash_right_after_it_leaves() -> None:
    for seed in range(30):
        files = MemoryFiles(seed=seed)
        store = open_store(files)
        store.load()
        files.fail(lambda each: each.kind == "sync")
        with pytest.raises(StoreFailed):
            store.commit([SetFeature("half", 1)])
        shown = content(open_store(files).load())  # the process died, the machine did not
        files.crash()
        assert content(open_store(files).load()) == shown


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_a_failed_write_or_sync_ends_all_commits(kind: str) -> None:
    files = MemoryFiles()
    store = open_store(files)
    image = store.load()
    files.fail(lambda each: each.kind == kind)
    with pytest.raises(StoreFailed, match=f"cannot {kind}"):
        store.commit([SetFeature("a", 1)])
    with pytest.raises(StoreFailed, match="an earlier write failed"):
        store.commit([SetFeature("a", 1)])
    assert store.load() is image


def test_a_full_disk_refuses_one_commit_and_not_the_next() -> None:
    files = MemoryFiles()
    store = open_store(files)
    store.load()
    files.fill(free_bytes=20)
    with pytest.raises(DiskFull):
        store.commit([SetFeature("a", 1)])
    assert store.load().feature("a") == 0
    files.fill(free_bytes=1 << 20)
    store.commit([SetFeature("a", 2)])
    files.crash("nothing")
    assert open_store(files).load().feature("a") == 2


def test_a_disk_too_full_for_a_snapshot_lets_the_log_go_on(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    store = open_store(files, after_changes=2)
    store.load()
    files.fill(free_bytes=len(frame({"by": "0.1.0", "first": 1, "changes": [write_change(SetFeature("a", 1))]})) + 5)
    assert store.commit([SetFeature("a", 1)]).feature("a") == 1
    files.fill(free_bytes=150)
    assert store.commit([SetFeature("a", 2)]).feature("a") == 2
    assert "no room for a snapshot" in caplog.text
    files.fill(free_bytes=1 << 20)
    store.commit([SetFeature("a", 3)])
    assert files.size(DATA / FOLDER / LOG) == 0
    assert open_store(files).load().feature("a") == 3


def test_a_snapshot_that_fails_keeps_the_commit_and_ends_all_others() -> None:
    files = MemoryFiles()
    store = open_store(files, after_changes=1)
    store.load()
    files.fail(lambda each: each.kind == "rename")
    assert store.commit([SetFeature("a", 1)]).feature("a") == 1
    with pytest.raises(StoreFailed, match="earlier write failed"):
        store.commit([SetFeature("a", 2)])
    files.crash("nothing")
    assert open_store(files).load().feature("a") == 1


def test_snapshots_keep_the_log_short() -> None:
    files = MemoryFiles()
    store = open_store(files, after_changes=10)
    for level in range(1, 96):
        store.commit([SetFeature("a", level)])
        assert len(read_frames(files.read_bytes(DATA / FOLDER / LOG), "log").contents) < 10
    assert open_store(files).load().change_number == 96


def test_a_log_beyond_its_bytes_is_replaced_too() -> None:
    files = MemoryFiles()
    store = open_store(files, after_changes=1000, after_bytes=2000)
    for level in range(1, 200):
        store.commit([SetFeature("a", level)])
        assert files.size(DATA / FOLDER / LOG) < 2200
    assert open_store(files).load().feature("a") == 199


def test_a_folder_of_another_cluster_is_refused_with_what_to_do() -> None:
    files = MemoryFiles()
    open_store(files).load()
    other = KeeperStore(DATA, "AAAAAAAAAAAAAAAAAAAAAA", files=files)
    with pytest.raises(ForeignDirectory) as refused:
        other.load()
    for part in (str(DATA / FOLDER), f"cluster {CLUSTER}", "cluster AAAAAAAAAAAAAAAAAAAAAA", "log.dirs"):
        assert part in str(refused.value)
    assert found_cluster_id(files, DATA) == CLUSTER
    assert found_cluster_id(files, Path("/elsewhere")) is None


def test_rot_before_the_end_is_an_error_and_never_forgotten_changes() -> None:
    files = MemoryFiles()
    store = open_store(files, after_changes=100)
    for level in range(1, 6):
        store.commit([SetFeature("a", level)])
    path = DATA / FOLDER / LOG
    last = files.read_bytes(path).rindex(b"\0\0\0")  # the last frame could as well be torn
    for bit in range(0, last * 8, 61):
        files.flip_bit(path, bit)
        with pytest.raises(DamagedLog, match=re.escape(str(path))):
            open_store(files).load()
        files.flip_bit(path, bit)
    assert open_store(files).load().feature("a") == 5


def test_a_rotten_snapshot_is_an_error() -> None:
    files = MemoryFiles()
    open_store(files).load()
    files.flip_bit(DATA / FOLDER / SNAPSHOT, 100)
    with pytest.raises(DamagedLog, match="not one whole frame"):
        open_store(files).load()


def test_a_log_without_its_snapshot_is_an_error() -> None:
    files = MemoryFiles()
    open_store(files).commit([SetFeature("a", 1)])
    files.remove(DATA / FOLDER / SNAPSHOT)
    with pytest.raises(DamagedLog, match="snapshot they follow is missing"):
        open_store(files).load()


def test_a_gap_between_commits_is_an_error() -> None:
    files = MemoryFiles()
    open_store(files).load()
    gap = frame({"by": "0.1.0", "first": 9, "changes": [write_change(SetFeature("a", 1))]})
    files.open(DATA / FOLDER / LOG).write_at(0, [gap])
    with pytest.raises(DamagedLog, match="goes on with change 9, but 2 is the next one"):
        open_store(files).load()


def test_metadata_of_a_newer_version_is_refused_and_left_alone() -> None:
    files = MemoryFiles()
    open_store(files).load()
    newer = frame({"by": "7.0.0", "first": 2, "changes": [{"kind": "teleport", "version": 1}]})
    files.open(DATA / FOLDER / LOG).write_at(0, [newer])
    with pytest.raises(OttlaError, match=r"written by Ottla 7\.0\.0"):
        open_store(files).load()
    assert files.read_bytes(DATA / FOLDER / LOG) == newer


def test_a_commit_done_in_three_parts_is_a_commit() -> None:
    files = MemoryFiles()
    store = open_store(files)
    pending = store.begin([SetFeature("a", 1)], expected=1)
    pending.write()
    assert store.load().feature("a") == 0
    assert store.finish(pending).feature("a") == 1
    files.crash("nothing")
    assert open_store(files).load().feature("a") == 1


def test_every_commit_is_synced_before_it_returns() -> None:
    files = MemoryFiles()
    store = open_store(files, after_changes=100)
    store.load()
    files.trace.clear()
    store.commit([SetFeature("a", 1), SetFeature("b", 1)])
    assert [each.kind for each in files.trace] == ["write", "sync"]


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), max_size=6), st.data())
def test_frames_cut_anywhere_give_the_whole_ones_before(contents: list[dict[str, str]], data: st.DataObject) -> None:
    frames = [frame(each) for each in contents]
    whole = b"".join(frames)
    cut = data.draw(st.integers(0, len(whole)))
    found = read_frames(whole[:cut], "file")
    assert found.contents == contents[: len(found.contents)]
    assert found.end == sum(map(len, frames[: len(found.contents)])) <= cut
    assert len(found.contents) == len(contents) or found.end + len(frames[len(found.contents)]) > cut


def test_a_zero_filled_tail_is_no_frame() -> None:
    one = frame({"a": 1})
    assert read_frames(one + bytes(1000), "file") == ([{"a": 1}], len(one))


def test_an_error_of_the_disk_at_start_is_told() -> None:
    files = MemoryFiles()
    files.fail(lambda each: each.kind == "write")
    with pytest.raises(KafkaStorageError):
        open_store(files).load()


# --- rot in the last commit ------------------------------------------------------------------------------------------


def rot_last_commit(files: MemoryFiles) -> int:
    """Turn a bit in the last frame of the log; returns where that frame begins."""
    path = DATA / FOLDER / LOG
    data = bytearray(files.read_bytes(path))
    whole = read_frames(bytes(data[:-1]), "the log without its last byte").end
    data[-10] ^= 1
    files.replace_bytes(path, bytes(data))
    return whole


def closed_store(files: MemoryFiles, *, is_clean: bool) -> ClusterImage:
    store = open_store(files, after_changes=1_000)
    store.load()
    for changes in commits():
        image = store.commit(changes)
    store.close(is_clean=is_clean)
    return image


def test_rot_in_the_last_commit_of_a_store_that_was_closed_in_order_is_refused() -> None:
    files = MemoryFiles()
    closed_store(files, is_clean=True)
    length = files.size(DATA / FOLDER / LOG)
    at = rot_last_commit(files)
    sentence = rf"{LOG} has a damaged frame at byte {at}; it was closed in order with {length} bytes"
    for _ in range(2):  # to look at it changes nothing
        with pytest.raises(DamagedLog, match=sentence):
            open_store(files).load()


def test_a_log_that_lost_its_end_after_a_stop_in_order_is_refused() -> None:
    files = MemoryFiles()
    closed_store(files, is_clean=True)
    path = DATA / FOLDER / LOG
    files.replace_bytes(path, files.read_bytes(path)[:-300])
    with pytest.raises(DamagedLog, match="closed in order"):
        open_store(files).load()


def test_without_a_stop_in_order_the_last_commit_may_be_torn() -> None:
    files = MemoryFiles()
    whole = closed_store(files, is_clean=False)
    rot_last_commit(files)
    assert open_store(files).load().change_number < whole.change_number


def test_the_mark_of_a_stop_in_order_is_gone_before_the_next_commit() -> None:
    files = MemoryFiles()
    closed_store(files, is_clean=True)
    store = open_store(files, after_changes=1_000)
    store.load()
    assert files.exists(DATA / FOLDER / CLOSED)
    after = store.commit([SetFeature("again", 1)])
    assert not files.exists(DATA / FOLDER / CLOSED)
    rot_last_commit(files)
    files.crash()
    assert open_store(files).load().change_number == after.change_number - 1


def test_a_mark_beside_another_snapshot_says_nothing() -> None:
    files = MemoryFiles()
    closed_store(files, is_clean=True)
    mark = files.read_bytes(DATA / FOLDER / CLOSED)
    store = open_store(files, after_changes=1)
    image = store.commit([SetFeature("again", 1)])  # and a snapshot
    store.close(is_clean=False)
    files.replace_bytes(DATA / FOLDER / CLOSED, mark)
    assert content(open_store(files).load()) == content(image)


def test_a_store_that_was_never_read_is_not_marked() -> None:
    files = MemoryFiles()
    open_store(files).close()
    assert not files.exists(DATA / FOLDER)
