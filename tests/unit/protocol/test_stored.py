"""Keys and values of internal topics, as bytes that Kafka's own brokers write."""

import pytest

from ottla.errors import MalformedMessage
from ottla.protocol import stored
from ottla.protocol.stored.classic_groups import GroupMetadataKey, GroupMetadataValue
from ottla.protocol.stored.consumer_groups import ConsumerGroupMetadataKey
from ottla.protocol.stored.offsets import LegacyOffsetCommitKey, OffsetCommitKey, OffsetCommitValue
from ottla.protocol.stored.subscription import ConsumerProtocolSubscription
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue

KINDS = (LegacyOffsetCommitKey, OffsetCommitKey, GroupMetadataKey, ConsumerGroupMetadataKey)


def test_a_stored_key_is_led_by_its_record_type() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert stored.encode_key(key) == b"\0\x01" + b"\0\x01g" + b"\0\x01t" + b"\0\0\0\x03"
    assert stored.decode_key(KINDS, stored.encode_key(key)) == key


def test_keys_with_the_same_layout_are_told_apart_by_their_type() -> None:
    classic, consumer = GroupMetadataKey(group="g"), ConsumerGroupMetadataKey(group_id="g")
    assert stored.decode_key(KINDS, stored.encode_key(classic)) == classic
    assert stored.decode_key(KINDS, stored.encode_key(consumer)) == consumer


def test_a_record_type_from_a_newer_broker_is_passed_over() -> None:
    assert stored.decode_key(KINDS, b"\x00\xc8whatever") is None


def test_a_stored_value_is_led_by_its_version() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="", commit_timestamp=7)
    assert (
        stored.encode_value(value, 3)
        == b"\0\x03" + b"\0\0\0\0\0\0\0\x05" + b"\0\0\0\x02" + b"\0\0" + bytes(7) + b"\x07"
    )
    assert stored.decode_value(OffsetCommitValue, stored.encode_value(value, 3)) == value


def test_an_expiry_is_only_in_version_1() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=7, expire_timestamp=9)
    assert stored.decode_value(OffsetCommitValue, stored.encode_value(value, 1)).expire_timestamp == 9
    assert stored.decode_value(OffsetCommitValue, stored.encode_value(value, 2)).expire_timestamp == -1


def test_a_value_of_a_version_we_do_not_know_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="GroupMetadataValue of version 9; known are 0-4"):
        stored.decode_value(GroupMetadataValue, b"\0\x09")


def test_producer_ids_around_an_overflow_are_tags_of_the_transaction_log() -> None:
    """Field order and tags as the transaction coordinator of Apache Kafka 4.3 declares them (SCHEMA_0, SCHEMA_1)."""
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=2,
        transaction_timeout_ms=3,
        transaction_status=4,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=6,
    )
    plain = bytes(7) + b"\x01\0\x02\0\0\0\x03\x04" + b"\xff\xff\xff\xff" + bytes(7) + b"\x05" + bytes(7) + b"\x06"
    assert stored.encode_value(value, 0) == b"\0\0" + plain
    assert stored.encode_value(value, 1) == b"\0\x01" + plain.replace(b"\xff\xff\xff\xff", b"\0") + b"\0"
    value.previous_producer_id = 9
    assert stored.encode_value(value, 1).endswith(b"\x01" + b"\x00\x08" + bytes(7) + b"\x09")
    assert stored.encode_key(TransactionLogKey(transactional_id="x")) == b"\0\0\0\x01x"


def test_a_newer_subscription_is_read_as_far_as_we_know_it() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=None, rack_id="r")
    newer = b"\0\x07" + stored.encode_value(subscription, 3)[2:] + b"what version 7 appended"
    assert stored.decode_newer_value(ConsumerProtocolSubscription, newer) == subscription


@pytest.mark.parametrize("buffer", [b"", b"\0"])
def test_bytes_without_room_for_the_leading_number_are_malformed(buffer: bytes) -> None:
    with pytest.raises(MalformedMessage):
        stored.decode_key(KINDS, buffer)


def test_only_keys_can_be_written_as_keys() -> None:
    with pytest.raises(TypeError, match="OffsetCommitValue is not the key"):
        stored.encode_key(OffsetCommitValue(offset=0, metadata="", commit_timestamp=0))
