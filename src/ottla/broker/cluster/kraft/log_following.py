"""The loops beside the observer: the metadata log comes, goes to the disk, and is shown as images of the cluster.

    following = LogFollowing(observer, loader, ask, ...)
    following.start()
    await following.caught_up()                    # the image has what was committed when the first leader answered
    await following.show_to(apply)                 # apply(image, changes) is awaited for this image, then for each next

1. Two loops: one asks the controllers and syncs what they gave before it asks again; the other reads what is committed
   and shows it. So a broker that is long about its new partitions does not lose its place in the quorum.
2. Batches are gathered to at most STEP_RECORDS records for one step, so that whoever comes back after a long time is
   shown few images. `changes` of None mean that anything may be different.
3. `applied_offset` is of the last record that was shown; heartbeats tell it.
4. After so many bytes of records, or so much time, a snapshot is written and what is too old or too much leaves the log
   (LogLimits); neither within a transaction.
5. What must stop the node (a record that is not known, a disk that failed, committed records that are lost) ends both
   loops and is told once, by `ended`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

from ottla.broker.requests.running import next_turn
from ottla.clock import Clock
from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batches import MetadataBatch
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.metadata_log.writing import snapshot_records
from ottla.cluster.raft.log import LogState, SnapshotRules
from ottla.cluster.raft.observer import Observer, Response
from ottla.cluster.raft.snapshots import SnapshotId, read_snapshot
from ottla.errors import KafkaStorageError, OttlaError
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from ottla.protocol.schema import Message
from ottla.storage.files import Files
from ottla.values import Address

log = logging.getLogger(__name__)

STEP_RECORDS: Final = 500
UNKNOWN_SAID_MS: Final = 5_000.0
"""How often it is said that no controller answers."""

Ask: TypeAlias = Callable[[Address, Message, float], Awaitable[Message]]
Show: TypeAlias = Callable[[ClusterImage, Sequence[Change] | None], Awaitable[None]]


class LogFollowing:
    """See the module. Belongs to the broker's loop."""

    def __init__(
        self,
        observer: Observer,
        loader: MetadataLoader,
        ask: Ask,
        *,
        files: Files,
        clock: Clock,
        pool: Executor | None,
        request_timeout_ms: float,
        snapshots: SnapshotRules,
        ended: Callable[[OttlaError], None],
        shown: Callable[[int], None] = lambda offset: None,
        leader_is_at: Callable[[Address | None], None] = lambda address: None,
    ) -> None:
        """`shown` hears of every new `applied_offset`, `leader_is_at` after every question where the leader is."""
        self.observer = observer
        self.loader = loader
        self.shown = shown
        self._leader_is_at = leader_is_at
        self._ask = ask
        self._files = files
        self._clock = clock
        self._pool = pool
        self._request_timeout_ms = request_timeout_ms
        self._rules = snapshots
        self._ended = ended
        self._show: Show | None = None
        self._has_committed = asyncio.Event()
        self._has_loaded = asyncio.Event()
        self._is_shown = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: OttlaError | None = None
        self._bytes_since = 0
        # The observer counts in this time, which no hand sets back.
        self._wall_ahead_ms = clock.now_ms() - clock.monotonic_ms()
        self._snapshot_ms = self._now_ms()
        self._said_ms = clock.monotonic_ms()

    @property
    def image(self) -> ClusterImage:
        """The newest one."""
        return self.loader.image

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    @property
    def applied_offset(self) -> int:
        return self.loader.position.offset

    def log_state(self) -> LogState:
        """For those who look after it."""
        observer = self.observer
        return observer.log.state(observer.state, observer.voters.newest, self.loader.position)

    def start(self) -> None:
        create = asyncio.get_running_loop().create_task
        loops = (self._follow(), "metadata log"), (self._read(), "metadata image")
        self._tasks = [create(self._until_it_fails(loop), name=name) for loop, name in loops]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.observer.log.close()

    async def caught_up(self) -> None:
        """Return when the image has what was committed when a leader first answered; raises what stopped it."""
        while not self._is_caught_up:
            if self._failure is not None:
                raise self._failure
            self._has_loaded.clear()
            await self._has_loaded.wait()

    @property
    def _is_caught_up(self) -> bool:
        committed = self.observer.leader_high_watermark
        return committed is not None and self.loader.end_offset >= committed

    async def show_to(self, show: Show) -> None:
        """Show the image that there is, and from now on every next one."""
        async with self._is_shown:
            self.loader.take_changes()
            await show(self.loader.image, None)
            self._show = show

    def _now_ms(self) -> int:
        return int(self._wall_ahead_ms + self._clock.monotonic_ms())

    async def _until_it_fails(self, loop: Coroutine[object, None, None]) -> None:
        try:
            await loop
        except Exception as error:
            if not isinstance(error, OttlaError):
                log.exception("following the metadata log failed")
                error = KafkaStorageError(f"the metadata log cannot be followed: {error!r}")
            if self._failure is None:
                self._failure = error
                self._ended(error)
            self._has_loaded.set()

    # --- the log ------------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        clock = self._clock
        while True:
            question = self.observer.next_question(self._now_ms())
            if question is None:
                await clock.sleep(max(1, self.observer.wake_ms - self._now_ms()))
                continue
            try:
                response = await self._ask(question.address, question.request, self._request_timeout_ms)
            except OttlaError as error:
                self._say_unanswered(question.address, error)
                self.observer.unanswered(question, self._now_ms())
                self._leader_is_at(self.observer.leader)
                continue
            self.observer.answered(question, _response(response), self._now_ms())
            self._leader_is_at(self.observer.leader)
            await self._sync()
            self._has_committed.set()

    def _say_unanswered(self, address: Address, error: OttlaError) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._said_ms >= UNKNOWN_SAID_MS:
            self._said_ms = now_ms
            log.warning("the metadata log cannot be fetched from %s, and is tried again: %s", address, error)

    async def _sync(self) -> None:
        metadata = self.observer.log
        if metadata.flushed_offset >= metadata.end_offset:
            return
        job = metadata.flush_job()
        if self._pool is None:
            job.run()
        else:
            await asyncio.get_running_loop().run_in_executor(self._pool, job.run)
        metadata.flushed(job, self._now_ms())

    # --- images -------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            self._has_committed.clear()
            while await self._read_step():
                await next_turn()
            await self._make_snapshot_when_due()
            self._has_loaded.set()
            await self._has_committed.wait()

    async def _read_step(self) -> bool:
        """Read some of what is committed, and show it; whether there was any."""
        async with self._is_shown:
            newest, metadata = self.observer.log.newest_snapshot, self.observer.log
            if newest is not None and self.loader.end_offset < max(metadata.start_offset, 1):
                await self._load(newest)
            elif not self._load_batches():
                return False
            changes, image = self.loader.take_changes(), self.loader.image
            if self._show is not None:
                await self._show(image, changes)
            self.shown(self.applied_offset)
            return True

    async def _load(self, newest: SnapshotId) -> None:
        batches = read_snapshot(self._files, self.observer.log.snapshot_path(newest))
        steps = self.loader.load_snapshot(batches, end_offset=newest.end_offset, epoch=newest.epoch)
        for _ in steps:
            await next_turn()

    def _load_batches(self) -> bool:
        records = 0
        batches: Iterator[MetadataBatch] = self.observer.committed(self.loader.end_offset)
        for batch in islice(batches, STEP_RECORDS):
            self.loader.add(batch)
            self._bytes_since += batch.size_bytes
            records += max(1, len(batch.records))
            if records >= STEP_RECORDS:
                break
        return records > 0

    # --- snapshots ----------------------------------------------------------------------------------------------------

    async def _make_snapshot_when_due(self) -> None:
        now_ms, position = self._now_ms(), self.loader.position
        is_due = self._rules.is_due(self._bytes_since, now_ms - self._snapshot_ms)
        metadata = self.observer.log
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
                voters=self.observer.voters.at(snapshot.end_offset),
            )
            for _ in steps:
                await next_turn()
        for discarded in metadata.clean_up(self._clock.now_ms()):
            self._clock.call_later(self.observer.log.limits.delete_delay_ms, partial(discarded.remove, self._files))
            await next_turn()


def _response(response: Message) -> Response:
    assert isinstance(response, FetchResponse | FetchSnapshotResponse)
    return response
