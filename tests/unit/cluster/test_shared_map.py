"""SharedMap behaves like a dictionary that is copied at every change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.shared_map import SharedMap

OPERATIONS = st.lists(st.tuples(st.booleans(), st.text(max_size=2), st.integers()), max_size=60)


@given(OPERATIONS)
def test_it_agrees_with_a_dictionary_after_any_changes(operations: list[tuple[bool, str, int]]) -> None:
    shared: SharedMap[str, int] = SharedMap()
    plain: dict[str, int] = {}
    for put, key, value in operations:
        before, expected_before = shared, dict(plain)
        if put:
            shared, plain[key] = shared.put(key, value), value
        else:
            shared = shared.without(key)
            plain.pop(key, None)
        assert dict(before.items()) == expected_before
        assert len(shared) == len(plain)
        assert shared.get(key) == plain.get(key)
        assert (key in shared) == (key in plain)
    assert dict(shared.items()) == plain
    assert list(shared) == sorted(plain)


def test_maps_made_in_another_order_are_equal_and_walk_alike() -> None:
    entries = [(f"key-{number}", number) for number in range(1000)]
    one, other = SharedMap(entries), SharedMap(reversed(entries))
    assert one == other
    assert list(one) == list(other)


def test_keys_that_do_not_sort_are_walked_in_the_given_order() -> None:
    shared: SharedMap[str | None, int] = SharedMap([("b", 1), (None, 2), ("a", 3)], order=lambda key: key or "")
    assert list(shared.put("0", 4)) == [None, "0", "a", "b"]
