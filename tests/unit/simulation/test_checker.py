"""The checker on histories written by hand: each anomaly is found by its name, and what is right is not."""

from __future__ import annotations

import pytest

from ottla.simulation.checker import check
from ottla.simulation.history import History, read_history


class Story:
    """A history in few words."""

    def __init__(self):
        self.history = History()

    def send(self, value, offset=None, *, partition=0, client="producer", end="ok"):
        sending = self.history.invoke(client, "send", partition=partition, value=value)
        if end == "ok":
            sending.ok(offset=offset)
        elif end == "fail":
            sending.fail("refused")
        elif end == "info":
            sending.info("time-out")
        return self

    def poll(self, *records, client="reader"):
        self.history.invoke(client, "poll").ok(records=[list(each) for each in records])
        return self

    def assign(self, client="reader"):
        self.history.note(client, "assign")
        return self

    def commit(self, offset, *, committed=None):
        facts = {"group": "g", "partition": 0}
        self.history.invoke("member", "commit", **facts, offset=offset).ok()
        if committed is not None:
            self.history.invoke("member", "committed", **facts).ok(offset=committed)
        return self

    def anomalies(self, **replicas):
        return [each.name for each in check(self.history.events, **replicas)]


def good():
    return Story().send(1, 0).send(2, 1).send(3, end="info").poll((0, 0, 1), (0, 1, 2))


def test_what_is_right_has_no_anomaly():
    assert good().anomalies() == []
    assert good().poll((0, 2, 3)).anomalies() == []  # a send of unknown end may have happened
    assert good().commit(1, committed=1).commit(2, committed=2).anomalies() == []
    assert Story().send(1, end=None).anomalies() == []
    assert Story().assign().poll().anomalies() == []


def test_lost_write():
    assert Story().send(1, 0).send(2, 1).poll((0, 1, 2)).anomalies() == ["lost-write"]


def test_an_acknowledgement_without_an_offset_names_no_place_but_must_be_read():
    assert Story().send(1, -1).send(2, -1).poll((0, 0, 1), (0, 1, 2)).anomalies() == []
    assert Story().send(1, -1).send(2, 1).poll((0, 1, 2)).anomalies() == ["unseen"]


def test_unseen():
    assert Story().send(1, 0).send(2, 1).poll((0, 0, 1)).anomalies() == ["unseen"]


def test_duplicate():
    assert good().poll((0, 4, 2)).anomalies() == ["duplicate"]


def test_a_value_that_was_acknowledged_elsewhere_than_it_is_counts_as_duplicate():
    assert Story().send(1, 0).poll((0, 3, 1)).anomalies() == ["duplicate"]


def test_inconsistent_offsets():
    story = Story().send(1, end="info").send(2, end="info").poll((0, 0, 1)).poll((0, 0, 2), client="other")
    assert story.anomalies() == ["inconsistent-offsets"]


def test_aborted_read():
    assert Story().send(1, end="fail").poll((0, 0, 1)).anomalies() == ["aborted-read"]


@pytest.mark.parametrize("record", [(1, 0, 1), (0, 5, 99)], ids=["other partition", "never sent"])
def test_misrouted(record):
    assert "misrouted" in Story().send(1, end="info").poll(record).anomalies()


def test_nonmonotonic_poll():
    story = good().poll((0, 0, 1))
    assert story.anomalies() == ["nonmonotonic-poll"]
    assert good().assign().poll((0, 0, 1), (0, 1, 2)).anomalies() == []  # it began anew


def test_poll_skip():
    story = Story().send(1, 0).send(2, 1).send(3, 2).poll((0, 0, 1), (0, 1, 2), (0, 2, 3))
    assert story.poll((0, 0, 1), client="other").poll((0, 2, 3), client="other").anomalies() == ["poll-skip"]
    assert Story().send(1, 0).send(2, 5).poll((0, 0, 1), (0, 5, 2)).anomalies() == []  # nothing is between


def test_nonmonotonic_send():
    story = Story().send(1, 1).send(2, 0).poll((0, 0, 2), (0, 1, 1))
    assert story.anomalies() == ["nonmonotonic-send"]
    assert Story().send(1, 1).send(2, 0, client="other").poll((0, 0, 2), (0, 1, 1)).anomalies() == []


def test_group_offset_regress():
    assert good().commit(2, committed=1).anomalies() == ["group-offset-regress"]
    assert good().commit(1, committed=1).commit(2, committed=2).anomalies() == []


def test_group_offset_lost():
    assert good().commit(2, committed=-1).anomalies() == ["group-offset-lost"]


@pytest.mark.parametrize("other", [b"abd", b"ab", b"abcd", b""])
def test_replica_divergence(other):
    found = check([], replicas={"t-0": {0: b"abc", 1: b"abc", 2: other}})
    assert [each.name for each in found] == ["replica-divergence"]
    assert check([], replicas={"t-0": {0: b"abc", 1: b"abc"}}) == []


def test_the_place_where_copies_part_is_named():
    (found,) = check([], replicas={"t-0": {0: bytes(100), 1: bytes(70) + b"x" + bytes(29)}})
    assert "from byte 70 on" in found.story


def test_final_read_incomplete():
    story = good()
    story.history.invoke("reader", "final-read")
    assert story.anomalies() == ["final-read-incomplete"]


def test_a_history_is_read_back_from_its_text():
    story = good().commit(2, committed=1)
    events = read_history(story.history.text().splitlines())
    assert events == story.history.events
    assert [each.name for each in check(events)] == ["group-offset-regress"]
