"""The inside of a partition: its segments and indexes, its offsets, epochs, producers and transactions, its followers;
and where on the disk a record lies.

1. Everything is read from the log of this broker's copy, without its records. A copy that is elsewhere is not guessed:
   NotLeaderOrFollower names the brokers that have one.
2. Lists are bounded: SEGMENTS_LIMIT newest segments, PRODUCERS_LIMIT producers, ABORTED_LIMIT aborted transactions; the
   numbers say how many there are.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.broker.http.parts import Json
from ottla.errors import CorruptMessage, NotLeaderOrFollower, OffsetOutOfRange, OttlaError, UnknownTopicOrPartition
from ottla.records.compression import Compression
from ottla.records.layout import TimestampType

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replication.partition import Partition
    from ottla.storage.segment.segment import Segment

SEGMENTS_LIMIT: Final = 500
PRODUCERS_LIMIT: Final = 100
ABORTED_LIMIT: Final = 200
EPOCHS_LIMIT: Final = 200


def copy_here(broker: Broker, topic: str, index: int) -> Partition:
    """This broker's copy; who has one is said where this broker has none."""
    state = broker.image.partition(topic, index)
    if state is None:
        raise UnknownTopicOrPartition(f"there is no partition {topic}-{index}")
    partition = broker.replicas.get((topic, index))
    if partition is None:
        raise NotLeaderOrFollower(f"copies of {topic}-{index} are on brokers {list(state.replicas)}; ask one of them")
    if partition.offline is not None:
        raise partition.offline
    return partition


async def partition_inside(broker: Broker, topic: str, index: int) -> dict[str, Json]:
    partition = copy_here(broker, topic, index)
    log = partition.log
    segments: list[Json] = []
    with broker.pacing.turn() as pace:
        for segment in list(log.segments)[-SEGMENTS_LIMIT:]:
            segments.append(_segment(segment, is_active=segment is log.segments.last))
            await pace.step()
    return {
        "topic": topic,
        "partition": index,
        "broker_id": broker.id,
        "is_leader": partition.is_leader,
        "leader": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "is_durable": partition.is_durable,
        "log_start_offset": log.log_start_offset,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": partition.high_watermark,
        "flushed_offset": log.flushed_offset,
        "recovery_point": log.recovery_point,
        "log_end_offset": partition.log_end_offset,
        "size_bytes": log.size_bytes,
        "segment_count": len(log.segments),
        "segments": segments,
        "epochs": [[each.epoch, each.start_offset] for each in log.epochs.entries[-EPOCHS_LIMIT:]],
        "producer_count": len(log.producers.entries),
        "producers": _producers(broker, partition),
        "aborted": _aborted(partition),
        "followers": _followers(broker, partition),
        "in_sync": [] if partition.state is None else list(partition.state.isr),
        "min_in_sync": partition.min_in_sync_count,
        "waiting_commits": broker.progress.commits.waiting_for(partition.name),
    }


def _segment(segment: Segment, *, is_active: bool) -> Json:
    latest = segment.max_timestamp
    return {
        "base_offset": segment.base_offset,
        "file": segment.path.name,
        "size_bytes": segment.size_bytes,
        "is_active": is_active,
        "offset_index": len(segment.indexes.offsets),
        "time_index": len(segment.indexes.times),
        "transaction_index": len(segment.aborted_index),
        "latest_ms": latest.timestamp_ms if latest.timestamp_ms >= 0 else None,
    }


def _producers(broker: Broker, partition: Partition) -> list[Json]:
    """Those with an open transaction first, then those that wrote last."""
    entries = sorted(
        partition.log.producers.entries.values(),
        key=lambda each: (each.transaction_first_offset is None, -each.last_timestamp_ms),
    )
    return [
        {
            "id": each.producer_id,
            "epoch": each.epoch,
            "last_sequence": each.last_sequence,
            "last_offset": each.last_offset,
            "last_ms": each.last_timestamp_ms,
            "transaction_first_offset": each.transaction_first_offset,
        }
        for each in islice(entries, PRODUCERS_LIMIT)
    ]


def _aborted(partition: Partition) -> list[Json]:
    log = partition.log
    try:
        found = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    except (OttlaError, OSError):
        return []
    return [
        {"producer_id": each.producer_id, "first_offset": each.first_offset, "last_offset": each.last_offset}
        for each in found[-ABORTED_LIMIT:]
    ]


def _followers(broker: Broker, partition: Partition) -> list[Json]:
    """What the leader knows of each follower."""
    if partition.in_sync is None:
        return []
    now_ms, end = broker.clock.monotonic_ms(), partition.log_end_offset
    return [
        {
            "broker_id": broker_id,
            "is_in_sync": broker_id in partition.in_sync.isr,
            "log_end_offset": each.log_end_offset if each.log_end_offset >= 0 else None,
            "lag": max(0, end - each.log_end_offset) if each.log_end_offset >= 0 else None,
            "fetched_ago_ms": _ago(now_ms, each.fetched_ms),
            "caught_up_ago_ms": _ago(now_ms, each.caught_up_ms),
        }
        for broker_id, each in sorted(partition.in_sync.followers.items())
    ]


def _ago(now_ms: float, then_ms: float) -> int | None:
    return None if math.isinf(then_ms) else max(0, round(now_ms - then_ms))


# -- one record -------------------------------------------------------------------------------------------------------


def locate(broker: Broker, topic: str, index: int, offset: int) -> dict[str, Json]:
    """The file, the place in it and the batch that hold an offset."""
    partition = copy_here(broker, topic, index)
    log = partition.log
    if not log.log_start_offset <= offset < log.log_end_offset:
        raise OffsetOutOfRange(f"{topic}-{index} has offsets {log.log_start_offset} to {log.log_end_offset - 1}")
    segment = log.segments.floor(offset)
    while segment is not None:
        found = log.segments.sound(segment, lambda each: each.translate(offset))
        if found is not None:
            return {"directory": str(log.directory), **_place(segment, found.position, offset)}
        segment = log.segments.higher(segment.base_offset)  # compaction took the rest of the segment before
    raise OffsetOutOfRange(f"no batch of {topic}-{index} reaches {offset}: compaction removed it")


def _place(segment: Segment, position: int, offset: int) -> dict[str, Json]:
    entry = segment.indexes.offsets.lookup(offset)
    try:
        _, batch = next(segment.records.headers(position))
    except (CorruptMessage, StopIteration) as error:
        return {"file": segment.path.name, "position": position, "damage": str(error) or "the batch cannot be read"}
    return {
        "file": segment.path.name,
        "segment_base_offset": segment.base_offset,
        "position": position,
        "batch_size_bytes": batch.size_bytes,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.record_count,
        "leader_epoch": batch.leader_epoch,
        "compression": Compression(batch.compression).name.lower(),
        "crc": f"{batch.crc:08x}",
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "is_append_time": batch.timestamp_type is TimestampType.LOG_APPEND_TIME,
        "max_timestamp_ms": batch.max_timestamp_ms,
        "index_entry": {"offset": entry.offset, "position": entry.position},
    }
