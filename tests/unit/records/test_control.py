"""Control records: markers travel both ways, unknown kinds are kept, broken ones refused."""

import pytest
from aiokafka.record import default_records as aiokafka_records
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessage
from ottla.records import RecordBatch
from ottla.records.control import (
    ControlType,
    EndTransactionMarker,
    encode_marker_key,
    encode_marker_value,
    end_transaction_batch,
    marker_type_of_keys,
    read_batch_marker,
    read_control_type,
    read_marker,
)

markers = st.builds(EndTransactionMarker, commit=st.booleans(), coordinator_epoch=st.integers(-(2**31), 2**31 - 1))


@given(markers)
def test_a_marker_is_read_as_it_was_written(marker):
    assert read_marker(encode_marker_key(marker), encode_marker_value(marker)) == marker


def test_the_bytes_are_kafkas():
    assert encode_marker_key(EndTransactionMarker(commit=False, coordinator_epoch=7)) == b"\0\0\0\0"
    assert encode_marker_key(EndTransactionMarker(commit=True, coordinator_epoch=7)) == b"\0\0\0\1"
    assert encode_marker_value(EndTransactionMarker(commit=True, coordinator_epoch=7)) == b"\0\0\0\0\0\7"


@pytest.mark.parametrize(("commit", "theirs"), [(True, COMMIT_MARKER), (False, ABORT_MARKER)])
def test_aiokafka_reads_our_key(commit, theirs):
    assert ControlRecord.parse(encode_marker_key(EndTransactionMarker(commit, 0))) == theirs


@given(markers)
def test_a_marker_in_its_batch(marker):
    data = end_transaction_batch(
        marker, producer_id=4001, producer_epoch=3, timestamp_ms=1700000000000, base_offset=77, leader_epoch=5
    )
    batch = RecordBatch(data)
    batch.check()
    (record,) = batch.records()
    assert read_marker(record.key, record.value) == marker
    assert (record.offset, record.timestamp_ms, record.headers) == (77, 1700000000000, ())
    theirs = aiokafka_records.DefaultRecordBatch(data)
    assert theirs.validate_crc()
    assert theirs.is_control_batch
    assert theirs.is_transactional
    assert (theirs.producer_id, theirs.base_offset) == (4001, 77)
    assert ControlRecord.parse(next(iter(theirs)).key) == (COMMIT_MARKER if marker.commit else ABORT_MARKER)


ABORTED, COMMITTED = EndTransactionMarker(commit=False, coordinator_epoch=3), EndTransactionMarker(True, 4)
OTHER = (b"\0\0\0\6", b"voters")  # a control record that ends no transaction


def record_of(marker):
    return encode_marker_key(marker), encode_marker_value(marker)


@pytest.mark.parametrize(
    ("records", "marker"),
    [
        ([], None),
        ([OTHER, OTHER], None),
        ([OTHER, record_of(ABORTED)], ABORTED),
        ([record_of(COMMITTED), OTHER], COMMITTED),
        ([record_of(COMMITTED), record_of(ABORTED)], COMMITTED),
    ],
)
def test_the_first_marker_of_a_control_batch_ends_the_transaction(records, marker):
    assert read_batch_marker(records) == marker
    kind = None if marker is None else ControlType.COMMIT if marker.commit else ControlType.ABORT
    assert marker_type_of_keys(key for key, _ in records) is kind


def test_fields_added_by_newer_versions_are_passed_over():
    assert read_marker(b"\0\1\0\1new", b"\0\1\0\0\0\7new") == EndTransactionMarker(commit=True, coordinator_epoch=7)


def test_other_kinds_are_no_marker():
    assert read_control_type(b"\0\0\0\2") is ControlType.LEADER_CHANGE
    assert read_marker(b"\0\0\0\2", b"whatever") is None
    assert read_marker(b"\0\0\0\6", None) is None


def test_an_unknown_kind_is_kept_as_its_number():
    assert read_control_type(b"\0\0\x01\0") == 256
    assert read_control_type(b"\0\0\xff\xff") == -1


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (None, b"\0\0\0\0\0\7", "no bytes"),
        (b"\0\0\0", b"\0\0\0\0\0\7", "3 bytes"),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\7", "version -1"),
        (b"\0\0\0\1", None, "no bytes"),
        (b"\0\0\0\1", b"\0\0\0\0\0", "5 bytes"),
        (b"\0\0\0\0", b"\xff\xfe\0\0\0\7", "version -2"),
    ],
)
def test_broken_markers_are_refused(key, value, says):
    with pytest.raises(CorruptMessage, match=says):
        read_marker(key, value)


@given(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=8))
def test_no_bytes_give_another_exception(key, value):
    try:
        read_marker(key, value)
    except CorruptMessage:
        pass
