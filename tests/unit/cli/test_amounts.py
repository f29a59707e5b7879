"""Amounts as people write them."""

import pytest

from ottla.cli.amounts import bytes_of, number_of, written


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1048576", 1_048_576),
        ("1MB", 1_000_000),
        ("1 MB/s", 1_000_000),
        ("1MiB", 1_048_576),
        ("1.5kB", 1_500),
        ("2gib", 2 * 1024**3),
        (".5TB", 500_000_000_000),
        ("10b", 10),
    ],
)
def test_units_of_a_thousand_and_of_1024(text, amount):
    assert bytes_of(text) == amount


@pytest.mark.parametrize("text", ["", "MB", "1M", "-1", "1e6", "1 MB per second", "nan", "1.MB"])
def test_what_could_mean_two_things_or_nothing_is_refused(text):
    with pytest.raises(ValueError, match="write bytes as"):
        bytes_of(text)


def test_numbers_are_not_below_zero():
    assert number_of("12.5%") == 12.5
    for text in ("-1", "nan", "inf", "x"):
        with pytest.raises(ValueError, match="write a number"):
            number_of(text)


def test_numbers_are_shown_without_needless_decimals():
    assert [written(1_000_000.0), written(0.5)] == ["1,000,000", "0.5"]
