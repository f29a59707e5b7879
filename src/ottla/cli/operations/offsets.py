"""Where partitions begin and end, as numbers. Nothing is asked when no partition is meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.admin.offsets import OffsetSpec
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.offsets import Place
    from ottla.client.admin.topics import TopicDescription


def offsets_at(admin: Admin, wanted: Mapping[TopicPartition, Place]) -> dict[TopicPartition, int]:
    """The offset of a place in each partition; -1 where no record is as late as a time."""
    return {each: place.offset for each, place in admin.list_offsets(wanted).items()} if wanted else {}


def begins_of(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The first offset of each."""
    return offsets_at(admin, dict.fromkeys(partitions, OffsetSpec.EARLIEST))


def ends_of(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The offset after the last record of each."""
    return offsets_at(admin, dict.fromkeys(partitions, OffsetSpec.LATEST))


def brought_inside(
    wanted: Mapping[TopicPartition, int], begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Nobody can read before the beginning or behind the end: such an offset becomes the border."""
    return {each: min(max(offset, begins[each]), ends[each]) for each, offset in wanted.items()}


def led_partitions(topics: Iterable[TopicDescription]) -> dict[TopicPartition, int]:
    """The partitions that have a leader, and who it is: the others cannot be asked."""
    return {
        TopicPartition(topic.name, each.partition): each.leader
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    }
