"""Canned requests and answers: made once, sent again and again, so that the load costs the machine next to nothing.

Produce 11 and Fetch 12: flexible versions that name topics, as most clients in use speak them. A request here is a
whole frame with its size; every answer to the same request has the same size, so a generator counts bytes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from typing import Final

from ottla.net.framing import frame_prefix
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.protocol.header import encode_request, encode_response
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.schema import Message
from ottla.records import BatchBuilder
from ottla.records.checksum import crc32c
from ottla.records.layout import ATTRIBUTES_AT, CRC_AT, PRODUCER_ID_AT

TOPIC: Final = "walk"
PRODUCE_VERSION: Final = 11
FETCH_VERSION: Final = 12
RECORD_BYTES: Final = 100
GROUP_RESOURCE: Final = 32  # as configs name it
CLIENT_ID: Final = "bench"
BODY_AT: Final = 2 + 2 + 4 + 2 + len(CLIENT_ID) + 1  # behind API, version, correlation id, client id and tags
RECORD_COUNT_AT: Final = 57
TAGS_BEHIND_RECORDS: Final = 3  # empty tags of the partition, the topic and the request


def framed(request: Message, version: int) -> bytes:
    parts = encode_request(request, version=version, correlation_id=1, client_id=CLIENT_ID)
    return b"".join((frame_prefix(parts), *parts))


def batch_of(size_bytes: int) -> bytes:
    """One batch of 100-byte records, as full as that size allows; of one record when the size is 0."""
    builder = BatchBuilder(size_limit_bytes=max(size_bytes, 1_000))
    now_ms = time.time_ns() // 1_000_000
    while builder.append(now_ms, None, bytes(RECORD_BYTES)) and size_bytes:
        pass
    return bytes(builder.close())


def produce(size_bytes: int, partition: int, acks: int, topic: str = TOPIC) -> bytes:
    return framed_produce(batch_of(size_bytes), topic, partition, acks)


def framed_produce(batch: bytes, topic: str, partition: int = 0, acks: int = 1) -> bytes:
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return framed(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics), PRODUCE_VERSION)


def records_position(size_bytes: int) -> int:
    """Where in the frame, behind its size, the batch begins."""
    return len(produce(size_bytes, 0, 1)) - TAGS_BEHIND_RECORDS - len(batch_of(size_bytes)) - 4


class Numbered:
    """The requests of one idempotent producer: its id, and sequences that go on."""

    def __init__(self, request: bytes, size_bytes: int, number: int) -> None:
        batch = batch_of(size_bytes)
        self._frame = bytearray(request)
        end = len(request) - TAGS_BEHIND_RECORDS
        self._batch = memoryview(self._frame)[end - len(batch) : end]
        self._record_count = int.from_bytes(self._batch[RECORD_COUNT_AT : RECORD_COUNT_AT + 4], "big")
        self._batch[PRODUCER_ID_AT : PRODUCER_ID_AT + 10] = struct.pack(">qh", time.time_ns() + number, 0)
        self._sequence = 0

    def next_request(self) -> bytes:
        struct.pack_into(">i", self._batch, PRODUCER_ID_AT + 10, self._sequence)
        struct.pack_into(">I", self._batch, CRC_AT, crc32c(self._batch[ATTRIBUTES_AT:]))
        self._sequence += self._record_count
        return bytes(self._frame)


def produce_answer() -> bytes:
    """What a broker would say; the bare server sends it whatever was asked."""
    answer = PartitionProduceResponse(index=0, error_code=0, base_offset=0, log_start_offset=0)
    topics = [TopicProduceResponse(name=TOPIC, partition_responses=[answer])]
    parts = encode_response(ProduceResponse(responses=topics), version=PRODUCE_VERSION, correlation_id=1)
    return b"".join((frame_prefix(parts), *parts))


def fetch(size_bytes: int, partition: int, offset: int = 0) -> bytes:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size_bytes)
    topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=size_bytes, topics=topics)
    return framed(request, FETCH_VERSION)


def create_topic(partitions: int, name: str = TOPIC, timeout_ms: int = 10_000) -> bytes:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    return framed(CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 5)


def alter_quotas(values: Mapping[str, float | None]) -> bytes:
    """Set quotas of the load's client id; None takes one away."""
    entity = [EntityData(entity_type="client-id", entity_name="bench")]
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    return framed(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)], validate_only=False), 1)


def create_rules(others: int) -> bytes:
    """Rules that allow everybody without a name to write and read the topic, and so many about other topics."""

    def rule(name: str, pattern: PatternType, principal: str, operation: AclOperation) -> AclCreation:
        return AclCreation(
            resource_type=AclResource.TOPIC,
            resource_name=name,
            resource_pattern_type=pattern,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=AclPermission.ALLOW,
        )

    mine = [
        rule(TOPIC, PatternType.LITERAL, "User:ANONYMOUS", each) for each in (AclOperation.WRITE, AclOperation.READ)
    ]
    patterns = (PatternType.LITERAL, PatternType.PREFIXED)
    rest = [rule(f"t{number}", patterns[number % 2], f"User:u{number}", AclOperation.ALL) for number in range(others)]
    return framed(CreateAclsRequest(creations=[*mine, *rest]), 3)


def share_group_begins_at_the_start(group: str) -> bytes:
    """Share consumers have no setting for it; the group has."""
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
    return framed(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)


def metadata() -> bytes:
    return framed(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9)


def api_versions() -> bytes:
    return framed(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3)
