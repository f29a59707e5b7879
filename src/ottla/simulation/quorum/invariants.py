"""What must hold in a quorum after every event, whatever happened before.

1. An epoch never falls, in memory and on the disk; nor does a high watermark in the life of a node.
2. In an epoch at most one node leads.
3. Below its high watermark every node has the same batches, byte for byte, and has them for ever.
4. Who leads the newest epoch, and knows what is committed, has everything that ever was.
5. A log that begins above 0 begins where a snapshot ends.
6. What was promised to whoever appended (the leader said it is committed) is committed.
7. A node gives one vote in an epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.light_tuples import NamedTuple
from ottla.records import RecordBatch, RecordStream

if TYPE_CHECKING:
    from ottla.simulation.quorum.node import Node


class Violated(AssertionError):
    """A promise of Raft is broken."""


class CommittedBatch(NamedTuple):
    """What is compared of a batch."""

    last_offset: int
    epoch: int
    checksum: int


class Invariants:
    """What was seen so far of all nodes."""

    def __init__(self) -> None:
        self.batches: dict[int, CommittedBatch] = {}  # by their first offsets
        self.committed_end = 0
        self.leaders: dict[int, int] = {}
        self.promised_end = 0
        self.leader_changes = 0
        self._votes: dict[tuple[int, bytes, int], int] = {}
        self._epochs: dict[tuple[int, bytes], int] = {}
        self._high_watermarks: dict[tuple[int, int], int] = {}  # of a node in one of its lives

    def check(self, node: Node) -> None:
        """After something happened to a node that runs."""
        raft, key = node.raft, node.key
        if raft.is_saved:
            self._must(
                raft.epoch >= self._epochs.get(key, 0), node, f"epoch {raft.epoch} after {self._epochs.get(key)}"
            )
            self._epochs[key] = raft.epoch
        self._check_vote(node)
        self._check_leader(node)
        self._check_committed(node)
        start = raft.log.start_offset
        if start:
            ends = [snapshot.end_offset for snapshot in raft.log.snapshots]
            self._must(start in ends, node, f"its log begins at {start}, its snapshots end at {ends}")

    def _check_vote(self, node: Node) -> None:
        state = node.raft.state
        if state.voted_id >= 0 and node.raft.is_saved:
            first = self._votes.setdefault((*node.key, state.leader_epoch), state.voted_id)
            self._must(
                first == state.voted_id,
                node,
                f"it voted for {first} and {state.voted_id} in epoch {state.leader_epoch}",
            )

    def _check_leader(self, node: Node) -> None:
        raft = node.raft
        if not raft.leads:
            return
        if raft.epoch not in self.leaders:
            self.leader_changes += 1
        leader = self.leaders.setdefault(raft.epoch, node.key.id)
        self._must(leader == node.key.id, node, f"epoch {raft.epoch} is led by node {leader}, too")
        if raft.is_established and raft.epoch == max(self.leaders):  # an older one may not know yet that it is over
            self._must(
                raft.log.end_offset >= self.committed_end,
                node,
                f"it leads and ends at {raft.log.end_offset}, but {self.committed_end} is committed",
            )

    def _check_committed(self, node: Node) -> None:
        log, life = node.raft.log, (node.id, node.life)
        known, now = self._high_watermarks.get(life, 0), log.high_watermark
        self._must(now >= known, node, f"its high watermark falls from {known} to {now}")
        self._high_watermarks[life] = now
        if now > (first := max(log.start_offset, known)):
            self._compare(node, first, now)

    def _compare(self, node: Node, first: int, end: int) -> None:
        offset = first
        while offset < end:
            data = node.raft.log.read(offset, 1 << 20).slice.read()
            before = offset
            for batch in RecordStream(data):
                assert isinstance(batch, RecordBatch)
                if batch.last_offset >= end:
                    return
                seen = CommittedBatch(batch.last_offset, batch.leader_epoch, batch.crc)
                known = self.batches.setdefault(batch.base_offset, seen)
                self._must(known == seen, node, f"at offset {batch.base_offset} it has {seen}, others {known}")
                offset = batch.last_offset + 1
                self.committed_end = max(self.committed_end, offset)
            if offset == before:
                return

    def promised(self, end_offset: int) -> None:
        """A leader said that everything before is committed."""
        self.promised_end = max(self.promised_end, end_offset)

    def check_end(self, nodes: list[Node]) -> None:
        """When everything was healed for a while: all agree, and nothing that was promised is missing."""
        leaders = [node for node in nodes if node.raft.is_established]
        if len(leaders) != 1:
            raise Violated(f"at the end {len(leaders)} nodes lead: {[node.story() for node in nodes]}")
        end = leaders[0].raft.log.high_watermark
        for node in nodes:
            self._must(
                node.raft.log.high_watermark == end,
                node,
                f"at the end it knows {node.raft.log.high_watermark}, not {end}",
            )
        if end < max(self.promised_end, self.committed_end):
            raise Violated(f"{self.promised_end} was promised, {self.committed_end} committed, and {end} is there")

    def _must(self, holds: bool, node: Node, otherwise: str) -> None:
        if not holds:
            raise Violated(f"node {node.key.id}: {otherwise} ({node.story()})")
