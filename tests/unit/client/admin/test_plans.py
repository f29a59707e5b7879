"""What a call makes of answers: done, asked again, failed; and how failures are told."""

import pickle
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from ottla.client.admin.arguments import config_resources, new_topics, several
from ottla.client.admin.groups import DescribeClassicGroups, GroupDescription
from ottla.client.admin.plans import PartlyFailed, Plan, Work
from ottla.client.admin.topics import NewTopic, PartitionDescription, TopicDescription, difference
from ottla.errors import (
    ConnectionClosed,
    InvalidTopicException,
    LeaderNotAvailable,
    MalformedMessage,
    NotConnected,
    NotController,
    RequestTimedOut,
    TopicAlreadyExists,
)


@dataclass(frozen=True)
class Lengths(Plan[str, int]):
    """Asks for the length of words; the answer is a dictionary."""

    def request(self, keys, timeout_ms):
        return list(keys)

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


# --- answers that were lost ---


@dataclass(frozen=True)
class Makings(Lengths):
    presumed_done_after = (TopicAlreadyExists,)

    def presumed(self, key, error):
        return -1


@pytest.mark.parametrize(
    ("lost", "is_done"), [(RequestTimedOut, True), (ConnectionClosed, True), (NotConnected, False)]
)
def test_an_error_settles_only_what_a_lost_answer_may_have_been_about(lost, is_done):
    work = Work(Makings(), ["a"])
    assert work.not_asked(["a"], lost())
    assert work.answered(["a"], {"a": TopicAlreadyExists()}) == []
    assert (work.done == {"a": -1}) is is_done
    assert ("a" in work.failed) is not is_done


def described(*replicas):
    partitions = tuple(PartitionDescription(index, 1, 0, each, each) for index, each in enumerate(replicas))
    return TopicDescription("t", b"", False, partitions)


@pytest.mark.parametrize(
    ("wanted", "differs"),
    [
        (NewTopic("t"), None),
        (NewTopic("t", 2, 1, {"retention.ms": "5"}), None),
        (NewTopic("t", replica_assignments={0: [1], 1: [2]}), None),
        (NewTopic("t", 3), "its number of partitions is 2"),
        (NewTopic("t", 2, 2), "its replication factor is 1"),
        (NewTopic("t", 2, 1, {"retention.ms": "6"}), "its retention.ms is 5"),
        (NewTopic("t", replica_assignments={0: [2], 1: [1]}), "its replicas are"),
    ],
)
def test_a_topic_that_is_there_is_held_against_what_was_asked_for(wanted, differs):
    found = difference(wanted, described((1,), (2,)), {"retention.ms": "5"})
    assert found is None if differs is None else differs in found


def test_who_answered_for_a_group_is_its_coordinator():
    group = GroupDescription("g", "classic", "Stable", "range", ())
    assert DescribeClassicGroups().answered_by(group, 3).coordinator == 3


# --- what calls are given ---


@pytest.mark.parametrize(
    ("call", "given", "words"),
    [
        (new_topics, "clicks", "a list of topics is wanted, not one"),
        (new_topics, NewTopic("clicks"), "a list of topics is wanted, not one"),
        (new_topics, 5, "a list of topics is wanted, not 5"),
        (new_topics, [5], "a topic to make is a NewTopic or a name, not 5"),
        (new_topics, [NewTopic("clicks", "3")], "num_partitions is a whole number, not '3'"),
        (new_topics, [NewTopic("clicks", configs=5)], "settings by name are wanted as a mapping"),
        (several, 5, "a list of names is wanted, not 5"),
        (several, [5], "a name is text, not 5"),
        (config_resources, ["clicks"], "not 'clicks'"),
    ],
)
def test_what_cannot_be_used_is_told_before_anybody_is_asked(call, given, words):
    with pytest.raises(TypeError, match=words):
        call(given)
