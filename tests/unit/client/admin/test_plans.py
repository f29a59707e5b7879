"""What a call makes of answers: done, asked again, failed; and how failures are told."""

import pickle
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from ottla.client.admin.plans import PartlyFailed, Plan, Work
from ottla.errors import (
    InvalidTopicException,
    LeaderNotAvailable,
    MalformedMessage,
    NotController,
    RequestTimedOut,
)


@dataclass(frozen=True)
class Lengths(Plan[str, int]):
    """Asks for the length of words; the answer is a dictionary."""

    def results(self, keys, response):
        yield from response.items()


def test_every_key_ends_once_and_a_repeated_key_is_one():
    work = Work(Lengths(), ["a", "bb", "a"])
    assert work.answered(["a", "bb"], {"a": 1, "bb": 2}) == []
    assert not work
    assert work.answered(["a"], {"a": 7}) == []
    assert work.result() == {"a": 1, "bb": 2}


def test_what_may_pass_is_asked_again_and_the_rest_is_not():
    work = Work(Lengths(), ["a", "b", "c"])
    again = work.answered(["a", "b", "c"], {"a": LeaderNotAvailable(), "b": InvalidTopicException(), "c": 1})
    assert [key for key, _ in again] == ["a"]
    assert list(work.pending) == ["a"]
    work.answered(["a"], {"a": 1})
    with pytest.raises(PartlyFailed) as raised:
        work.result()
    assert raised.value.succeeded == {"a": 1, "c": 1}
    assert list(raised.value.failed) == ["b"]


def test_a_key_the_answer_forgets_has_failed():
    work = Work(Lengths(), ["a"])
    work.answered(["a"], {})
    with pytest.raises(MalformedMessage, match="says nothing about a"):
        work.result()


def test_when_time_is_over_the_last_error_is_told():
    work = Work(Lengths(), ["a", "b"])
    work.not_asked(["a"], NotController())
    work.time_is_over(RequestTimedOut("too late"))
    assert isinstance(work.failed["a"], NotController)
    assert isinstance(work.failed["b"], RequestTimedOut)


def test_the_only_failure_is_raised_as_it_is():
    work = Work(Lengths(), ["a"])
    work.answered(["a"], {"a": InvalidTopicException()})
    with pytest.raises(InvalidTopicException):
        work.result()


def test_requests_have_room_for_all_keys_or_for_one():
    work = Work(Lengths(), ["a", "b"])
    assert work.portions(["a", "b"]) == [["a", "b"]]
    one_by_one = SimpleNamespace(one_key_per_request=True)
    assert Work(one_by_one, ["a", "b"]).portions(["a", "b"]) == [["a"], ["b"]]
    assert work.portions([]) == []


def test_partly_failed_can_be_pickled():
    error = PartlyFailed({"a": 1}, {"b": InvalidTopicException("b?")})
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.succeeded == {"a": 1}
