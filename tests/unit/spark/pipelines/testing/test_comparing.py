"""Which rows are the same, and how the others are told."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from ottla.spark.pipelines.testing.cases import Expected
from ottla.spark.pipelines.testing.comparing import compare, same

MOMENT = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expected", "written"),
    [
        (1, 1.0),
        (1, Decimal("1.00")),
        (7, "7"),
        (0.1 + 0.2, 0.3),
        (float("nan"), float("nan")),
        (MOMENT, "2026-01-01T00:00:05.000Z"),
        ("2026-01-01T01:00:05+01:00", MOMENT),
        (MOMENT.replace(tzinfo=None), MOMENT),
        ("čaj", "čaj".encode()),
        ({"a": 1, "b": None}, {"a": 1}),
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ({"k": 1}, [("k", 1)]),
        (None, None),
        (True, True),
    ],
)
def test_values_that_mean_the_same_are_the_same(expected, written):
    assert same(expected, written)


@pytest.mark.parametrize(
    ("expected", "written"),
    [(1, 2), (1, True), (0, False), (None, 0), ("", None), ("1", "01"), ({"a": 1}, {"a": 1, "b": 2}), ([1], [1, 2]),
     (MOMENT, "no time"), (5, "five"), ("a", b"\xff"), (0.1, 0.1001)],
)  # fmt: skip
def test_values_that_differ_do(expected, written):
    assert not same(expected, written)


def test_only_the_columns_that_a_row_names_are_compared():
    written = [{"user": "ada", "ms": 1, "at": MOMENT}]
    assert compare("named", Expected([{"user": "ada"}]), written) is None
    assert compare("named", Expected([{"user": "ada", "ms": 2}]), written).columns == ["user", "ms"]


def test_rows_that_say_more_choose_first():
    written = [{"user": "ada", "ms": 1}, {"user": "ada", "ms": 2}]
    assert compare("named", Expected([{"user": "ada"}, {"user": "ada", "ms": 1}]), written) is None


def test_a_missing_row_stands_beside_the_nearest_and_a_surplus_one_alone():
    written = [{"user": "bob", "ms": 9}, {"user": "ada", "ms": 2}]
    difference = compare("named", Expected([{"user": "ada", "ms": 1}]), written)
    assert difference.pairs == [
        ({"user": "ada", "ms": 1}, {"user": "ada", "ms": 2}),
        (None, {"user": "bob", "ms": 9}),
    ]
    assert difference.summary == "named: 1 expected, 2 written, 0 of them the same"


def test_a_column_that_is_not_there_is_a_difference():
    assert compare("named", Expected([{"usr": None}]), [{"user": None}]) is not None


def test_order_counts_where_it_is_asked_for():
    written = [{"n": 1}, {"n": 2}]
    assert compare("out", Expected([{"n": 2}, {"n": 1}]), written) is None
    assert compare("out", Expected([{"n": 2}, {"n": 1}], ordered=True), written) is not None
    assert compare("out", Expected([{"n": 1}], ordered=True), written) is not None


def test_nothing_expected_and_nothing_written_is_right():
    assert compare("dead_letters", Expected(()), []) is None
    assert compare("dead_letters", Expected(()), [{"rule": "r"}]).pairs == [(None, {"rule": "r"})]
