"""A quorum that exists only in a test: one log that is true, leaders that come and go, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ottla.cluster.metadata_log.batches import control_batch, data_batch
from ottla.cluster.raft.fetching import Request, Response
from ottla.cluster.raft.node import Sent
from ottla.cluster.raft.snapshots import SnapshotId, Voters, write_snapshot
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import fetch, fetch_snapshot
from ottla.protocol.metadata_log import encode_record
from ottla.protocol.metadata_log.control import LeaderChangeMessage
from ottla.protocol.metadata_log.settings import ConfigRecord
from ottla.testing.files import MemoryFiles
from ottla.values import Address

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
NODES = {1: Address("one", 9093), 2: Address("two", 9093), 3: Address("three", 9093)}


class Batch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    content: bytes


class Quorum:
    """What it has below `high_watermark` it never loses."""

    def __init__(self, random: Random) -> None:
        self.batches: list[Batch] = []
        self.epoch = 0
        self.leader: int | None = None
        self.high_watermark = 0
        self.log_start = 0
        self.snapshots: dict[SnapshotId, bytes] = {}
        self._random = random
        self._settings = 0

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    # --- what happens -------------------------------------------------------------------------------------------------

    def elect(self) -> None:
        """Another leader: what was not committed may be gone."""
        keep = [batch for batch in self.batches if batch.end_offset <= self.high_watermark]
        rest = self.batches[len(keep) :]
        self.batches = keep + rest[: self._random.randint(0, len(rest))]
        self.epoch += self._random.randint(1, 3)
        self.leader = self._random.choice(list(NODES))
        change = LeaderChangeMessage(leader_id=self.leader, voters=[], granting_voters=[])
        self._append(control_batch([change], base_offset=self.end_offset, epoch=self.epoch, timestamp_ms=0), 1)

    def vacate(self) -> None:
        """The leader is gone, and nobody else leads yet."""
        self.leader = None

    def append(self) -> None:
        if self.leader is not None:
            count = self._random.randint(1, 3)
            self._settings += 1
            record = ConfigRecord(resource_type=4, resource_name="", name="x", value=str(self._settings))
            values = [encode_record(record, 0)] * count
            self._append(data_batch(values, base_offset=self.end_offset, epoch=self.epoch, timestamp_ms=0), count)

    def _append(self, content: bytes, count: int) -> None:
        self.batches.append(Batch(self.end_offset, self.end_offset + count, self.epoch, content))

    def commit(self) -> None:
        """The high watermark moves, but only with a record of the leader's own epoch."""
        ends = [batch.end_offset for batch in self.batches if batch.end_offset > self.high_watermark]
        own = [batch.end_offset for batch in self.batches if batch.epoch == self.epoch]
        if self.leader is not None and ends and own:
            self.high_watermark = max(self.high_watermark, own[0], self._random.choice(ends))

    def make_snapshot(self) -> None:
        committed = [batch for batch in self.batches if batch.end_offset <= self.high_watermark]
        if committed and self.leader is not None:
            chosen = self._random.choice(committed)
            wanted = SnapshotId(chosen.end_offset, chosen.epoch)
            self.snapshots[wanted] = content_of_snapshot(wanted)
            if self._random.random() < 0.7:
                self.log_start = max(self.log_start, chosen.end_offset)

    def committed_bytes(self, first: int, end: int) -> bytes:
        chosen = (batch for batch in self.batches if first <= batch.base_offset and batch.end_offset <= end)
        return b"".join(batch.content for batch in chosen)

    # --- what is answered ---------------------------------------------------------------------------------------------

    def answer(self, question: Sent) -> Response | None:
        """None when nobody answers at that address."""
        node = next((number for number, address in NODES.items() if address == question.address), None)
        if node is None:
            return None
        if isinstance(question.request, fetch.FetchRequest):
            return self._answer_fetch(question.request, node)
        assert isinstance(question.request, fetch_snapshot.FetchSnapshotRequest), "nothing else is asked"
        return self._answer_snapshot(question.request, node)

    def _refusal(self, node: int, epoch: int) -> int:
        if epoch < self.epoch:
            return 74
        if epoch > self.epoch:
            return 75
        return 0 if node == self.leader else 6

    def _answer_fetch(self, request: fetch.FetchRequest, node: int) -> fetch.FetchResponse:
        asked = request.topics[0].partitions[0]
        error = self._refusal(node, asked.current_leader_epoch)
        found = fetch.PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=-1 if error else self.high_watermark,
            current_leader=fetch.LeaderIdAndEpoch(
                leader_id=-1 if self.leader is None else self.leader, leader_epoch=self.epoch
            ),
            aborted_transactions=None,
            records=b"",
        )
        if not error:
            self._fill(found, asked.fetch_offset, asked.last_fetched_epoch)
        endpoints = [fetch.NodeEndpoint(node_id=number, host=at.host, port=at.port) for number, at in NODES.items()]
        topic = fetch.FetchableTopicResponse(partitions=[found])
        return fetch.FetchResponse(responses=[topic], node_endpoints=endpoints)

    def _fill(self, found: fetch.PartitionData, offset: int, epoch: int) -> None:
        newest = max(self.snapshots, default=None)
        if newest is not None and (offset < self.log_start or offset == 0):
            found.snapshot_id = fetch.SnapshotId(end_offset=newest.end_offset, epoch=newest.epoch)
            return
        if offset and not self._agrees(offset, epoch):
            ends = [batch for batch in self.batches if batch.epoch <= epoch]
            common = (ends[-1].epoch, ends[-1].end_offset) if ends else (0, 0)
            found.diverging_epoch = fetch.EpochEndOffset(epoch=common[0], end_offset=common[1])
            return
        rest = [batch for batch in self.batches if batch.base_offset >= offset][: self._random.randint(1, 4)]
        found.records = b"".join(batch.content for batch in rest)
        if rest and self._random.random() < 0.2:
            found.records += rest[-1].content[:30]  # cut off, as fetches are

    def _agrees(self, offset: int, epoch: int) -> bool:
        return any(batch.end_offset == offset and batch.epoch == epoch for batch in self.batches)

    def _answer_snapshot(
        self, request: fetch_snapshot.FetchSnapshotRequest, node: int
    ) -> fetch_snapshot.FetchSnapshotResponse:
        asked = request.topics[0].partitions[0]
        wanted = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        error = self._refusal(node, asked.current_leader_epoch)
        content = self.snapshots.get(wanted)
        if not error and content is None:
            error = 98
        piece = b"" if error or content is None else content[asked.position :][: self._random.randint(1, 200)]
        found = fetch_snapshot.ResponsePartitionSnapshot(
            index=0,
            error_code=error,
            snapshot_id=asked.snapshot_id,
            current_leader=fetch_snapshot.LeaderIdAndEpoch(
                leader_id=-1 if self.leader is None else self.leader, leader_epoch=self.epoch
            ),
            size=len(content or b""),
            position=asked.position,
            unaligned_records=piece,
        )
        topic = fetch_snapshot.ResponseTopicSnapshot(name="__cluster_metadata", partitions=[found])
        endpoints = [
            fetch_snapshot.NodeEndpoint(node_id=number, host=at.host, port=at.port) for number, at in NODES.items()
        ]
        return fetch_snapshot.FetchSnapshotResponse(error_code=0, topics=[topic], node_endpoints=endpoints)


def content_of_snapshot(wanted: SnapshotId, values: Sequence[bytes] = ()) -> bytes:
    from pathlib import Path

    files, path = MemoryFiles(), Path("/snapshot")
    steps = write_snapshot(
        files, path, values, epoch=wanted.epoch, last_timestamp_ms=0, now_ms=lambda: 0, voters=Voters()
    )
    list(steps)
    return files.read_bytes(path)


__all__ = ["CLUSTER", "NODES", "Quorum", "Request", "content_of_snapshot"]
