"""Types of the native twin: those of checks.py."""

from ottla.records.checks import check_records as check_records
from ottla.records.checks import place_plain_batch as place_plain_batch
from ottla.records.checks import place_plain_run as place_plain_run
from ottla.records.record_walk import RecordsWalk as RecordsWalk
