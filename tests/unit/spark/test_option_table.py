"""The language of options: names without case, units, errors that help."""

from __future__ import annotations

import pytest

from ottla.spark.option_table import (
    InvalidOption,
    Option,
    OptionValues,
    Where,
    json_object,
    milliseconds,
    one_of,
    size_bytes,
    text,
    truth,
    whole,
)

NUMBER = Option("maxThings", whole(1), 7, Where.READ, "At most so many.")
WORD = Option("someWord", text, None, Where.READ, "A word.")
TABLE = (NUMBER, WORD)


def test_names_are_told_apart_without_case() -> None:
    assert OptionValues.checked({"MAXTHINGS": "3"}, TABLE).get(NUMBER) == 3


def test_what_is_not_given_has_its_default() -> None:
    values = OptionValues.checked({}, TABLE)
    assert values.get(NUMBER) == 7
    assert values.get(WORD) is None
    assert NUMBER not in values


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(InvalidOption, match=r"'maxthing' \(did you mean maxThings\?\)"):
        OptionValues.checked({"maxThing": "3"}, TABLE)


def test_an_option_like_no_other_is_told_how_client_settings_are_written() -> None:
    with pytest.raises(InvalidOption, match="begin with kafka"):
        OptionValues.checked({"bootstrap.servers": "a:1"}, TABLE)


@pytest.mark.parametrize("name", ["path", "checkpointLocation", "queryName", "kafka.anything"])
def test_options_of_spark_and_of_the_client_pass(name: str) -> None:
    OptionValues.checked({name: "x"}, TABLE)


def test_client_settings_lose_their_prefix() -> None:
    values = OptionValues.checked({"kafka.bootstrap.servers": "a:1", "someWord": "x"}, TABLE)
    assert values.client_settings() == {"bootstrap.servers": "a:1"}


def test_a_wrong_value_says_what_it_must_be() -> None:
    with pytest.raises(InvalidOption, match="maxThings='many'; it must be a whole number, at least 1"):
        OptionValues.checked({"maxthings": "many"}, TABLE).get(NUMBER)


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("500", 500),
        ("500ms", 500),
        ("30s", 30_000),
        ("15m", 900_000),
        ("2 h", 7_200_000),
        ("1d", 86_400_000),
        ("5MIN", 300_000),
    ],
)
def test_times_are_written_as_in_spark(written: str, ms: int) -> None:
    assert milliseconds(written) == ms


@pytest.mark.parametrize("written", ["", "-1", "5 weeks", "1.5s", "s"])
def test_what_is_no_time_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="a time such as"):
        milliseconds(written)


@pytest.mark.parametrize(
    ("written", "size"), [("1000", 1000), ("64k", 65_536), ("64KB", 65_536), ("1g", 1 << 30), ("7b", 7)]
)
def test_sizes_are_written_as_in_spark(written: str, size: int) -> None:
    assert size_bytes(written) == size


@pytest.mark.parametrize("written", ["0", "-5", "1x", "k", "1.5m"])
def test_what_is_no_size_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="a size such as"):
        size_bytes(written)


@pytest.mark.parametrize("written", ["[1]", "nonsense", "", "1", '{"a": 1'])
def test_what_is_no_json_object_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="a JSON object"):
        json_object(written)


def test_json_that_says_something_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="no name comes twice"):
        json_object('{"t": {"0": 1, "0": 2}}')


def test_words_and_truths() -> None:
    assert one_of("error", "latest")("LATEST") == "latest"
    assert truth("True") is True
    with pytest.raises(ValueError, match="true or false"):
        truth("yes")
    with pytest.raises(ValueError, match="one of error, latest"):
        one_of("error", "latest")("first")
    with pytest.raises(ValueError, match="not empty"):
        text("")
