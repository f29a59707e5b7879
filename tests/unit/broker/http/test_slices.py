"""JSON in slices is JSON, and no slice is long."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.http.slices import SLICE_ITEMS, slices

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(VALUES)
def test_any_value_is_the_same_after_it(value):
    assert json.loads(b"".join(slices(value))) == value


def test_a_long_list_comes_in_slices():
    value = {"total": 1_001, "rows": [{"n": number} for number in range(1_001)], "more": list(range(500))}
    pieces = list(slices(value))
    assert json.loads(b"".join(pieces)) == value
    assert max(map(len, pieces)) < 20 * SLICE_ITEMS
    assert json.loads(b"".join(slices(list(range(401))))) == list(range(401))
