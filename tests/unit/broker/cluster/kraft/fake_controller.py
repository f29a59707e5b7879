"""One controller of a metadata log that exists only in a test, on a port of loopback: it appends, and all is committed.

It registers brokers, unfences them, lets them go, and makes topics; it decides nothing that a test does not ask for.
`requests` has everything that it was asked, in order; what came in an Envelope is there opened.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Self, TypeVar

from ottla.cluster.changes import Change, ChangePartition, CreateTopic, RegisterBroker, SetFeature
from ottla.cluster.metadata_log.batches import control_batch, data_batch, read_batches
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.metadata_log.writing import records_for
from ottla.cluster.model import NO_LEADER, UNASSIGNED_DIRECTORY, Broker, Endpoint, FeatureRange, Partition, Topic
from ottla.light_dataclasses import replace
from ottla.protocol.api import APIS_BY_NAME, api_of
from ottla.protocol.header import decode_request, encode_response
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from ottla.protocol.messages.alter_partition import AlterPartitionResponse
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationResponse
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.envelope import EnvelopeResponse
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.metadata_log.control import LeaderChangeMessage
from ottla.protocol.schema import Message, Versions

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
NODE = 1
EPOCH = 3
WAIT_S = 0.02
M = TypeVar("M", bound=Message)


class FakeController:
    """See the module."""

    def __init__(self) -> None:
        self.loader = MetadataLoader(CLUSTER)
        self.requests: list[Message] = []
        self.in_versions: dict[str, int] = {}  # that came in envelopes
        self.refusals: dict[str, int] = {}  # error codes of requests, by the name of their API
        self.versions: dict[str, Versions] = {}
        """Of APIs that it speaks otherwise than we do, by their names."""
        self.may_unfence = True
        self.is_silent = False  # heartbeats are heard and not answered
        self._moved_at = 0
        self._batches: list[tuple[int, bytes]] = []
        self._grew = asyncio.Event()
        self._serving: list[asyncio.Future[None]] = []
        change = LeaderChangeMessage(leader_id=NODE, voters=[], granting_voters=[])
        self._append(control_batch([change], base_offset=0, epoch=EPOCH, timestamp_ms=1))
        self.commit([SetFeature("metadata.version", 30)])

    def set_level(self, metadata_version: int) -> None:
        self.commit([SetFeature("metadata.version", metadata_version)])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await asyncio.sleep(0)  # connections are closed in the next turn

    def asked(self, kind: type[M]) -> list[M]:
        return [each for each in self.requests if isinstance(each, kind)]

    # --- the log ------------------------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        return self.loader.end_offset

    def commit(self, changes: Iterable[Change]) -> None:
        self.append_values([each.encode() for each in records_for(changes, self.loader.image)])

    def append_values(self, values: list[bytes], *, is_readable: bool = True) -> None:
        self._append(
            data_batch(values, base_offset=self.end_offset, epoch=EPOCH, timestamp_ms=1), is_readable=is_readable
        )

    def _append(self, content: bytes, *, is_readable: bool = True) -> None:
        self._batches.append((self.end_offset, content))
        for batch in read_batches(content) if is_readable else ():
            self.loader.add(batch)
        self._high_watermark = self.end_offset + (not is_readable)
        self._grew.set()

    def broker(self, broker_id: int) -> Broker:
        return self.loader.image.brokers[broker_id]

    def create_topic(self, name: str, partitions: int, brokers: Iterable[int], *, directory: bytes) -> Topic:
        replicas = tuple(brokers)
        made = Partition(replicas, replicas, replicas[0], directories=(directory,) * len(replicas))
        topic = Topic(name, name.encode().ljust(16, b"."), (made,) * partitions)
        self.commit([CreateTopic(topic)])
        return topic

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.append(asyncio.ensure_future(self._answer_all(reader, writer)))

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                header, request = decode_request(await reader.readexactly(size))
                answer = await self._answer(request, header.request_api_version)
                parts = encode_response(
                    answer, version=header.request_api_version, correlation_id=header.correlation_id
                )
                frame = b"".join(map(bytes, parts))
                writer.write(struct.pack(">i", len(frame)) + frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    async def _answer(self, request: Message, version: int) -> Message:
        name = api_of(request).name
        if name == "ApiVersions":
            spoken = {name: api.versions for name, api in APIS_BY_NAME.items()} | self.versions
            keys = [
                ApiVersion(api_key=APIS_BY_NAME[name].key, min_version=versions.min, max_version=versions.max)
                for name, versions in spoken.items()
            ]
            return ApiVersionsResponse(error_code=0, api_keys=keys)
        if name == "Fetch":
            return await self._fetch(request)
        self.requests.append(request)
        if self.is_silent and name == "BrokerHeartbeat":
            await asyncio.get_running_loop().create_future()
        decide: Callable[..., Message] = getattr(self, f"_{api_of(request).module}")
        return decide(request, version)

    async def _fetch(self, request) -> FetchResponse:
        (asked,) = request.topics[0].partitions
        known = asked.current_leader_epoch == EPOCH
        if known and not self._after(asked.fetch_offset):
            self._grew.clear()
            try:
                await asyncio.wait_for(self._grew.wait(), WAIT_S)
            except TimeoutError:
                pass
        found = PartitionData(
            partition_index=0,
            error_code=0 if known else 74,
            high_watermark=self._high_watermark if known else -1,
            current_leader=LeaderIdAndEpoch(leader_id=NODE, leader_epoch=EPOCH),
            aborted_transactions=None,
            records=self._after(asked.fetch_offset) if known else b"",
        )
        endpoints = [NodeEndpoint(node_id=NODE, host="127.0.0.1", port=self.port)]
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[found])], node_endpoints=endpoints)

    def _after(self, offset: int) -> bytes:
        return b"".join(content for base, content in self._batches if base >= offset)

    def _broker_registration(self, request, version: int) -> Message:
        if code := self.refusals.get("BrokerRegistration", 0):
            return BrokerRegistrationResponse(error_code=code)
        epoch = self.end_offset
        endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.listeners)
        features = tuple(
            FeatureRange(each.name, each.min_supported_version, each.max_supported_version) for each in request.features
        )
        broker = Broker(
            request.broker_id,
            endpoints,
            epoch=epoch,
            features=tuple(sorted(features)),
            directories=tuple(request.log_dirs),
            fenced=True,
            incarnation_id=request.incarnation_id,
        )
        self.commit([RegisterBroker(broker)])
        return BrokerRegistrationResponse(error_code=0, broker_epoch=epoch)

    def _broker_heartbeat(self, request, version: int) -> Message:
        broker = self.broker(request.broker_id)
        is_caught_up = request.current_metadata_offset >= broker.epoch
        if is_caught_up and not request.want_fence and broker.fenced and self.may_unfence:
            broker = replace(broker, fenced=False)
            self.commit([RegisterBroker(broker)])
        if request.want_shut_down and not broker.in_controlled_shutdown:
            self.commit([RegisterBroker(replace(broker, in_controlled_shutdown=True))])
            self._take_over(broker.id)
            self._moved_at = self.end_offset - 1
        return BrokerHeartbeatResponse(
            error_code=0,
            is_caught_up=is_caught_up,
            is_fenced=broker.fenced,
            should_shut_down=request.want_shut_down and request.current_metadata_offset >= self._moved_at,
        )

    def _take_over(self, broker_id: int) -> None:
        """Nobody leads any more what this broker has led."""
        for topic in list(self.loader.image.topics_by_name.values()):
            for index, each in enumerate(topic.partitions):
                if each.leader == broker_id:
                    epochs = {"leader_epoch": each.leader_epoch + 1, "partition_epoch": each.partition_epoch + 1}
                    self.commit([ChangePartition(topic.id, index, replace(each, leader=NO_LEADER, **epochs))])

    def _envelope(self, request, version: int) -> Message:
        header, inner = decode_request(bytes(request.request_data))
        self.requests.append(inner)
        self.in_versions[api_of(inner).name] = header.request_api_version
        answer = getattr(self, f"_{api_of(inner).module}")(inner, header.request_api_version)
        data = encode_response(answer, version=header.request_api_version, correlation_id=header.correlation_id)
        return EnvelopeResponse(error_code=0, response_data=b"".join(map(bytes, data)))

    def _create_topics(self, request, version: int) -> Message:
        for each in request.topics:
            directory = UNASSIGNED_DIRECTORY
            self.create_topic(
                each.name, max(1, each.num_partitions), sorted(self.loader.image.brokers), directory=directory
            )
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name=each.name, error_code=0) for each in request.topics]
        )

    def _allocate_producer_ids(self, request, version: int) -> Message:
        return AllocateProducerIdsResponse(error_code=0, producer_id_start=1_000, producer_id_len=1_000)

    def _alter_partition(self, request, version: int) -> Message:
        return AlterPartitionResponse(error_code=0, topics=[])

    def _assign_replicas_to_dirs(self, request, version: int) -> Message:
        answers = []
        for directory in request.directories:
            topics = []
            for topic in directory.topics:
                for each in topic.partitions:
                    self._assign(topic.topic_id, each.partition_index, request.broker_id, directory.id)
                partitions = [
                    ResponsePartitionData(partition_index=each.partition_index, error_code=0)
                    for each in topic.partitions
                ]
                topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
            answers.append(ResponseDirectoryData(id=directory.id, topics=topics))
        return AssignReplicasToDirsResponse(error_code=0, directories=answers)

    def _assign(self, topic_id: bytes, index: int, broker_id: int, directory: bytes) -> None:
        topic = self.loader.image.topic_by_id(topic_id)
        assert topic is not None
        known = topic.partitions[index]
        directories = list(known.directories)
        directories[known.replicas.index(broker_id)] = directory
        changed = replace(known, directories=tuple(directories), partition_epoch=known.partition_epoch + 1)
        self.commit([ChangePartition(topic_id, index, changed)])
