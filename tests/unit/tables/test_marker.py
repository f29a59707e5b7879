"""The marker of a table in both forms, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.tables.marker import (
    Marker,
    UnreadableMarker,
    read_text,
    read_transactions,
    written_text,
    written_transactions,
)

numbers = st.integers(0, 2**63 - 1)
markers = st.builds(
    Marker,
    st.text("abcXYZ019-_", min_size=22, max_size=22),
    numbers,
    st.dictionaries(st.integers(0, 2**31 - 1), numbers, max_size=4),
)


@given(markers)
def test_a_marker_comes_back_from_both_forms(marker):
    assert read_text(written_text(marker)) == marker
    assert read_transactions({**written_transactions(marker), "somebody else": 7}) == marker


def test_a_table_without_a_marker_is_new():
    assert read_text(None) is None
    assert read_transactions({"spark": 7, "ottlas/x/0": 1}) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"topic_id": 1, "epoch": 1, "next_offsets": {}}',
        '{"topic_id": "t", "epoch": -1, "next_offsets": {}}',
        '{"topic_id": "t", "epoch": true, "next_offsets": {}}',
        '{"topic_id": "t", "epoch": 1, "next_offsets": []}',
        '{"topic_id": "t", "epoch": 1, "next_offsets": {"0": "1"}}',
        '{"topic_id": "t", "epoch": 1, "next_offsets": {"0": 9223372036854775808}}',
        '{"topic_id": "t", "epoch": 1, "next_offsets": {"-1": 1}}',
        '{"topic_id": "t", "epoch": 1, "next_offsets": {"01": 1}}',
        '{"topic_id": "t", "epoch": 1, "next_offsets": {"2147483648": 1}}',
        '{"topic_id": "t", "epoch": 1, "next_offsets": {"١": 1}}',
        "[" * 100_000,
    ],
)
def test_a_property_that_is_no_marker_is_an_error_and_never_a_new_table(text):
    with pytest.raises(UnreadableMarker):
        read_text(text)


@pytest.mark.parametrize(
    "versions",
    [
        {"ottla/t/0": 1},
        {"ottla/t/epoch": 1, "ottla/u/epoch": 1},
        {"ottla/t/epoch": 1, "ottla/t": 1},
        {"ottla/t/epoch": 1, "ottla/t/x": 1},
        {"ottla/t/epoch": 1, "ottla/t/0": -1},
    ],
)
def test_transactions_that_are_no_marker_are_an_error(versions):
    with pytest.raises(UnreadableMarker):
        read_transactions(versions)
