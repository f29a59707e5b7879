"""Who turns bytes into ConsumerRecords: native where ottla.native says so, the Python twin otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.native import is_native

if TYPE_CHECKING or not is_native("ottla.client.consumer._records"):
    from ottla.client.consumer.records import ConsumerRecord, FetchedRecords, end_offset_of
else:
    from ottla.client.consumer._records import ConsumerRecord, FetchedRecords, end_offset_of

__all__ = ["ConsumerRecord", "FetchedRecords", "end_offset_of"]
