"""JSON of others: what has few values is read, what has many is refused before it is read."""

import json

import pytest

from ottla.bounded_json import VALUES_MAX, TooManyValues, read_json

MANY = VALUES_MAX + 1


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"a": [1, 2, {"b": None}]},
        "x" * 100_000,
        {"schema": json.dumps(list(range(VALUES_MAX * 2)))},
        ["a, [b] {c}"] * 1_000,
        ['quoted \\" and \\\\ ends'] * 5_000,
        "," * 200_000,
        "\\" * 100_000,
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_has_few_values_is_read_however_long_its_texts_are(value):
    text = json.dumps(value)
    assert read_json(text) == value
    assert read_json(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    ["[" + "0," * MANY + "0]", "[" * MANY, "{" * MANY, "[" + '"",' * (4 * MANY) + "0]"],
    ids=["numbers", "lists", "objects", "texts"],
)
def test_what_has_more_values_is_refused_with_what_to_do(text):
    with pytest.raises(TooManyValues, match=f"more than {VALUES_MAX} values; send it in several parts"):
        read_json(text)
    with pytest.raises(ValueError, match="values"):  # as what is no JSON
        read_json(text.encode())


def test_names_count_as_values():
    names = {f"k{number}": 1 for number in range(MANY)}
    with pytest.raises(TooManyValues):
        read_json(json.dumps(names))
