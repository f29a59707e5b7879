"""Subscriptions by regular expression: what a group makes of them (their language: test_patterns.py)."""

from __future__ import annotations

import pytest

from ottla.broker.coordinators.effects import SetTimer
from ottla.broker.coordinators.groups.consumer import regex
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.timers import RegexTimer
from ottla.errors import InvalidRegularExpression


def test_an_expression_that_is_none_is_told_so(consumers):
    answer = consumers.beat("a", topics=None, regex="(")
    assert answer.error_code == InvalidRegularExpression.code
    assert answer.error_message == "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    assert not consumers.shard.groups


def test_an_expression_is_matched_after_the_heartbeat(consumers):
    a = consumers.client("a", topics=None, regex="t|u")
    a.beat()
    assert (a.epoch, a.owned) == (1, set())
    consumers.advance(0)
    a.beat()
    assert a.epoch == 2
    assert a.owned == {(topic, index) for topic in "tu" for index in range(4)}
    assert consumers.consumer_described().members[0].subscribed_topic_regex == "t|u"
    consumers.check_replay()


def test_an_expression_that_others_have_is_known_at_once(consumers):
    a = consumers.client("a", topics=None, regex="t")
    a.beat()
    consumers.advance(0)
    b = consumers.client("b", topics=None, regex="t")
    b.beat()
    assert b.epoch == 3
    consumers.settle_beating(a, b)
    assert len(a.owned) == len(b.owned) == 2


def test_names_and_expressions_add_up(consumers):
    a = consumers.client("a", topics=["other"], regex="t")
    a.beat()
    consumers.advance(0)
    a.beat()
    assert {topic for topic, _ in a.owned} == {"t", "other"}


def test_new_topics_are_found_but_not_every_second(consumers):
    a = consumers.client("a", topics=None, regex="new-.*")
    a.beat()
    consumers.advance(0)
    a.beat()
    consumers.make_topic("new-1", 1)
    consumers.advance(10_000)
    a.beat()
    consumers.advance(0)
    a.beat()
    assert a.owned == set()
    consumers.advance(1)
    a.beat()
    consumers.advance(0)
    a.beat()
    assert a.owned == {("new-1", 0)}


def test_expressions_are_matched_again_now_and_then(make_consumers):
    consumers = make_consumers(group_consumer_regex_refresh_interval_ms=20_000)
    a = consumers.client("a", topics=None, regex="t")
    a.beat()
    consumers.advance(0)
    first = consumers.consumer_group().regexes["t"].timestamp_ms
    for _ in range(3):
        consumers.advance(10_000)
        a.beat()
        consumers.advance(0)
    assert consumers.consumer_group().regexes["t"].timestamp_ms == first + 30_000
    assert consumers.consumer_group().epoch == 2


def test_another_expression_takes_the_place_of_the_old_one(consumers):
    a = consumers.client("a", topics=None, regex="t")
    a.beat()
    consumers.advance(0)
    a.beat()
    a.told["regex"], a.is_told = "u", True
    a.beat()
    assert a.owned == set()
    consumers.advance(10_001)
    a.beat()
    consumers.advance(0)
    consumers.settle_beating(a)
    assert {topic for topic, _ in a.owned} == {"u"}
    assert consumers.consumer_group().regexes.keys() == {"u"}
    consumers.check_replay()


def test_an_expression_goes_with_its_last_subscriber(consumers):
    consumers.beat("a", topics=None, regex="t")
    consumers.beat("b", topics=None, regex="t")
    consumers.advance(0)
    consumers.leave_consumer("a")
    assert consumers.consumer_group().regexes.keys() == {"t"}
    consumers.leave_consumer("b")
    assert not consumers.consumer_group().regexes
    consumers.check_replay()


def test_giving_up_an_expression_gives_up_its_topics(consumers):
    a = consumers.client("a", topics=["u"], regex="t")
    a.beat()
    consumers.advance(0)
    a.beat()
    a.told["regex"], a.is_told = "", True
    a.beat()
    consumers.settle_beating(a)
    assert {topic for topic, _ in a.owned} == {"u"}
    assert not consumers.consumer_group().regexes
    assert not consumers.consumer_group().regex_members


def test_an_expression_matches_only_what_the_asking_member_may_describe(consumers):
    asked = []

    def may_describe(asked_by, names):
        asked.append((asked_by.client_host, set(names)))
        return {name for name in names if name != "u"}

    consumers.shard.protocol_of(ConsumerGroup("g"))._may_describe = may_describe
    a = consumers.client("a", topics=None, regex="t|u")
    a.beat()
    consumers.advance(0)
    a.beat()
    assert {topic for topic, _ in a.owned} == {"t"}
    assert [names for _, names in asked] == [{"t", "u"}]


@pytest.fixture
def slices(monkeypatch):
    """What every slice of matching asked for."""
    seen = []
    resolve = regex.resolve

    def counted(*arguments):
        seen.append(resolve(*arguments))
        return seen[-1]

    monkeypatch.setattr(regex, "resolve", counted)
    return seen


def test_an_expression_is_matched_in_slices_between_which_others_are_served(consumers, slices):
    for number in range(30):
        consumers.make_topic(f"topic-{number}-" + "x" * 200, 1)
    consumers.client("a", topics=None, regex="(?:.?.?){490}z").beat()
    consumers.advance(0)
    assert len(slices) > 20
    assert {type(effect) for effects in slices[:-1] for effect in effects} == {SetTimer}
    assert "(?:.?.?){490}z" in consumers.consumer_group().regexes


def test_an_expression_that_takes_too_much_work_matches_nothing(consumers, monkeypatch, caplog):
    monkeypatch.setattr(regex, "EXPRESSION_STEPS", 10_000)
    consumers.make_topic("topic-" + "x" * 200, 1)
    consumers.client("a", topics=None, regex="(?:.?.?){490}").beat()
    consumers.advance(0)
    assert consumers.consumer_group().regexes["(?:.?.?){490}"].topics == frozenset()
    assert "takes more than 10000 steps" in caplog.text


def test_a_member_that_leaves_while_its_expression_is_matched_leaves_nothing_behind(consumers):
    consumers.beat("a", topics=None, regex="gone")
    consumers.beat("b", topics=None, regex="t")
    group = consumers.consumer_group()
    timer = RegexTimer("g")
    group.matching = regex._match_all(["gone", "t"], ("t",), frozenset)
    consumers.leave_consumer("a")
    (write,) = regex.resolve(consumers.consumer_group(), consumers.shard.protocol_of(group)._cluster, timer, 0)
    assert [record.key.regular_expression for record in write.records if hasattr(record.key, "regular_expression")] == [
        "t"
    ]
