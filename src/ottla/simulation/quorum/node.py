"""One node of a simulated quorum: the machine of cluster/raft, a disk in memory that takes its time, and no clock.

1. What the machine says leaves when quorum-state is on the disk; a log is synced in the background, and counts then.
2. A fetch that finds nothing waits at the leader until there is something, or its time is over.
3. A node that loses power forgets what was not synced; one that stops does not. A node whose disk is lost comes back
   with another directory, and so is another voter.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from ottla.cluster.raft import raft as machine
from ottla.cluster.raft.fetching import Identity
from ottla.cluster.raft.log import LogLimits, MetadataLog
from ottla.cluster.raft.node import RaftNode, RaftSettings, Response, Sent
from ottla.cluster.raft.quorum_state import write_quorum_state
from ottla.cluster.raft.snapshots import SnapshotId
from ottla.cluster.raft.voter_changes import VoterChange
from ottla.cluster.raft.voters import VoterKey, VoterSet
from ottla.errors import BrokerError, KafkaStorageError
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from ottla.protocol.messages.vote import VoteRequest
from ottla.protocol.metadata_log.control import VoterNode
from ottla.testing.files import MemoryFiles
from ottla.values import Address

CLUSTER: Final = "5L6g3nShT-eMCtK--X86sw"
DATA: Final = Path("/data")
LISTENER: Final = "CONTROLLER"
FETCH_VERSION: Final = 18

Later: TypeAlias = Callable[[float, Callable[[], None]], None]
Reply: TypeAlias = Callable[[Response | None], None]
Broken: TypeAlias = Callable[[], None]


def address_of(node_id: int) -> Address:
    return Address(f"node-{node_id}", 9093)


class HeldFetch:
    """A fetch that waits for something new."""

    def __init__(self, request: FetchRequest, reply: Reply, end_ms: int) -> None:
        self.request, self.reply, self.end_ms = request, reply, end_ms


class Node:
    """See above. `now_ms` and `later` are the simulation's time, `send` its network;
    `checked` looks at the node after every step."""

    def __init__(
        self,
        node_id: int,
        random: Random,
        *,
        can_vote: bool,
        now_ms: Callable[[], int],
        later: Later,
        send: Callable[[Node, Sent], None],
        checked: Callable[[Node], None],
        settings: RaftSettings,
        static: VoterSet,
    ) -> None:
        self.id = node_id
        self.random = random
        self.can_vote = can_vote
        self.static = static
        self.is_running = False
        self.has_power = True
        """Whether the machine of a process that has ended says so to whoever connects."""
        self.asking: dict[Broken, None] = {}
        """Who waits for an answer of this process: the machine tells them when it ends."""
        self.paused_until_ms = 0
        self.sync_ms = 1.0
        self._now_ms, self._later, self._send, self._checked = now_ms, later, send, checked
        self._settings = settings
        self.life = 0
        self.disks = 0
        self.lose_disk()

    @property
    def key(self) -> VoterKey:
        return VoterKey(self.id, self.directory_id)

    def story(self) -> str:
        if not self.is_running:
            return f"node {self.id} is down"
        log = self.raft.log
        return (
            f"node {self.id} {self.raft.role.value} epoch {self.raft.epoch} leader {self.raft.state.leader_id} log "
            f"{log.start_offset}..{log.end_offset} synced {log.flushed_offset} high watermark {log.high_watermark} "
            f"voters {[str(voter) for voter in self.raft.voters]}"
        )

    # --- coming and going ---------------------------------------------------------------------------------------------

    def lose_disk(self) -> None:
        """Everything is gone; the next life is that of another voter."""
        self.disks += 1
        self.directory_id = bytes([self.id]) * 8 + self.disks.to_bytes(8)
        self.files = MemoryFiles(seed=self.random.randint(0, 1 << 30), now_ms=self._now_ms)
        self.files.make_directory(DATA)
        self.files.sync_directory(DATA.parent)

    def start(self) -> None:
        self.life += 1
        self.is_running = self.has_power = True
        self.held: list[HeldFetch] = []
        self._withheld: list[tuple[Reply, Response]] = []
        self._is_saving = self._is_syncing = False
        self._alarm_ms = 0.0
        self.changes: list[tuple[VoterChange, Reply, bool]] = []
        log = MetadataLog.open(
            self.files, DATA, now_ms=self._now_ms(), limits=LogLimits(retention_bytes=1, delete_delay_ms=0)
        )
        everybody = [address_of(node_id) for node_id in range(1, 9) if node_id != self.id]
        node = RaftNode(
            Identity(CLUSTER, self.id, self.directory_id),
            bootstrap=tuple(everybody[:5]),
            voters=self.static,
            endpoints=((LISTENER, address_of(self.id)),) if self.can_vote else (),
            joins_by_itself=True,
        )
        self.raft = machine.Raft(self.files, log, node, self._settings, self.random, self._now_ms())
        self.step()

    def stop(self, *, power_cut: bool) -> None:
        self.is_running = False
        self.has_power = not power_cut
        self.life += 1
        asking, self.asking = self.asking, {}
        if not power_cut:
            for broken in asking:
                broken()
        if power_cut:
            self.files.crash("any")
        else:
            self.files.kill()

    # --- one step -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Something happened: save, sync, answer, ask, and be woken when it is time."""
        raft, now_ms = self.raft, self._now_ms()
        raft.tick(now_ms)
        self._save()
        self._sync()
        self._answer_held(now_ms)
        self._answer_changes()
        if raft.is_saved:
            withheld, self._withheld = self._withheld, []
            for reply, response in withheld:
                reply(response)
            for sent in raft.requests(now_ms):
                self._send(self, sent)
        self._checked(self)
        self._wake_at(max(now_ms + 1.0, raft.wake_ms))

    def _wake_at(self, time_ms: float) -> None:
        """Only the newest alarm counts."""
        if time_ms == self._alarm_ms or time_ms == float("inf"):
            return
        self._alarm_ms = time_ms

        def ring() -> None:
            if self._alarm_ms == time_ms:
                self._alarm_ms = 0.0
                self.step()

        self._call_later(time_ms - self._now_ms(), ring)

    def _call_later(self, delay_ms: float, call: Callable[[], None]) -> None:
        life = self.life

        def in_this_life() -> None:
            if life == self.life and self.is_running:
                if self.paused_until_ms > self._now_ms():
                    self._later(self.paused_until_ms - self._now_ms(), in_this_life)
                else:
                    call()

        self._later(delay_ms, in_this_life)

    def _save(self) -> None:
        if self.raft.is_saved or self._is_saving:
            return
        self._is_saving = True
        state, version = self.raft.state, self.raft.kraft_version

        def written() -> None:
            write_quorum_state(self.files, self.raft.log.directory, state, version)
            self._is_saving = False
            self.raft.saved(state)
            self.step()

        self._call_later(self.random.uniform(0.1, self.sync_ms), written)

    def _sync(self) -> None:
        log = self.raft.log
        if log.flushed_offset >= log.end_offset or self._is_syncing:
            return
        self._is_syncing = True
        job = log.flush_job()

        def synced() -> None:
            job.run()
            self._is_syncing = False
            log.flushed(job, self._now_ms())
            self.raft.synced(self._now_ms())
            self.step()

        self._call_later(self.random.uniform(0.1, self.sync_ms), synced)

    # --- what others ask ----------------------------------------------------------------------------------------------

    def ask(self, sent: Sent, reply: Reply) -> None:
        """A request has arrived; `reply` sends the answer back."""
        if self.paused_until_ms > self._now_ms():
            self._call_later(self.paused_until_ms - self._now_ms(), lambda: self.ask(sent, reply))
            return
        try:
            response = self._answer(sent, reply)
        except BrokerError:
            reply(None)
            return
        if response is not None:
            self._withheld.append((reply, response))
        self.step()

    def _answer(self, sent: Sent, reply: Reply) -> Response | None:
        raft, request, now_ms = self.raft, sent.request, self._now_ms()
        match request:
            case VoteRequest():
                return raft.on_vote(request, now_ms)
            case BeginQuorumEpochRequest():
                return raft.on_begin_quorum_epoch(request, now_ms)
            case EndQuorumEpochRequest():
                return raft.on_end_quorum_epoch(request, now_ms)
            case FetchRequest():
                response, may_wait = raft.on_fetch(request, FETCH_VERSION, now_ms)
                if not may_wait:
                    return response
                self.held.append(HeldFetch(request, reply, now_ms + request.max_wait_ms))
                self._call_later(request.max_wait_ms, self.step)
                return None
            case FetchSnapshotRequest():
                return raft.on_fetch_snapshot(request, now_ms)
            case ApiVersionsRequest():
                level = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
                return ApiVersionsResponse(error_code=0, api_keys=[], supported_features=[level])
            case AddRaftVoterRequest() if raft.changes is not None:
                self.changes.append((raft.changes.add(request, now_ms), reply, True))
                return None
            case RemoveRaftVoterRequest() if raft.changes is not None:
                self.changes.append((raft.changes.remove(request, now_ms), reply, False))
                return None
            case UpdateRaftVoterRequest() if raft.changes is not None:
                return UpdateRaftVoterResponse(error_code=raft.changes.update(request, now_ms))
        reply(None)
        return None

    def _answer_held(self, now_ms: int) -> None:
        held, self.held = self.held, []
        for fetch in held:
            response, may_wait = self.raft.on_fetch(fetch.request, FETCH_VERSION, now_ms)
            if may_wait and now_ms < fetch.end_ms:
                self.held.append(fetch)
            else:
                self._withheld.append((fetch.reply, response))

    def _answer_changes(self) -> None:
        for change, reply, is_new in [each for each in self.changes if each[0].error_code is not None]:
            code = change.error_code or 0
            response: Response = (
                AddRaftVoterResponse(error_code=code, error_message=change.message)
                if is_new
                else RemoveRaftVoterResponse(error_code=code, error_message=change.message)
            )
            self._withheld.append((reply, response))
        self.changes = [each for each in self.changes if each[0].error_code is None]

    def answered(self, sent: Sent, response: Response | None, *, is_refused: bool = False) -> None:
        """The answer to what this node asked; None when there is none."""
        if self.paused_until_ms > self._now_ms():
            wait_ms = self.paused_until_ms - self._now_ms()
            self._call_later(wait_ms, lambda: self.answered(sent, response, is_refused=is_refused))
            return
        if response is None:
            self.raft.unanswered(sent, self._now_ms(), is_refused=is_refused)
        else:
            self.raft.answered(sent, response, self._now_ms())
        self.step()

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def make_snapshot(self) -> None:
        """Of everything that is committed here, and let go what is before it."""
        log = self.raft.log
        batches = list(log.batches(log.start_offset, log.high_watermark))
        newest = log.newest_snapshot
        if not batches or (newest is not None and newest.end_offset >= log.high_watermark):
            return
        snapshot = SnapshotId(log.high_watermark, batches[-1].epoch)
        try:
            for _ in log.write_snapshot(
                snapshot,
                (),
                last_timestamp_ms=0,
                now_ms=self._now_ms,
                voters=self.raft.voter_history.at(snapshot.end_offset),
            ):
                pass
            for discarded in log.clean_up(self._now_ms()):
                discarded.remove(self.files)
        except KafkaStorageError:
            raise AssertionError("no disk fails here") from None

    def as_voter(self) -> VoterNode:
        return RaftNode(
            Identity(CLUSTER, self.id, self.directory_id), endpoints=((LISTENER, address_of(self.id)),)
        ).as_voter()
