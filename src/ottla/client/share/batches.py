"""Acks about records as the requests have them: runs of offsets of which the same is said.

A run is (first offset, last offset, [type]): one type stands for all its offsets. Runs of a partition are in the order
of their offsets and do not overlap, as brokers demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client.share.in_flight import Held
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import share_acknowledge, share_fetch
from ottla.values import TopicPartition

T = TypeVar("T")
Acks = Mapping[TopicPartition, Sequence[Held]]


class Run(NamedTuple):
    """The same is said of all these offsets."""

    first: int
    last: int
    ack: int


def runs_of(acks: Iterable[tuple[int, int]]) -> list[Run]:
    """Pairs (offset, acknowledgement), joined where they are neighbours that say the same."""
    runs: list[Run] = []
    for offset, ack in sorted(acks):
        if runs and runs[-1].last + 1 == offset and runs[-1].ack == ack:
            runs[-1] = runs[-1]._replace(last=offset)
        else:
            runs.append(Run(offset, offset, ack))
    return runs


def fetch_topics(
    added: Mapping[TopicPartition, bytes], acks: Acks, topic_ids: Mapping[str, bytes]
) -> list[share_fetch.FetchTopic]:
    """Partitions that are new in the session, and those of whose records something is said."""
    partitions = {
        name: share_fetch.FetchPartition(
            partition_index=name.partition,
            acknowledgement_batches=_batches(acks.get(name, ()), share_fetch.AcknowledgementBatch),
        )
        for name in dict.fromkeys((*added, *acks))
    }
    return [
        share_fetch.FetchTopic(topic_id=topic_ids[topic], partitions=found)
        for topic, found in _by_topic(partitions).items()
    ]


def forgotten_topics(forgotten: Mapping[TopicPartition, bytes]) -> list[share_fetch.ForgottenTopic]:
    by_id: dict[bytes, list[int]] = {}
    for name, topic_id in forgotten.items():
        by_id.setdefault(topic_id, []).append(name.partition)
    return [share_fetch.ForgottenTopic(topic_id=topic_id, partitions=found) for topic_id, found in by_id.items()]


def acknowledged_topics(acks: Acks, topic_ids: Mapping[str, bytes]) -> list[share_acknowledge.AcknowledgeTopic]:
    partitions = {
        name: share_acknowledge.AcknowledgePartition(
            partition_index=name.partition,
            acknowledgement_batches=_batches(held, share_acknowledge.AcknowledgementBatch),
        )
        for name, held in acks.items()
    }
    return [
        share_acknowledge.AcknowledgeTopic(topic_id=topic_ids[topic], partitions=found)
        for topic, found in _by_topic(partitions).items()
    ]


def _batches(acks: Iterable[Held], batch: Any) -> list[Any]:
    return [
        batch(first_offset=run.first, last_offset=run.last, acknowledge_types=[run.ack])
        for run in runs_of((held.offset, held.ack) for held in acks)
    ]


def _by_topic(partitions: Mapping[TopicPartition, T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for name, each in partitions.items():
        found.setdefault(name.topic, []).append(each)
    return found
