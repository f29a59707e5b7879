"""Values compare by content, print as Kafka prints them, and addresses fail with words."""

import os
import random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidSetting
from ottla.values import (
    METADATA_TOPIC_UUID,
    ZERO_UUID,
    Address,
    Header,
    Node,
    OffsetAndMetadata,
    OffsetRange,
    TopicPartition,
    is_reserved_uuid,
    parse_address,
    parse_addresses,
    random_uuid,
    uuid_from_text,
    uuid_to_text,
)

offsets = st.integers(0, 2**63 - 1)


def test_a_topic_partition_prints_like_its_directory_and_is_a_key():
    assert str(TopicPartition("orders", 3)) == "orders-3"
    assert {TopicPartition("orders", 3): 1}[TopicPartition("orders", 3)] == 1
    assert TopicPartition.__hash__ is tuple.__hash__


def test_values_do_not_change():
    for value, field in [(TopicPartition("t", 0), "topic"), (OffsetRange(0, 1), "end"), (Header("k", b""), "key")]:
        with pytest.raises(AttributeError):
            setattr(value, field, "x")


def test_a_node_knows_its_address_and_whether_it_is_only_a_bootstrap_entry():
    assert Node(1, "::1", 9092, "r1").address == Address("::1", 9092)
    assert str(Node(1, "::1", 9092, "r1")) == "[::1]:9092 (id 1, rack r1)"
    assert str(Node(-1, "a", 9092)) == "a:9092 (id -1)"
    assert Node(-1, "a", 9092).is_bootstrap
    assert not Node(0, "a", 9092).is_bootstrap


def test_an_offset_range_has_its_first_offset_and_not_its_last():
    offset_range = OffsetRange(5, 8)
    assert [offset for offset in range(4, 10) if offset in offset_range] == [5, 6, 7]
    assert len(offset_range) == 3
    assert not OffsetRange(5, 5)


@pytest.mark.parametrize(("start", "end"), [(5, 4), (-1, 3)])
def test_an_offset_range_does_not_run_backwards(start, end):
    with pytest.raises(ValueError, match=f"{start} to {end}"):
        OffsetRange(start, end)


@given(*[st.integers(0, 30)] * 4)
def test_an_intersection_has_what_both_ranges_have(a, b, c, d):
    one, other = OffsetRange(min(a, b), max(a, b)), OffsetRange(min(c, d), max(c, d))
    common = one.intersection(other)
    assert {o for o in range(31) if o in common} == {o for o in range(31) if o in one and o in other}


def test_a_committed_offset_is_not_negative():
    assert OffsetAndMetadata(0).metadata == ""
    with pytest.raises(ValueError, match="-1"):
        OffsetAndMetadata(-1)


def test_uuids_have_the_text_form_of_kafka():
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(METADATA_TOPIC_UUID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_to_text(b"\xff" * 16) == "_____________________w"


@given(st.binary(min_size=16, max_size=16))
def test_uuid_text_comes_back(uuid):
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


@pytest.mark.parametrize(
    "text", ["", "short", "A" * 21, "A" * 23, "!" * 22, "ä" * 22, "A" * 20 + "==", "+" * 21 + "w", "A" * 21 + "B"]
)
def test_text_that_is_no_uuid_is_refused(text):
    with pytest.raises(ValueError, match="22 characters"):
        uuid_from_text(text)


def test_a_random_uuid_is_neither_reserved_nor_an_option_on_a_command_line():
    source = random.Random(1)
    uuids = [random_uuid(source.randbytes) for _ in range(500)]
    assert len(set(uuids)) == 500
    assert not any(is_reserved_uuid(uuid) or uuid_to_text(uuid).startswith("-") for uuid in uuids)
    assert UUID(bytes=random_uuid(os.urandom)).version == 4


def test_the_first_hundred_uuids_belong_to_kafka():
    assert [is_reserved_uuid(UUID(int=number).bytes) for number in (0, 1, 99, 100)] == [True, True, True, False]


def test_a_uuid_that_looks_like_an_option_is_drawn_again():
    draws = iter([b"\xf8" + b"\x00" * 15, b"\x00" * 16])
    assert random_uuid(lambda _: next(draws))[0] == 0


def test_a_source_that_is_not_random_is_noticed():
    with pytest.raises(ValueError, match="not random"):
        random_uuid(lambda size: b"\xf8" * size)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        (" kafka-1.example:0 ", ("kafka-1.example", 0)),
        ("[::1]:9092", ("::1", 9092)),
        ("[fe80::1%eth0]:65535", ("fe80::1%eth0", 65535)),
    ],
)
def test_addresses_are_read(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("address", [Address("localhost", 9092), Address("::1", 1)])
def test_an_address_prints_as_it_is_read(address):
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("localhost", "no port"),
        ("", "no port"),
        ("::1:9092", r"write \[::1\]:9092"),
        (":9092", "no usable host"),
        ("[]:9092", "no usable host"),
        ("PLAINTEXT://a:9092", "bare IPv6 host|no usable host"),
        ("127.0.0.1:9092:9093", "has two ports; write host:port"),
        ("a b:9092", "no usable host"),
        ("a:port", "port 'port'"),
        ("a:-1", "port '-1'"),
        ("a:65536", "65535"),
        ("a:", "port ''"),
        ("a:²", "port"),
        ("a:99999999999999999999", "65535"),
    ],
)
def test_a_bad_address_says_what_is_wrong(text, complaint):
    with pytest.raises(InvalidSetting, match=complaint):
        parse_address(text)


def test_a_list_of_addresses_keeps_its_order_and_drops_repeats():
    assert parse_addresses("a:1, b:2,,a:1") == [("a", 1), ("b", 2)]
    assert parse_addresses(["b:2", "a:1"]) == [("b", 2), ("a", 1)]


@pytest.mark.parametrize("addresses", ["", " , ", []])
def test_no_address_at_all_is_an_error(addresses):
    with pytest.raises(InvalidSetting, match="no address"):
        parse_addresses(addresses)
