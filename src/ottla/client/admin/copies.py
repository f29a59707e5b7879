"""What each replica of a partition has, read from that replica itself; and what each broker speaks.

Consumers may read from followers since Fetch 11 (KIP-392), so a plain consumer's rights are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.client.admin.plans import BrokerQuestion, Plan, Route, error_of, raise_error_of
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import api_versions, fetch
from ottla.protocol.schema import Message
from ottla.values import TopicPartition


class Copy(NamedTuple):
    """The replica of a partition on one broker."""

    broker: int
    partition: TopicPartition


class CopyPart(NamedTuple):
    """Record batches from one offset on, as the replica has them, and how far it may be read."""

    records: bytes
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True)
class ReadCopies(Plan[Copy, CopyPart]):
    """Read from each replica, one partition in a request: its answer is then as long as asked."""

    route = Route.BROKER
    one_key_per_request = True

    offsets: Mapping[Copy, int]
    topic_ids: Mapping[str, bytes]
    max_bytes: int

    def target(self, key: Copy) -> int:
        return key.broker

    def request(self, keys: Sequence[Copy], timeout_ms: int) -> Message:
        (key,) = keys
        topic, number = key.partition
        wanted = fetch.FetchPartition(
            partition=number, fetch_offset=self.offsets[key], partition_max_bytes=self.max_bytes
        )
        return fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=self.max_bytes,
            topics=[fetch.FetchTopic(topic=topic, topic_id=self.topic_ids[topic], partitions=[wanted])],
        )

    def results(self, keys: Sequence[Copy], response: Any) -> Iterator[tuple[Copy, CopyPart | OttlaError]]:
        (key,) = keys
        if (error := error_of(response)) is not None:
            yield key, error
            return
        for topic in response.responses:
            for each in topic.partitions:
                records = b"" if each.records is None else bytes(each.records)
                yield key, error_of(each) or CopyPart(records, each.high_watermark, each.log_start_offset)


class ApiRange(NamedTuple):
    """The versions of an API that a broker speaks."""

    key: int
    min: int
    max: int


@dataclass(frozen=True)
class DescribeApiVersions(BrokerQuestion[list[ApiRange]]):
    def ask(self, timeout_ms: int) -> Message:
        return api_versions.ApiVersionsRequest(client_software_name="ottla", client_software_version="admin")

    def answer(self, response: Any) -> list[ApiRange]:
        raise_error_of(response)
        return [ApiRange(each.api_key, each.min_version, each.max_version) for each in response.api_keys]
