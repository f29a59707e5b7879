"""Offsets in the forms that aiokafka takes: a number, (number, text), or OffsetAndMetadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.values import OffsetAndMetadata as OurOffset
from ottla.values import TopicPartition


def committable(offsets: Any) -> dict[TopicPartition, OurOffset]:
    """As ours."""
    if not offsets or not isinstance(offsets, Mapping):
        raise ValueError(offsets)
    return {_partition(each): _offset(value) for each, value in offsets.items()}


def _partition(partition: Any) -> TopicPartition:
    if not isinstance(partition, TopicPartition):
        raise ValueError("Key should be TopicPartition instance")
    return partition


def _offset(value: Any) -> OurOffset:
    if isinstance(value, int):
        return OurOffset(value)
    try:
        offset, metadata = value
    except (TypeError, ValueError):
        raise ValueError(value) from None
    if not isinstance(metadata, str):
        raise ValueError("Metadata should be a string")
    return OurOffset(offset, metadata)
