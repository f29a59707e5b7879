"""Whoever is answered can read it: produce with acks=1, and ask at once how far the partition is.

    with Wire("127.0.0.1:9092") as wire:
        create_topic(wire, TOPIC, [[broker_id]])
        lags = find_lags(wire, tries=200)      # sentences; none when every question saw what was acknowledged

1. Every question follows a produce of its own, on the same connection, with nothing in between: the latest offset, a
   fetch of the record, and the deletion of everything up to the high watermark.
2. Nothing waits and nothing is asked twice, so a high watermark that comes after the answer is seen.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.transaction_probes import Wire, name_of
from tests.patience import wait_until

from ottla.errors import NONE
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import BatchBuilder

TOPIC = "acknowledged"
LATEST = HIGH_WATERMARK = -1
TIMEOUT_MS = 30_000
LIMIT_BYTES = 1 << 20


def find_lags(wire: Wire, tries: int) -> list[str]:
    """What was acknowledged and not there for the question after it."""
    wait_until(lambda: _produce(wire).error_code == NONE, "the first record is written")
    lags = []
    for question, ask in (("ListOffsets", _latest), ("Fetch", _fetched), ("DeleteRecords", _deleted)):
        for _ in range(tries):
            offset = _acknowledged(wire)
            reached = ask(wire, offset)
            if reached != offset + 1:
                lags.append(f"{question} sees {reached} after offset {offset} was acknowledged")
    return lags


def _acknowledged(wire: Wire) -> int:
    answer = _produce(wire)
    assert answer.error_code == NONE, name_of(answer.error_code)
    return int(answer.base_offset)


def _produce(wire: Wire) -> Any:
    builder = BatchBuilder()
    builder.append(1_700_000_000_000, None, b"value")
    data = PartitionProduceData(index=0, records=builder.close())
    topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
    answer = wire.ask(ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=topics), 11)
    return answer.responses[0].partition_responses[0]


def _latest(wire: Wire, offset: int) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])])
    return int(wire.ask(request, 7).topics[0].partitions[0].offset)


def _fetched(wire: Wire, offset: int) -> int:
    """The high watermark that comes with the record; -1 when the record does not come."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=LIMIT_BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=LIMIT_BYTES,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        forgotten_topics_data=[],
    )
    found = wire.ask(request, 12).responses[0].partitions[0]
    return int(found.high_watermark) if found.records else -1


def _deleted(wire: Wire, offset: int) -> int:
    """Where the log begins when everything up to the high watermark was deleted."""
    wanted = DeleteRecordsPartition(partition_index=0, offset=HIGH_WATERMARK)
    topics = [DeleteRecordsTopic(name=TOPIC, partitions=[wanted])]
    answer = wire.ask(DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 2)
    return int(answer.topics[0].partitions[0].low_watermark)
