"""Types of the native twin: those of compaction.py."""

from ottla.records.compaction import KeyTable as KeyTable
from ottla.records.compaction import filter_batches as filter_batches
from ottla.records.compaction import filter_records as filter_records
from ottla.records.compaction import index_batches as index_batches
from ottla.records.compaction import index_records as index_records
