"""What a node knows of its cluster: what is committed in the metadata log is read, and shown as images.

    following = LogFollowing(quorum, loader, ...)
    following.start()
    await following.caught_up()                    # the image has what was committed when the leader first said so
    await following.show_to(apply)                 # apply(image, changes) is awaited for this image, then for each next
    await following.hide_from(apply)               # not any more

1. Two loops: that of Raft (raft_loop.py) gets the log and syncs it; this one reads what is committed and shows it. So a
   broker that is long about its new partitions does not lose its place in the quorum.
2. Batches are gathered to at most STEP_RECORDS records for one step, so that whoever comes back after a long time is
   shown few images; one that is longer is read with pauses. `changes` of None mean that anything may be different.
3. `applied_offset` is of the last record that was shown; heartbeats tell it. On a node that is a controller, too, its
   broker and its controller are both shown the images.
4. After so many bytes of records, or so much time, a snapshot is written and what is too old or too much leaves the log
   (LogLimits); neither within a transaction.
5. What must stop the node (a record that is not known, a disk that failed, committed records that are lost) ends both
   loops and is told once, by `ended`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from ottla.broker.cluster.kraft.raft_loop import RaftLoop
from ottla.broker.requests.running import next_turn
from ottla.clock import Clock
from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batches import MetadataBatch
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.metadata_log.writing import snapshot_records
from ottla.cluster.raft.log import LogState, SnapshotRules
from ottla.cluster.raft.snapshots import SnapshotId, read_snapshot
from ottla.errors import KafkaStorageError, OttlaError
from ottla.storage.files import Files

log = logging.getLogger(__name__)

STEP_RECORDS: Final = 500
Show: TypeAlias = Callable[[ClusterImage, Sequence[Change] | None], Awaitable[None]]


class LogFollowing:
    """See the module. Belongs to the broker's loop."""

    def __init__(
        self,
        quorum: RaftLoop,
        loader: MetadataLoader,
        *,
        files: Files,
        clock: Clock,
        snapshots: SnapshotRules,
        ended: Callable[[OttlaError], None],
    ) -> None:
        self.quorum = quorum
        self.loader = loader
        self.applied: list[Callable[[int], None]] = []
        """Those who hear of every new `applied_offset`."""
        self._raft = quorum.raft
        self._log = quorum.raft.log
        self._files = files
        self._clock = clock
        self._rules = snapshots
        self._ended = ended
        self._shows: list[Show] = []
        self._has_loaded = asyncio.Event()
        self._is_shown = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._failure: OttlaError | None = None
        self._bytes_since = 0
        self._snapshot_ms = quorum.now_ms()

    @property
    def image(self) -> ClusterImage:
        """The newest one."""
        return self.loader.image

    @property
    def failure(self) -> OttlaError | None:
        return self._failure or self.quorum.failure

    @property
    def has_failed(self) -> bool:
        return self.failure is not None

    @property
    def applied_offset(self) -> int:
        return self.loader.position.offset

    def log_state(self) -> LogState:
        """For those who look after it."""
        return self.quorum.log_state(self.loader.position)

    def start(self) -> None:
        self.quorum.start()
        self._task = asyncio.get_running_loop().create_task(self._until_it_fails(), name="metadata image")

    async def stop(self) -> None:
        await self.quorum.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._log.close()

    async def caught_up(self) -> None:
        """Return when the image has what was committed when a leader first answered; raises what stopped it."""
        while not self._is_caught_up:
            if self.failure is not None:
                raise self.failure
            self._has_loaded.clear()
            await self._has_loaded.wait()

    @property
    def _is_caught_up(self) -> bool:
        committed = self._raft.leader_high_watermark
        return committed is not None and self.loader.end_offset >= committed

    async def show_to(self, show: Show) -> None:
        """Show the image that there is, and from now on every next one."""
        async with self._is_shown:
            if not self._shows:
                self.loader.take_changes()
            await show(self.loader.image, None)
            self._shows.append(show)

    async def hide_from(self, show: Show) -> None:
        """Return when it is shown nothing any more."""
        async with self._is_shown:
            if show in self._shows:
                self._shows.remove(show)

    async def _until_it_fails(self) -> None:
        try:
            await self._read()
        except Exception as error:
            if not isinstance(error, OttlaError):
                log.exception("reading the metadata log failed")
                error = KafkaStorageError(f"the metadata log cannot be read: {error!r}")
            if self.failure is None:
                self._failure = error
                self._ended(error)
            self._has_loaded.set()

    # --- images -------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while self.quorum.failure is None:
            while await self._read_step():
                await next_turn()
            await self._make_snapshot_when_due()
            self._has_loaded.set()
            await self.quorum.passed(self.loader.end_offset)
        self._has_loaded.set()

    async def _read_step(self) -> bool:
        """Read some of what is committed, and show it; whether there was any."""
        async with self._is_shown:
            newest, metadata = self._log.newest_snapshot, self._log
            read = self.loader.end_offset
            # The snapshot of nothing, which tells the first voters, has nothing for an image.
            if newest is not None and newest.end_offset > read and read < max(metadata.start_offset, 1):
                await self._load(newest)
            elif not await self._load_batches():
                return False
            changes, image = self.loader.take_changes(), self.loader.image
            for show in self._shows:
                await show(image, changes)
            for hear in self.applied:
                hear(self.applied_offset)
            return True

    async def _load(self, newest: SnapshotId) -> None:
        batches = read_snapshot(self._files, self._log.snapshot_path(newest))
        steps = self.loader.load_snapshot(batches, end_offset=newest.end_offset, epoch=newest.epoch)
        for _ in steps:
            await next_turn()

    async def _load_batches(self) -> bool:
        for batch in (batches := self._next_batches()):
            for _ in self.loader.steps(batch):
                await next_turn()
            self._bytes_since += batch.size_bytes
        return bool(batches)

    def _next_batches(self) -> list[MetadataBatch]:
        """Read in one piece: what others do to the log between two steps is no concern of what is committed."""
        found, records = [], 0
        batches: Iterator[MetadataBatch] = self._raft.committed(self.loader.end_offset)
        for batch in batches:
            found.append(batch)
            records += max(1, len(batch.records))
            if records >= STEP_RECORDS:
                break
        return found

    # --- snapshots ----------------------------------------------------------------------------------------------------

    async def _make_snapshot_when_due(self) -> None:
        now_ms, position = self.quorum.now_ms(), self.loader.position
        is_due = self._rules.is_due(self._bytes_since, now_ms - self._snapshot_ms)
        metadata = self._log
        if not is_due or self.loader.in_transaction or not self._bytes_since:
            return
        self._bytes_since, self._snapshot_ms = 0, now_ms
        snapshot = SnapshotId(position.end_offset, position.epoch)
        if metadata.newest_snapshot is None or metadata.newest_snapshot.end_offset < snapshot.end_offset:
            steps = metadata.write_snapshot(
                snapshot,
                (record.encode() for record in snapshot_records(self.loader.image)),
                last_timestamp_ms=position.timestamp_ms,
                now_ms=self._clock.now_ms,
                voters=self._raft.voter_history.at(snapshot.end_offset),
            )
            for _ in steps:
                await next_turn()
        for discarded in metadata.clean_up(self._clock.now_ms()):
            self._clock.call_later(self._log.limits.delete_delay_ms, partial(discarded.remove, self._files))
            await next_turn()
