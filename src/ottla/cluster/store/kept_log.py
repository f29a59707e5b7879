"""The log of changes in which earlier versions kept the truth of several brokers of one machine; read once, when these
brokers get their quorum (cli/brokers/quorum.py).

The folder `__cluster_metadata-1` in its directory has these files (bytes: docs/formats.md, "the log of --brokers N"):

    snapshot       one frame: whose cluster, the change number, and changes that make the image of that moment
    changes.log    a frame per commit: the number of its first change, and its changes
    closed         one frame, only after a stop in order: how many bytes the log has after which snapshot

1. A commit is one write and one sync; when it returns, the changes are on the disk. A crash in the middle leaves all
   of them or none, because a frame is whole or not there (frames.py).
2. When the log has grown beyond its limits, a snapshot takes the place of the old one and then an empty log that of
   the old log, each by one rename. After a crash between the two, the log has changes that the snapshot has already;
   their numbers say so, and they are passed over.
3. A write or sync that fails makes the store refuse all further commits: what the disk has is not known any more, and
   the kernel forgets a failed sync. A full disk alone is no such failure, because the write was cut back: the commit
   is refused, and can be tried again when there is room.
4. A folder of another cluster is not touched: ForeignDirectory says what was found and what was expected.
5. A stop in order leaves the mark `closed`, which is gone before the next write. With it a log that ends early is not
   torn but rotten: DamagedLog, because what is missing was promised. After any other stop nobody can tell the two
   apart in the last commit, and what is not whole there is dropped.
6. `commit` does three things that can also be done apart, so that an event loop need not wait for the disk: `begin`
   decides and makes the bytes, `PendingChange.write` writes and syncs (only that may run in another thread), `finish`
   makes it true. One commit at a time.

What several brokers leave for their controller (store/requests.py) has no records in Kafka's metadata log, so this log
is one of our own, until these brokers have a quorum.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import ottla
from ottla.cluster.changes import Change, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.json_values import MalformedValue
from ottla.cluster.store.frames import DamagedLog, frame, read_frames
from ottla.cluster.store.history import Deletions, History, OnlyMember
from ottla.cluster.store.interface import StoreClosed, StoreFailed, Subscription
from ottla.cluster.written import changes_for, read_change, rebuilt, write_change
from ottla.errors import DiskFull, KafkaStorageError, StorageExhausted
from ottla.storage.directory.checkpoints import ForeignDirectory
from ottla.storage.files import File, Files
from ottla.values import uuid_from_text, uuid_to_text

FOLDER: Final = "__cluster_metadata-1"
SNAPSHOT: Final = "snapshot"
LOG: Final = "changes.log"
CLOSED: Final = "closed"
FORMAT: Final = 1

ApplyAll: TypeAlias = Callable[[ClusterImage, Sequence[Change]], ClusterImage]

SNAPSHOT_AFTER_CHANGES: Final = 10_000
SNAPSHOT_AFTER_BYTES: Final = 4 << 20

log = logging.getLogger(__name__)


def found_cluster_id(files: Files, log_directory: Path) -> str | None:
    """Whose metadata is in a log directory; None when there is none."""
    path = log_directory / FOLDER / SNAPSHOT
    return str(_read_snapshot(files, path)["cluster_id"]) if files.exists(path) else None


class PendingChange:
    """A commit that is decided and not yet written. Only `write` may run in another thread."""

    def __init__(self, store: KeeperStore, image: ClusterImage, changes: Sequence[Change], content: bytes) -> None:
        self.image = image
        self.changes = changes
        self.content = content
        self._store = store

    def write(self) -> None:
        """Write and sync; raises what `commit` raises."""
        self._store._write(self.content)


class KeeperStore:
    """A MetadataStore of one broker. `first` are the changes a new cluster begins with."""

    def __init__(
        self,
        log_directory: Path,
        cluster_id: str,
        *,
        files: Files,
        first: Sequence[Change] = (),
        apply_all: ApplyAll = apply_all,
        snapshot_after_changes: int = SNAPSHOT_AFTER_CHANGES,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> None:
        """`apply_all` is how changes move the image: strictly, or as several members see them (shared.take_in)."""
        self._apply_all = apply_all
        self._folder = log_directory / FOLDER
        self._cluster_id = cluster_id
        self._files = files
        self._first = first
        self._after_changes = snapshot_after_changes
        self._after_bytes = snapshot_after_bytes
        self._history: History | None = None
        self._deletions = Deletions()
        self._file: File | None = None
        self._end = 0
        self._snapshot_number = 0
        self._snapshot_bytes = 0
        self._failure: str | None = None
        self._closed = False
        self._is_marked = False  # as closed in order
        self.membership = OnlyMember(self.load, self.commit)
        self.election = self.membership

    # --- reading ---

    def load(self) -> ClusterImage:
        """The newest image; the first call recovers the log, or makes a new cluster."""
        if self._history is None:
            self._history = History(self._open(), self._apply_all, self._deletions)
        return self._history.image

    def was_deleted(self, topic_id: bytes) -> bool:
        return topic_id in self._loaded().deletions

    def subscribe(self) -> Subscription:
        return self._loaded().subscribe()

    def unsubscribe(self, subscription: Subscription) -> None:
        self._loaded().unsubscribe(subscription)

    def _loaded(self) -> History:
        self.load()
        assert self._history is not None
        return self._history

    # --- committing ---

    def commit(self, changes: Sequence[Change], *, expected: int | None = None) -> ClusterImage:
        pending = self.begin(changes, expected=expected)
        pending.write()
        return self.finish(pending)

    def begin(self, changes: Sequence[Change], *, expected: int | None = None) -> PendingChange:
        """Decide, and make the bytes."""
        history = self._loaded()
        self._refuse_after_failure()
        image = history.next(changes, expected)
        return PendingChange(
            self, image, changes, _commit_frame(history.image.change_number + 1, changes) if changes else b""
        )

    def finish(self, pending: PendingChange) -> ClusterImage:
        """The commit is written: make it true, and make a snapshot when it is time."""
        self._loaded().adopt(pending.image, pending.changes)
        self._end += len(pending.content)
        if self._is_time_for_a_snapshot(pending.image):
            self._snapshot_if_possible(pending.image)
        return pending.image

    def close(self, *, is_clean: bool = True) -> None:
        """Stop. `is_clean` says that nothing went wrong, and leaves the mark of that."""
        if is_clean and self._history is not None and not self._closed and self._failure is None:
            self._mark_closed()
        self._closed = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _mark_closed(self) -> None:
        content = frame({"snapshot": self._snapshot_number, "log_bytes": self._end})
        try:
            self._files.replace_bytes(self._folder / CLOSED, content)
        except KafkaStorageError as error:
            log.warning("the metadata is closed without a mark, which only rot would need: %s", error)

    def _remove_mark(self) -> None:
        """The log is to change: from here on a crash may tear its end."""
        if self._is_marked:
            self._files.remove(self._folder / CLOSED, missing_ok=True)
            self._files.sync_directory(self._folder)
            self._is_marked = False

    @property
    def has_failed(self) -> bool:
        """Whether a write failed: nothing is changed any more until the next start."""
        return self._failure is not None

    def _refuse_after_failure(self) -> None:
        if self._closed:
            raise StoreClosed
        if self._failure is not None:
            raise StoreFailed(f"an earlier write failed: {self._failure}")

    def _write(self, content: bytes) -> None:
        self._refuse_after_failure()
        if not content:
            return
        assert self._file is not None
        try:
            self._remove_mark()
            self._file.write_at(self._end, [content])
            self._file.sync()
        except DiskFull:
            raise
        except KafkaStorageError as error:
            self._failure = str(error)
            raise StoreFailed(str(error)) from error

    # --- snapshots ---

    def _is_time_for_a_snapshot(self, image: ClusterImage) -> bool:
        # A log as large as the snapshot before the next one: so over time a change is written three times at most.
        too_long = self._end >= max(self._after_bytes, self._snapshot_bytes)
        return too_long or image.change_number - self._snapshot_number >= max(self._after_changes, 1)

    def _snapshot_if_possible(self, image: ClusterImage) -> None:
        try:
            self._write_snapshot(image)
        except StorageExhausted as error:
            # The commit itself is on the disk, and the old files are as they were.
            log.warning("no room for a snapshot of the metadata, the log goes on growing: %s", error)
        except KafkaStorageError as error:
            self._failure = str(error)
            log.error("no snapshot of the metadata could be written; no change is accepted any more: %s", error)

    def _write_snapshot(self, image: ClusterImage) -> None:
        content = _snapshot_frame(image, self._deletions)
        self._files.replace_bytes(self._folder / SNAPSHOT, content)
        self._snapshot_number, self._snapshot_bytes = image.change_number, len(content)
        self._begin_log()

    def _begin_log(self) -> None:
        path = self._folder / LOG
        self._files.replace_bytes(path, b"")
        if self._file is not None:
            self._file.close()
        self._file = self._files.open(path)
        self._end = 0

    # --- starting ---

    def _open(self) -> ClusterImage:
        if self._closed:
            raise StoreClosed
        if self._files.exists(self._folder / SNAPSHOT):
            return self._recover()
        self._refuse_log_without_snapshot()
        return self._make()

    def _make(self) -> ClusterImage:
        for directory in (self._folder.parent, self._folder):
            if not self._files.exists(directory):
                self._files.make_directory(directory)
            self._files.sync_directory(directory.parent)
        image = self._apply_all(ClusterImage(self._cluster_id), self._first)
        self._write_snapshot(image)
        return image

    def _refuse_log_without_snapshot(self) -> None:
        path = self._folder / LOG
        if self._files.exists(path) and self._files.size(path):
            raise DamagedLog(f"{path} has changes, but the snapshot they follow is missing")

    def _recover(self) -> ClusterImage:
        path = self._folder / SNAPSHOT
        data = _read_snapshot(self._files, path)
        if data["cluster_id"] != self._cluster_id:
            raise ForeignDirectory(
                f"{self._folder} has the metadata of cluster {data['cluster_id']}, but this broker belongs to "
                f"cluster {self._cluster_id}. Start it with its own log.dirs, or with cluster.id={data['cluster_id']}"
            )
        self._snapshot_number, self._snapshot_bytes = data["number"], self._files.size(path)
        self._deletions = Deletions(_deleted_ids(data, path))
        image = rebuilt(self._cluster_id, _changes_of(data, path), self._snapshot_number, self._apply_all)
        return self._replay(image)

    def _replay(self, image: ClusterImage) -> ClusterImage:
        path = self._folder / LOG
        if not self._files.exists(path):  # the crash came between the first snapshot and the first log
            self._begin_log()
            return image
        file = self._file = self._files.open(path)
        data = file.read_at(0, file.size())
        contents, self._end = read_frames(data, str(path))
        self._refuse_rot(path, self._closed_log_bytes())
        for content in contents:
            image = _after(image, content, path, self._apply_all, self._deletions)
        if self._end < len(data):
            self._remove_mark()
            log.warning("%s ends with %d bytes of an unfinished commit; dropped", path, len(data) - self._end)
            file.truncate(self._end)
        # Written again, not only synced: after a failed sync the kernel shows bytes that it will never write, and
        # what we say now must still be true after the next crash.
        file.write_at(0, [data[: self._end]])
        file.sync()
        return image

    def _closed_log_bytes(self) -> int | None:
        """How long the log was when it was closed in order; None when it was not, or has another snapshot since."""
        path = self._folder / CLOSED
        self._is_marked = self._files.exists(path)
        if not self._is_marked:
            return None
        contents, _ = read_frames(self._files.read_bytes(path), str(path))
        mark = contents[0] if contents and isinstance(contents[0], dict) else {}
        length = mark.get("log_bytes")
        return length if type(length) is int and mark.get("snapshot") == self._snapshot_number else None

    def _refuse_rot(self, path: Path, closed_bytes: int | None) -> None:
        if closed_bytes is not None and self._end < closed_bytes:
            raise DamagedLog(
                f"{path} has a damaged frame at byte {self._end}; it was closed in order with {closed_bytes} bytes, so "
                "this is no unfinished commit"
            )


# --- the content of frames -------------------------------------------------------------------------------------------


def _commit_frame(first: int, changes: Iterable[Change]) -> bytes:
    return frame({"by": ottla.__version__, "first": first, "changes": [write_change(each) for each in changes]})


def _snapshot_frame(image: ClusterImage, deletions: Iterable[bytes]) -> bytes:
    return frame(
        {
            "format": FORMAT,
            "by": ottla.__version__,
            "cluster_id": image.cluster_id,
            "number": image.change_number,
            "changes": [write_change(each) for each in changes_for(image)],
            "deleted": [uuid_to_text(topic_id) for topic_id in deletions],
        }
    )


def _read_snapshot(files: Files, path: Path) -> dict[str, Any]:
    contents, end = read_frames(files.read_bytes(path), str(path))
    if len(contents) != 1 or end != files.size(path):
        raise DamagedLog(f"{path} is not one whole frame")
    data = contents[0]
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise DamagedLog(f"{path} is not of format {FORMAT}, the only one that Ottla {ottla.__version__} knows")
    if type(data.get("number")) is not int or type(data.get("cluster_id")) is not str:
        raise DamagedLog(f"{path} has no cluster id or no change number")
    return data


def _after(image: ClusterImage, content: Any, path: Path, apply_all: ApplyAll, deletions: Deletions) -> ClusterImage:
    first = content.get("first") if isinstance(content, dict) else None
    if type(first) is not int:
        raise DamagedLog(f"{path} has a frame without the number of its first change")
    changes = _changes_of(content, path)
    if first + len(changes) - 1 <= image.change_number:
        return image  # the snapshot has it already
    if first != image.change_number + 1:
        raise DamagedLog(f"{path} goes on with change {first}, but {image.change_number + 1} is the next one")
    deletions.note(changes)
    return apply_all(image, changes)


def _deleted_ids(snapshot: dict[str, Any], path: Path) -> list[bytes]:
    try:
        return [uuid_from_text(text) for text in snapshot.get("deleted", ())]  # the first snapshots had none
    except (ValueError, TypeError) as problem:
        raise DamagedLog(f"{path} has a deleted topic whose id makes no sense: {problem}") from problem


def _changes_of(content: dict[str, Any], path: Path) -> list[Change]:
    try:
        return [read_change(each, written_by=str(content.get("by"))) for each in content["changes"]]
    except (MalformedValue, KeyError, TypeError) as problem:
        raise DamagedLog(f"{path} has a change that makes no sense: {problem}") from problem
