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
from ottla.values import uuid_to_text

numbers = st.integers(0, 2**63 - 1)
markers = st.builds(
    Marker,
    st.binary(min_size=16, max_size=16).map(uuid_to_text),
    numbers,
    st.dictionaries(st.integers(0, 40), numbers, max_size=4),
)


@given(markers)
def test_a_marker_comes_back_from_both_forms(marker):
    assert read_text(written_text(marker)) == marker
    assert read_transactions({**written_transactions(marker), "somebody else": 7}.get) == marker


def test_a_table_without_a_marker_is_new():
    assert read_text(None) is None
    assert read_transactions({"spark": 7, "ottlas/epoch": 1}.get) is None


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
    "changes",
    [
        {"ottla/partitions": None},
        {"ottla/partitions": -1},
        {"ottla/partitions": 2**40},
        {"ottla/topic-1": None},
        {"ottla/topic-1": 2**43},
        {"ottla/topic-2": 2**43 - 1},
        {"ottla/0": -1},
        {"ottla/epoch": -1},
    ],
)
def test_transactions_that_are_no_marker_are_an_error(changes):
    versions = written_transactions(Marker(uuid_to_text(bytes(16)), 1, {0: 5})) | changes
    with pytest.raises(UnreadableMarker):
        read_transactions(versions.get)
