"""The walks over records that a log makes (_checks) and that compaction makes (_compaction): native if they were built.

They go with the codec (implementation.py) and stand apart from it because clients, which need no log, load that.
"""

from __future__ import annotations

from ottla.native import is_native

if is_native("ottla.records._checks"):
    from ottla.records._checks import RecordsWalk, check_records, place_plain_batch, place_plain_run
else:
    from ottla.records.checks import check_records, place_plain_batch, place_plain_run
    from ottla.records.record_walk import RecordsWalk

if is_native("ottla.records._compaction"):
    from ottla.records._compaction import KeyTable, filter_batches, filter_records, index_batches, index_records
else:
    from ottla.records.compaction import KeyTable, filter_batches, filter_records, index_batches, index_records

__all__ = [
    "KeyTable",
    "RecordsWalk",
    "check_records",
    "filter_batches",
    "filter_records",
    "index_batches",
    "index_records",
    "place_plain_batch",
    "place_plain_run",
]
