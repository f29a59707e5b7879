"""Chooses who turns bytes into ConsumerRecords: native or the Python twin, by the rule of records/implementation.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ottla.records.implementation import CHOSEN, VARIABLE

if TYPE_CHECKING or CHOSEN == "python":
    from ottla.client.consumer.records import ConsumerRecord, FetchedRecords, end_offset_of
else:
    try:
        from ottla.client.consumer._records import ConsumerRecord, FetchedRecords, end_offset_of
    except ImportError as error:
        # Forced to be native, or there and not loading: a broken build, not a missing one.
        missing = error.name in ("ottla.client.consumer._records", "ottla.client.consumer")
        if os.environ.get(VARIABLE) == "native" or not missing:
            raise
        from ottla.client.consumer.records import ConsumerRecord, FetchedRecords, end_offset_of

__all__ = ["ConsumerRecord", "FetchedRecords", "end_offset_of"]
