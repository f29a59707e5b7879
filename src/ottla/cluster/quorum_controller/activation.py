"""What a controller writes first, when it became the active one.

an open transaction     AbortTransactionRecord: the controller that began it has gone
an empty log            what `kafka-storage format` wrote down, in one transaction where the level knows those
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batch_plans import folded
from ottla.cluster.metadata_log.levels import TRANSACTIONS_SINCE
from ottla.cluster.metadata_log.writing import VersionedRecord, records_for
from ottla.cluster.model import METADATA_VERSION
from ottla.protocol.metadata_log.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

BOOTSTRAP_NAME: Final = "Bootstrap records"


def abort_records(reason: str = "Controller failover") -> list[VersionedRecord]:
    """The transaction that the controller before left open."""
    return [VersionedRecord(AbortTransactionRecord(reason=reason))]


def has_begun(image: ClusterImage) -> bool:
    """Whether the log has what a cluster begins with; not so after a crash came before all of it was there."""
    return bool(image.feature(METADATA_VERSION))


def first_records(image: ClusterImage, first: Sequence[Change]) -> list[VersionedRecord]:
    """What a new cluster begins with, all of it or nothing."""
    records = list(records_for(first, image))
    if folded(image, records, 0).feature(METADATA_VERSION) >= TRANSACTIONS_SINCE:
        begin = VersionedRecord(BeginTransactionRecord(name=BOOTSTRAP_NAME))
        records = [begin, *records, VersionedRecord(EndTransactionRecord())]
    return records
