"""One controller of the simulation: a process with sockets on a machine of its own, that knows who leads.

1. It answers what comes by one connection in its order, one after the other, as Kafka does: a fetch that waits holds
   back what stands behind it.
2. Who does not lead says so, and who does (Fetch, FetchSnapshot), or NOT_CONTROLLER. What was appended and not yet
   committed when it stopped leading is answered with that, too: nobody knows what became of it.
3. Fetches get also what is not committed, cut off at any byte; snapshots come in pieces of any size.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.errors import NONE, NotController, OttlaError
from ottla.net.framing import frame_prefix
from ottla.net.link import Link
from ottla.protocol.api import APIS, api_of
from ottla.protocol.header import decode_request, encode_response
from ottla.protocol.messages import fetch, fetch_snapshot
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.schema import Message
from ottla.simulation.controllers.decisions import Decisions
from ottla.simulation.controllers.truth import NOBODY, Quorum
from ottla.simulation.machine import Machine
from ottla.values import METADATA_TOPIC_UUID

PORT: Final = 9093
READ_BYTES: Final = (400, 2_000, 1 << 20)
PIECE_BYTES: Final = (100, 1_000, 1 << 20)
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
NOT_LEADER_OR_FOLLOWER: Final = 6
SNAPSHOT_NOT_FOUND: Final = 98
POSITION_OUT_OF_RANGE: Final = 99

E = TypeVar("E")


class ControllerNode:
    """See the module. `decisions` gives those of the leader, which is asked only while this node is it."""

    def __init__(
        self, node_id: int, machine: Machine, quorum: Quorum, hosts: dict[int, str], decisions: Callable[[], Decisions]
    ) -> None:
        self.id = node_id
        self.machine = machine
        self._quorum = quorum
        self._hosts = hosts
        self._decisions = decisions

    @property
    def leads(self) -> bool:
        return self._quorum.leader == self.id

    async def serve(self) -> None:
        """Until the process is killed."""
        transport = self.machine.world().transport
        await transport.serve(self.machine.host, PORT, lambda: _Connection(self))
        await asyncio.get_running_loop().create_future()

    async def answer(self, request: Message, version: int) -> Message:
        """What is answered, when it is committed."""
        if isinstance(request, ApiVersionsRequest):
            return _api_versions()
        if isinstance(request, fetch.FetchRequest):
            return await self._fetch(request)
        if isinstance(request, fetch_snapshot.FetchSnapshotRequest):
            return self._fetch_snapshot(request)
        if not self.leads:
            return _not_controller(request)
        answered = self._decisions().answer(request, version)
        if not await self._quorum.committed(answered.end):
            return _not_controller(request)
        return answered.message

    # --- the log ------------------------------------------------------------------------------------------------------

    def _refusal(self, epoch: int) -> int:
        """The error for who asks in this epoch; 0 when this node leads it."""
        if epoch != self._quorum.epoch:
            return FENCED_LEADER_EPOCH if epoch < self._quorum.epoch else UNKNOWN_LEADER_EPOCH
        return NONE if self.leads else NOT_LEADER_OR_FOLLOWER

    async def _fetch(self, request: fetch.FetchRequest) -> Message:
        (asked,) = request.topics[0].partitions
        quorum, end_s = self._quorum, self._quorum.loop.time() + request.max_wait_ms / 1_000
        while True:
            found = self._found(asked)
            has_news = found.error_code or found.records or found.high_watermark > asked.high_watermark
            if has_news or found.snapshot_id.epoch >= 0 or found.diverging_epoch.epoch >= 0:
                break
            grown = quorum.grown()
            await asyncio.wait((grown,), timeout=max(0.0, end_s - quorum.loop.time()))
            if not grown.done():
                found = self._found(asked)
                break
        topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_UUID, partitions=[found])
        return fetch.FetchResponse(responses=[topic], node_endpoints=self._endpoints(fetch.NodeEndpoint))

    def _found(self, asked: fetch.FetchPartition) -> fetch.PartitionData:
        quorum, log = self._quorum, self._quorum.log
        found = fetch.PartitionData(
            partition_index=0,
            error_code=self._refusal(asked.current_leader_epoch),
            high_watermark=-1,
            current_leader=fetch.LeaderIdAndEpoch(leader_id=quorum.leader, leader_epoch=quorum.epoch),
            aborted_transactions=None,
            records=b"",
        )
        if found.error_code:
            return found
        found.high_watermark, found.log_start_offset = log.high_watermark, log.start_offset
        newest, end = log.newest_snapshot, log.end_offset_for_epoch(asked.last_fetched_epoch)
        if newest is not None and (asked.fetch_offset == 0 or asked.fetch_offset < log.start_offset):
            found.snapshot_id = fetch.SnapshotId(end_offset=newest.end_offset, epoch=newest.epoch)
        elif asked.fetch_offset and (end.epoch != asked.last_fetched_epoch or end.end_offset < asked.fetch_offset):
            found.diverging_epoch = fetch.EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
        elif asked.fetch_offset < log.end_offset:
            max_bytes = quorum.random.choice(READ_BYTES)
            found.records = log.read(asked.fetch_offset, max_bytes).slice.read()
        return found

    def _fetch_snapshot(self, request: fetch_snapshot.FetchSnapshotRequest) -> Message:
        (asked,) = request.topics[0].partitions
        quorum, log = self._quorum, self._quorum.log
        wanted = asked.snapshot_id
        found = fetch_snapshot.ResponsePartitionSnapshot(
            index=0,
            error_code=self._refusal(asked.current_leader_epoch),
            snapshot_id=wanted,
            current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=quorum.leader, leader_epoch=quorum.epoch),
            size=0,
            position=asked.position,
            unaligned_records=b"",
        )
        snapshot = next((each for each in log.snapshots if each == (wanted.end_offset, wanted.epoch)), None)
        if not found.error_code and snapshot is None:
            found.error_code = SNAPSHOT_NOT_FOUND
        elif not found.error_code and snapshot is not None:
            content = quorum.files.read_bytes(log.snapshot_path(snapshot))
            piece_bytes = quorum.random.choice(PIECE_BYTES)
            found.size = len(content)
            found.unaligned_records = content[asked.position : asked.position + piece_bytes]
            if asked.position >= len(content):
                found.error_code = POSITION_OUT_OF_RANGE
        topic = fetch_snapshot.ResponseTopicSnapshot(name="__cluster_metadata", partitions=[found])
        endpoints = self._endpoints(fetch_snapshot.NodeEndpoint)
        return fetch_snapshot.FetchSnapshotResponse(error_code=NONE, topics=[topic], node_endpoints=endpoints)

    def _endpoints(self, make: Callable[..., E]) -> list[E]:
        """Where the leader is."""
        leader = self._quorum.leader
        return [] if leader == NOBODY else [make(node_id=leader, host=self._hosts[leader], port=PORT)]


class _Connection:
    """LinkEvents of one connection."""

    def __init__(self, node: ControllerNode) -> None:
        self._node = node
        self._frames: deque[bytes] = deque()
        self._link: Link
        self._task: asyncio.Task[None] | None = None

    def opened(self, link: Link) -> None:
        self._link = link

    def frame_received(self, frame: memoryview) -> None:
        self._frames.append(bytes(frame))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._answer_all())

    def writable_changed(self, writable: bool) -> None: ...

    def closed(self, error: OttlaError | None) -> None:
        """What it has asked is answered to nobody."""
        self._frames.clear()

    async def _answer_all(self) -> None:
        while self._frames:
            header, request = decode_request(self._frames.popleft())
            answer = await self._node.answer(request, header.request_api_version)
            version, correlation_id = header.request_api_version, header.correlation_id
            parts = encode_response(answer, version=version, correlation_id=correlation_id)
            self._link.write([frame_prefix(parts), *parts])
        self._task = None


def _api_versions() -> Message:
    keys = [
        ApiVersion(api_key=key, min_version=api.versions.min, max_version=api.versions.max) for key, api in APIS.items()
    ]
    return ApiVersionsResponse(error_code=NONE, api_keys=keys)


def _not_controller(request: Message) -> Message:
    """Nothing happened, or nobody knows whether it did."""
    fields: dict[str, object] = {"error_code": NotController.code}
    return api_of(request).response(**fields, **_REQUIRED.get(api_of(request).name, {}))


_REQUIRED: Final[dict[str, dict[str, object]]] = {
    "AllocateProducerIds": {"producer_id_start": -1, "producer_id_len": 0},
    "AlterPartition": {"topics": []},
    "AssignReplicasToDirs": {"directories": []},
    "BrokerHeartbeat": {"should_shut_down": False},
}
"""Fields that an answer must have beside its error."""
