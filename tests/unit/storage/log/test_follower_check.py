"""What a follower takes from its leader: all that is whole and in order, unchanged."""

from __future__ import annotations

import struct

import pytest

from ottla.errors import CorruptMessage, UnsupportedForMessageFormat
from ottla.records.implementation import BatchBuilder
from ottla.storage.log.follower_check import OffsetsOutOfOrder, UnexpectedOffset, check_follower_append


def batch_at(offset, count=2, *, leader_epoch=3, timestamp_ms=50):
    builder = BatchBuilder(base_offset=offset, leader_epoch=leader_epoch)
    for n in range(count):
        builder.append(timestamp_ms + n, b"k", b"v")
    return builder.close()


def check(buffer, next_offset=10, leader_epoch=3):
    return check_follower_append(buffer, next_offset=next_offset, leader_epoch=leader_epoch)


def test_batches_are_taken_as_they_are():
    sent = batch_at(10) + batch_at(12, timestamp_ms=99) + batch_at(20, leader_epoch=-1)
    checked = check(sent)
    assert bytes(checked.buffer) == sent
    assert not checked.is_rewritten
    assert [info.base_offset for info in checked.batches] == [10, 12, 20]
    assert (checked.first_offset, checked.last_offset, checked.size_bytes) == (10, 21, len(sent))
    assert (checked.max_timestamp_ms, checked.offset_of_max_timestamp, checked.log_append_time_ms) == (100, 13, -1)


def test_the_first_of_equal_times_counts():
    assert check(batch_at(10) + batch_at(12)).offset_of_max_timestamp == 11


def test_a_batch_that_is_cut_off_is_left_out():
    first, second = batch_at(10), batch_at(12)
    for length in range(len(second)):
        assert bytes(check(first + second[:length]).buffer) == first
    for length in range(len(first)):
        assert check(first[:length]) is None


def test_batches_of_a_newer_leader_are_left_out_with_all_behind_them():
    first = batch_at(10, leader_epoch=2)
    sent = first + batch_at(12, leader_epoch=4) + batch_at(14, leader_epoch=3)
    assert bytes(check(sent).buffer) == first
    assert check(batch_at(10, leader_epoch=4)) is None
    damaged = bytearray(sent)
    damaged[-1] ^= 1
    assert bytes(check(damaged).buffer) == first


def test_a_gap_before_the_first_batch_is_taken():
    assert check(batch_at(15)).first_offset == 15


def test_batches_we_have_already_are_refused():
    with pytest.raises(UnexpectedOffset, match="begins at offset 9, our log ends at 10") as caught:
        check(batch_at(9) + batch_at(11))
    assert (caught.value.first_offset, caught.value.last_offset) == (9, 12)


@pytest.mark.parametrize("second", [8, 10, 9])
def test_offsets_must_grow(second):
    with pytest.raises(OffsetsOutOfOrder):
        check(batch_at(10) + batch_at(second), next_offset=0)


def test_a_flipped_bit_is_refused():
    sent = bytearray(batch_at(10) + batch_at(12))
    sent[-1] ^= 1
    with pytest.raises(CorruptMessage, match="CRC"):
        check(sent)


@pytest.mark.parametrize("length", [-1, 0, 4])
def test_a_length_that_cannot_be_is_refused(length):
    with pytest.raises(CorruptMessage, match="length"):
        check(batch_at(10)[:8] + struct.pack(">i", length) + batch_at(10)[12:])


@pytest.mark.parametrize("magic", [0, 1])
def test_formats_from_before_v2_are_refused(magic):
    sent = bytearray(batch_at(10))
    sent[16] = magic
    with pytest.raises(UnsupportedForMessageFormat, match=f"v{magic}"):
        check(sent)


def test_a_format_that_does_not_exist_is_refused():
    sent = bytearray(batch_at(10))
    sent[16] = 3
    with pytest.raises(CorruptMessage, match="magic 3"):
        check(sent)
