import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessage
from ottla.records.varint import varint_size

# From Kafka's own description of zig-zag numbers: small magnitude, few bytes.
VARINTS = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
VARLONGS = [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"), (2**31, "8080808010")]


@pytest.mark.parametrize(("value", "encoded"), VARINTS)
def test_known_varints(twin, value, encoded):
    assert twin.encode_varint(value).hex() == encoded
    assert twin.decode_varint(bytes.fromhex(encoded)) == (value, len(encoded) // 2)


@pytest.mark.parametrize(("value", "encoded"), VARINTS + VARLONGS)
def test_known_varlongs(twin, value, encoded):
    assert twin.encode_varlong(value).hex() == encoded
    assert twin.decode_varlong(bytes.fromhex(encoded)) == (value, len(encoded) // 2)


@given(value=st.integers(-(2**63), 2**63 - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_a_varlong_comes_back_from_the_middle_of_other_bytes(twin, value, before, after):
    encoded = twin.encode_varlong(value)
    assert len(encoded) == varint_size(value)
    assert twin.decode_varlong(before + encoded + after, len(before)) == (value, len(before) + len(encoded))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_a_number_of_more_than_32_bits_is_no_varint(twin, value):
    with pytest.raises(ValueError, match="32 bits"):
        twin.encode_varint(value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_of_more_than_64_bits_is_no_varlong(twin, value):
    with pytest.raises(ValueError, match="64 bits"):
        twin.encode_varlong(value)


@pytest.mark.parametrize("broken", ["", "80", "ffffffff", "8080808080", "808080808001", "ffffffff10", "ffffffff1f"])
def test_a_broken_varint_is_corrupt(twin, broken):
    with pytest.raises(CorruptMessage):
        twin.decode_varint(bytes.fromhex(broken))


@pytest.mark.parametrize("broken", ["", "ff" * 9, "80" * 10, "80" * 10 + "01", "ff" * 9 + "02"])
def test_a_broken_varlong_is_corrupt(twin, broken):
    with pytest.raises(CorruptMessage):
        twin.decode_varlong(bytes.fromhex(broken))


def test_a_longer_form_than_needed_is_read(twin):
    assert twin.decode_varint(b"\x82\x00") == (1, 2)


def test_reading_behind_the_end_is_corrupt(twin):
    with pytest.raises(CorruptMessage):
        twin.decode_varint(b"\x02", 5)


@given(data=st.binary(max_size=12))
def test_both_twins_read_or_refuse_the_same_bytes(both, data):
    for name in ("decode_varint", "decode_varlong"):
        answers = []
        for twin in both:
            try:
                answers.append(getattr(twin, name)(data))
            except CorruptMessage:
                answers.append("corrupt")
        assert answers[0] == answers[1]
