"""The loop beside Raft: what the machine says goes to the other nodes and to the disk, what they ask is answered.

    quorum = RaftLoop(raft, ask, ...)
    quorum.start()
    response = await quorum.vote(request)          # what others ask; leaves when quorum-state is on the disk
    log = quorum.led(); end = log.append(batches); await log.committed(end)        # who leads
    await quorum.changed()                         # something is different: the role, the log, the high watermark

1. quorum-state and the log are synced by a worker thread. Meanwhile the machine goes on; what it says waits for the
   first, and who follows asks for more only after the second.
2. A request that is not answered within the time-out is told to the machine as unanswered, which asks again.
3. A fetch that finds nothing new waits here until there is something, or its own time is over.
4. What must stop the node (a disk that failed, committed records that are lost) ends the loop and is told once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeAlias, cast

from ottla.broker.requests.running import resolve
from ottla.clock import Clock
from ottla.cluster.metadata_log.loader import Position
from ottla.cluster.raft.leading import Leadership
from ottla.cluster.raft.log import LogState
from ottla.cluster.raft.node import Response, Sent
from ottla.cluster.raft.quorum_state import write_quorum_state
from ottla.cluster.raft.raft import Raft
from ottla.cluster.raft.voter_changes import KnownVoters, VoterChange, VoterChanges
from ottla.errors import (
    ConnectionRefused,
    KafkaStorageError,
    NotController,
    NotLeaderOrFollower,
    OttlaError,
    StorageExhausted,
)
from ottla.ordered_set import OrderedSet
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from ottla.protocol.messages.vote import VoteRequest, VoteResponse
from ottla.protocol.schema import Message
from ottla.storage.files import Files
from ottla.values import Address

log = logging.getLogger(__name__)

UNKNOWN_SAID_MS: Final = 5_000.0
"""How often it is said that no controller answers."""

Ask: TypeAlias = Callable[[Address, Message, float], Awaitable[Message]]


class RaftLoop:
    """See the module. Belongs to the node's loop."""

    def __init__(
        self,
        raft: Raft,
        ask: Ask,
        *,
        files: Files,
        clock: Clock,
        pool: Executor | None,
        request_timeout_ms: float,
        ended: Callable[[OttlaError], None],
        leader_is_at: Callable[[Address | None], None] = lambda address: None,
    ) -> None:
        """`leader_is_at` hears where the leader is whenever that may have changed."""
        self.raft = raft
        self._ask = ask
        self._files = files
        self._clock = clock
        self._pool = pool
        self._request_timeout_ms = request_timeout_ms
        self._ended = ended
        self._leader_is_at = leader_is_at
        self._wakes = asyncio.Event()
        self._is_saved = asyncio.Event()
        self._waiting: dict[asyncio.Future[None], None] = {}  # for a change
        self._seen: object = None
        self._task: asyncio.Task[None] | None = None
        self._sending: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._syncing: asyncio.Task[None] | None = None
        self.failure: OttlaError | None = None
        # The machine counts in this time, which no hand sets back.
        self._wall_ahead_ms = clock.now_ms() - clock.monotonic_ms()
        self._said_ms = clock.monotonic_ms()

    def now_ms(self) -> int:
        return int(self._wall_ahead_ms + self._clock.monotonic_ms())

    # --- coming and going ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="raft")

    async def stop(self) -> None:
        """End without a word; `resign` says goodbye."""
        tasks = [task for task in (self._task, self._syncing, *self._sending) if task is not None]
        if self._task is not None:
            self._task.cancel()
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._notice()

    async def resign(self, limit_ms: float) -> None:
        """Lead no more, and wait until another node does, but not for longer than that."""
        raft = self.raft
        if not raft.leads or raft.is_only_voter:
            return
        raft.resign(self.now_ms())
        self._wake()
        end_ms = self._clock.monotonic_ms() + limit_ms
        while raft.leader is None and (left_ms := end_ms - self._clock.monotonic_ms()) > 0:
            await self.changed(left_ms)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, OttlaError):
            log.exception("the quorum of the metadata log failed", exc_info=error)
            error = KafkaStorageError(f"the quorum of the metadata log failed: {error!r}")
        if self.failure is None:
            self.failure = error
            self._ended(error)
        self._notice()

    # --- what is there ------------------------------------------------------------------------------------------------

    def log_state(self, applied: Position) -> LogState:
        """For those who look after it."""
        return self.raft.log.state(self.raft.state, self.raft.voters.nodes, applied)

    async def changed(self, limit_ms: float | None = None) -> None:
        """Return when the role, the epoch, the log or the high watermark is another one, or after that time."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = None
        # No asyncio.timeout: the first step of who is answered is taken outside of a task (requests/dispatch.py).
        timer = None if limit_ms is None else self._clock.call_later(limit_ms, partial(resolve, waiting, None))
        try:
            await waiting
        finally:
            self._waiting.pop(waiting, None)
            if timer is not None:
                timer.cancel()

    async def passed(self, offset: int) -> None:
        """Return when something is committed that is not before that offset, or the loop has failed."""
        while self.raft.log.high_watermark <= offset and self.failure is None:
            await self.changed()

    def _notice(self) -> None:
        raft, metadata = self.raft, self.raft.log
        roles = raft.role, raft.state, raft.leader, raft.is_established, self.failure is not None
        seen = *roles, metadata.end_offset, metadata.high_watermark
        if seen == self._seen:
            return
        self._seen = seen
        self._leader_is_at(raft.leader_view.address)
        for waiting in self._waiting:
            resolve(waiting, None)

    # --- the loop -----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Something happened to the machine."""
        self._notice()
        self._wakes.set()

    async def _run(self) -> None:
        try:
            while True:
                self._wakes.clear()
                self.raft.tick(self.now_ms())
                self._notice()
                await self._save()
                self._sync()
                for sent in self.raft.requests(self.now_ms()):
                    self._send(sent)
                await self._sleep()
        except Exception as error:
            self._fail(error)

    async def _sleep(self) -> None:
        wake_ms = self.raft.wake_ms
        limit_ms = None if wake_ms == float("inf") else max(1.0, wake_ms - self.now_ms())
        try:
            async with self._clock.timeout(limit_ms):
                await self._wakes.wait()
        except TimeoutError:
            pass

    async def _save(self) -> None:
        raft = self.raft
        while not raft.is_saved:
            state, version, directory = raft.state, raft.kraft_version, raft.log.directory

            def write(state=state, version=version, directory=directory) -> None:  # type: ignore[no-untyped-def]
                write_quorum_state(self._files, directory, state, version)

            await self._work(write)
            raft.saved(state)
        self._is_saved.set()

    async def _work(self, call: Callable[[], None]) -> None:
        if self._pool is None:
            call()
        else:
            await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def _sync(self) -> None:
        metadata = self.raft.log
        if self._syncing is None and metadata.flushed_offset < metadata.end_offset:
            self._syncing = asyncio.get_running_loop().create_task(self._sync_log(), name="raft sync")

    async def _sync_log(self) -> None:
        metadata = self.raft.log
        try:
            job = metadata.flush_job()
            await self._work(job.run)
            metadata.flushed(job, self.now_ms())
            self.raft.synced(self.now_ms())
        except Exception as error:
            self._fail(error)
        finally:
            self._syncing = None
            self._wake()

    # --- asking others ------------------------------------------------------------------------------------------------

    def _send(self, sent: Sent) -> None:
        task = asyncio.get_running_loop().create_task(self._ask_for(sent), name="raft request")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _ask_for(self, sent: Sent) -> None:
        raft = self.raft
        try:
            response = cast(Response, await self._ask(sent.address, sent.request, self._request_timeout_ms))
        except OttlaError as error:
            self._say_unanswered(sent, error)
            raft.unanswered(sent, self.now_ms(), is_refused=isinstance(error, ConnectionRefused))
        else:
            try:
                raft.answered(sent, response, self.now_ms())
            except Exception as error:
                self._fail(error)
        self._wake()

    def _say_unanswered(self, sent: Sent, error: OttlaError) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._said_ms >= UNKNOWN_SAID_MS:
            self._said_ms = now_ms
            kind = type(sent.request).__name__.removesuffix("Request")
            log.warning("%s to the controller at %s is tried again: %s", kind, sent.address, error)

    # --- what others ask ----------------------------------------------------------------------------------------------

    async def vote(self, request: VoteRequest) -> VoteResponse:
        response = self.raft.on_vote(request, self.now_ms())
        await self._said()
        return response

    async def begin_quorum_epoch(self, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
        response = self.raft.on_begin_quorum_epoch(request, self.now_ms())
        await self._said()
        return response

    async def end_quorum_epoch(self, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
        response = self.raft.on_end_quorum_epoch(request, self.now_ms())
        await self._said()
        return response

    async def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        end_ms = self.now_ms() + request.max_wait_ms
        while True:
            response, may_wait = self.raft.on_fetch(request, version, self.now_ms())
            left_ms = end_ms - self.now_ms()
            if not may_wait or left_ms <= 0:
                break
            self._wake()
            await self.changed(left_ms)
        await self._said()
        return response

    async def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        response = self.raft.on_fetch_snapshot(request, self.now_ms())
        await self._said()
        return response

    async def _said(self) -> None:
        """What was answered may leave: quorum-state has what it says."""
        self._wake()
        while not self.raft.is_saved:
            if self.failure is not None:
                raise self.failure
            self._is_saved.clear()
            self._wakes.set()
            await self._is_saved.wait()

    async def add_voter(self, request: AddRaftVoterRequest) -> VoterChange:
        self.raft.check_cluster(request.cluster_id)
        return await self._decided(self._changes().add(request, self.now_ms()))

    async def remove_voter(self, request: RemoveRaftVoterRequest) -> VoterChange:
        self.raft.check_cluster(request.cluster_id)
        return await self._decided(self._changes().remove(request, self.now_ms()))

    def update_voter(self, request: UpdateRaftVoterRequest) -> int:
        """The error code."""
        self.raft.check_cluster(request.cluster_id)
        changes = self.raft.changes
        error_code = NotLeaderOrFollower.code if changes is None else changes.update(request, self.now_ms())
        self._wake()
        return error_code

    def _changes(self) -> VoterChanges:
        if self.raft.changes is None:
            raise NotLeaderOrFollower(f"node {self.raft.node.key.id} does not lead the metadata log")
        return self.raft.changes

    async def _decided(self, change: VoterChange) -> VoterChange:
        """The change of voters, when it is decided."""
        self._wake()
        while change.error_code is None and self.failure is None:
            await self.changed()
        return change

    # --- who leads ----------------------------------------------------------------------------------------------------

    def led(self) -> LedLog:
        """The log, for as long as this node leads it; its leadership is established."""
        leadership = self.raft.leadership
        assert leadership is not None, "it leads"
        assert leadership.is_established, "it knows what is committed"
        return LedLog(self, leadership)

    def append(self, batches: Sequence[Sequence[bytes]]) -> int:
        """Encoded records, each sequence a batch; where the log ends then."""
        return self._append(lambda: self.raft.append(batches, self.now_ms()))

    def raise_kraft_version(self, level: int) -> int:
        """The level of the quorum, and who votes; where the log ends then."""
        return self._append(lambda: self._changes().upgrade(level, self.now_ms()))

    def known_voters(self) -> KnownVoters:
        """What is decided by whether the quorum can work at a higher level."""
        if self.raft.changes is None:
            raise NotController(f"node {self.raft.node.key.id} does not lead the metadata log")
        return self.raft.changes.known_voters()

    def _append(self, append: Callable[[], int]) -> int:
        before = self.raft.log.end_offset
        try:
            end_offset = append()
        except KafkaStorageError as error:
            if self.raft.log.end_offset > before:
                # Half a transaction is in the log: the next leader aborts it, whoever that is.
                self.raft.resign(self.now_ms())
            if not isinstance(error, StorageExhausted):
                self._fail(error)  # who cannot write leads nothing: another node does, or this one in its next life
            self._wake()
            raise
        self._wake()
        return end_offset


class LedLog:
    """The log for the controller of one leadership (a MetadataQuorum)."""

    def __init__(self, loop: RaftLoop, leadership: Leadership) -> None:
        self.epoch = loop.raft.epoch
        self._loop = loop
        self._leadership = leadership

    @property
    def next_offset(self) -> int:
        return self._loop.raft.log.end_offset

    @property
    def is_over(self) -> bool:
        return self._loop.raft.leadership is not self._leadership or self._loop.failure is not None

    def append(self, batches: Sequence[Sequence[bytes]]) -> int:
        if self.is_over:
            raise NotController("this node does not lead the metadata log any more")
        return self._loop.append(batches)

    def raise_kraft_version(self, level: int) -> int:
        if self.is_over:
            raise NotController("this node does not lead the metadata log any more")
        return self._loop.raise_kraft_version(level)

    async def committed(self, end_offset: int) -> None:
        """NotController when this node does not lead any more; the next leader may have it or not."""
        while (self._leadership.high_watermark or 0) < end_offset:
            if self.is_over:
                raise NotController("another node became the active controller before the change was committed")
            await self._loop.changed()
