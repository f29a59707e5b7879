"""Chooses the walks over records that compaction makes, native or Python, by the rule of implementation.py."""

from __future__ import annotations

import os

from ottla.records import compaction
from ottla.records.implementation import CHOSEN, VARIABLE

KeyTable = compaction.KeyTable
filter_batches = compaction.filter_batches
filter_records = compaction.filter_records
index_batches = compaction.index_batches
index_records = compaction.index_records

if CHOSEN == "native":
    try:
        from ottla.records._compaction import (  # type: ignore[assignment,unused-ignore]
            KeyTable,
            filter_batches,
            filter_records,
            index_batches,
            index_records,
        )
    except ImportError as error:
        # Forced to be native, or there and not loading: a broken build, not a missing one.
        if os.environ.get(VARIABLE) == "native" or error.name not in ("ottla.records._compaction", "ottla.records"):
            raise

__all__ = ["KeyTable", "filter_batches", "filter_records", "index_batches", "index_records"]
