"""Control batches with several records, or none: every reader of logs finds the end of the transaction in them."""

from __future__ import annotations

import pytest

from ottla.records.control import EndTransactionMarker, encode_marker_key, encode_marker_value
from ottla.records.implementation import BatchBuilder, RecordBatch, scan
from ottla.storage.compaction.cleaned_transactions import CleanedTransactions
from ottla.storage.producers import replay
from ottla.storage.producers.entry import read_producer_batches

ABORTED, COMMITTED = EndTransactionMarker(commit=False, coordinator_epoch=3), EndTransactionMarker(True, 4)
CASES = [((), None), ((ABORTED,), ABORTED), ((COMMITTED,), COMMITTED), ((COMMITTED, ABORTED), COMMITTED)]


def control_batch(*markers: EndTransactionMarker) -> bytes:
    """A control record of another kind, and these markers behind it."""
    builder = BatchBuilder(base_offset=10, producer_id=7, producer_epoch=0, transactional=True, control=True)
    builder.append(0, b"\0\0\0\6", b"another kind")
    for marker in markers:
        builder.append(0, encode_marker_key(marker), encode_marker_value(marker))
    return bytes(builder.close())


@pytest.mark.parametrize(("markers", "expected"), CASES)
def test_an_append_and_a_replay_read_the_same_marker(markers, expected):
    data = control_batch(*markers)
    (appended,) = read_producer_batches(data, scan(data))
    assert appended.marker == expected
    assert replay.producer_batch(RecordBatch(data)).marker == expected


def test_the_cleaner_keeps_a_batch_that_ends_no_transaction():
    assert not CleanedTransactions().can_discard_marker(RecordBatch(control_batch()))


def test_the_cleaner_sees_the_end_of_a_transaction_behind_another_control_record():
    assert CleanedTransactions().can_discard_marker(RecordBatch(control_batch(COMMITTED)))
