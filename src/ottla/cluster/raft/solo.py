"""A quorum of one: the only voter opens its metadata log, is its leader at once, and appends what is decided.

    quorum = QuorumOfOne(files, log_directory, node, now_ms=clock.now_ms, limits=LogLimits())
    for _ in quorum.load(loader): ...                     # what the log says
    quorum.lead(voters)                                   # a new epoch; now it can grow
    quorum.append(values)                                 # any thread, one at a time: on the disk when it returns

1. With one voter everything that is on the disk is committed. So nothing is given out before it is synced, and the high
   watermark is the end of the log.
2. Every life is an epoch of its own: quorum-state first, then the LeaderChangeMessage, then records.
3. A batch was synced before the next one was written. So damage before a sound batch is rot (DamagedMetadataLog names
   file and byte), and only the very last batch can be the torn end of a crash; after a stop in order not even that.
4. A log whose voters are others is refused: this node has no vote there, or not the only one.
5. What a snapshot no longer needs goes as the settings say (log.py, 4); the files themselves a while later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ottla.cluster.metadata_log.batches import MetadataBatch, control_batch, data_batch
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.raft.log import Discarded, LogLimits, MetadataLog, refuse_rot
from ottla.cluster.raft.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.cluster.raft.snapshots import SnapshotId, Voters, read_snapshot
from ottla.cluster.raft.voters import VoterHistory, voters_by_settings
from ottla.errors import DiskFull, OttlaError
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log.control import (
    ControlMessage,
    LeaderChangeMessage,
    Voter,
    VoterNode,
)
from ottla.storage.files import Files


class OtherVoters(OttlaError):
    """The metadata log of this directory belongs to a quorum that this node is not the only voter of, so it does not
    start: what the others decide, or have decided, it would not know."""


class LocalNode(NamedTuple):
    """Who this node is, and how its last life ended."""

    id: int
    directory_id: bytes
    stopped_in_order: bool


class QuorumOfOne:
    """See above."""

    def __init__(
        self, files: Files, log_directory: Path, node: LocalNode, *, now_ms: Callable[[], int], limits: LogLimits
    ) -> None:
        self.node = node
        self.epoch = 0
        self.state = QuorumState()
        self._files = files
        self._now_ms = now_ms
        refuse_rot(files, log_directory, stopped_in_order=node.stopped_in_order)
        self.log = MetadataLog.open(
            files, log_directory, now_ms=now_ms(), limits=limits, is_suspect=not node.stopped_in_order
        )
        self._voters = VoterHistory()
        self._leader_voters: tuple[int, ...] = ()  # as the newest leader told them, where no record does
        self._discarded: list[tuple[int, Discarded]] = []

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def voters(self) -> Voters:
        return self._voters.newest

    @property
    def voter_nodes(self) -> tuple[VoterNode, ...]:
        """This node, with what the log says of it, if it does."""
        record = self._voters.newest.record
        return voters_by_settings([(self.node.id, None)], "").nodes if record is None else tuple(record.voters)

    @property
    def is_empty(self) -> bool:
        """Whether no controller has ever written anything."""
        return self.log.end_offset == 0

    def load(self, loader: MetadataLoader) -> Iterator[MetadataBatch | None]:
        """Read the newest snapshot and the log behind it into the loader, in steps; gives the batches of the log."""
        snapshot = self.log.newest_snapshot
        if snapshot is not None:
            path = self.log.snapshot_path(snapshot)
            self._voters.begin(read_snapshot(self._files, path))
            yield from loader.load_snapshot(
                read_snapshot(self._files, path), end_offset=snapshot.end_offset, epoch=snapshot.epoch
            )
        for batch in self.log.batches(loader.end_offset, self.log.end_offset):
            self._voters.add(batch)
            for control in batch.controls:
                if isinstance(control, LeaderChangeMessage):
                    self._leader_voters = tuple(voter.voter_id for voter in control.voters)
            loader.add(batch)
            yield batch

    # --- leading ------------------------------------------------------------------------------------------------------

    def lead(self, voters: Voters) -> None:
        """Begin an epoch. `voters` are who votes where nobody has said so yet."""
        state = read_quorum_state(self._files, self.log.directory) or QuorumState()
        self._refuse_others(state)
        said = self._voters.newest
        self.epoch = max(state.leader_epoch, self.log.last_epoch) + 1
        known = voters if self.is_empty and said == Voters() else said
        elected = self.state = QuorumState(self.epoch, self.node.id, self.node.id, self.node.directory_id)
        write_quorum_state(self._files, self.log.directory, elected, known.kraft_version)
        me = Voter(voter_id=self.node.id)
        controls: list[ControlMessage] = [
            LeaderChangeMessage(leader_id=self.node.id, voters=[me], granting_voters=[me])
        ]
        if self.is_empty:
            controls += known.controls()
        begin = self.log.end_offset
        self._append(control_batch(controls, base_offset=begin, epoch=self.epoch, timestamp_ms=self._now_ms()))
        for batch in self.log.batches(begin, self.log.end_offset):
            self._voters.add(batch)

    def _refuse_others(self, state: QuorumState) -> None:
        record = self._voters.newest.record
        voting = {voter.voter_id for voter in record.voters} if record is not None else {*self._leader_voters}
        if voting - {self.node.id}:
            others = ", ".join(map(str, sorted(voting)))
            raise OtherVoters(
                f"{self.log.directory}: the voters of its quorum are {others}, and this is node {self.node.id}. Start "
                "it with the settings of that cluster, or give this node a directory of its own"
            )
        if record is not None and all(voter.voter_directory_id != self.node.directory_id for voter in record.voters):
            raise OtherVoters(
                f"{self.log.directory}: the voter {self.node.id} of its quorum has another directory than this one "
                "(directory.id in meta.properties). Start the node on the directory that has the vote"
            )
        if not voting and state.leader_id not in (-1, self.node.id):
            raise OtherVoters(
                f"{self.log.directory} follows the quorum of node {state.leader_id}, where this node has no vote. "
                "Start it with the settings of that cluster, or give this node a directory of its own"
            )

    # --- growing ------------------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        return self.log.end_offset

    def append(self, batches: Sequence[Sequence[bytes]]) -> None:
        """Write batches of encoded records, each on the disk before the next; then all of it is committed. Nothing is
        there when the disk was full."""
        before = self.log.end_offset
        for values in batches:
            batch = data_batch(values, base_offset=self.log.end_offset, epoch=self.epoch, timestamp_ms=self._now_ms())
            try:
                self._append(batch, is_committed=values is batches[-1])
            except DiskFull:
                if self.log.flushed_offset > before:
                    self.log.truncate_to(before, self._now_ms())
                raise

    def _append(self, batch: bytes, *, is_committed: bool = True) -> None:
        self.log.append(batch, epoch=self.epoch, now_ms=self._now_ms())
        job = self.log.flush_job()
        job.run()
        self.log.flushed(job, self._now_ms())
        if is_committed:
            self.log.update_high_watermark(self.log.end_offset)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self, end_offset: int, epoch: int, timestamp_ms: int, values: Iterator[bytes]) -> Iterator[None]:
        """Write a snapshot of everything before an offset, and let go what is too old or too much, in steps."""
        yield from self.log.write_snapshot(
            SnapshotId(end_offset, epoch),
            values,
            last_timestamp_ms=timestamp_ms,
            now_ms=self._now_ms,
            voters=self._voters.at(end_offset),
        )
        yield from self.clean_up()

    def clean_up(self) -> Iterator[None]:
        now_ms = self._now_ms()
        for discarded in self.log.clean_up(now_ms):
            self._discarded.append((now_ms + self.log.limits.delete_delay_ms, discarded))
            yield
        due = [discarded for due_ms, discarded in self._discarded if due_ms <= now_ms]
        self._discarded = [entry for entry in self._discarded if entry[0] > now_ms]
        for discarded in due:
            discarded.remove(self._files)
            yield

    def close(self, *, is_clean: bool) -> None:
        self.log.close(is_clean=is_clean)
