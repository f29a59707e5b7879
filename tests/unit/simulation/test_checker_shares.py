"""The checker on share groups: each anomaly beside a history that has none."""

from __future__ import annotations

from ottla.simulation.checker import check
from ottla.simulation.history import History


class Told:
    """A history of one partition, in few words."""

    def __init__(self):
        self.history = History()

    def names(self):
        return [each.name for each in check(self.history.events) if each.name != "unseen"]

    def wrote(self, *values):
        for offset, value in enumerate(values):
            self.history.invoke("producer", "send", partition="t-0", value=value).ok(offset=offset)

    def life(self, client, *, sure=True):
        return self.history.note(client, "share-life", partitions=["t-0"], sure=sure, limit=5)

    def got(self, life, offset, count, value=None):
        records = [["t-0", offset, offset + 1 if value is None else value, count]]
        self.history.invoke("member", "share-poll").ok(records=records, life=life)

    def said(self, offset, count, word="ACCEPT", *, is_kept=True):
        saying = self.history.invoke("member", "share-ack", said=[["t-0", offset, count, word]])
        if is_kept:
            saying.ok(kept=[["t-0", offset]])
        else:
            saying.info("time-out")

    def ended(self, *values, is_drained=True):
        reading = self.history.invoke("last", "final-read", isolation="read_committed")
        records = [["t-0", offset, value] for offset, value in enumerate(values)]
        self.history.invoke("last", "final-poll").ok(records=records)
        reading.ok(starts={"t-0": 0}, ends={"t-0": len(values)})
        draining = self.history.invoke("drain", "share-drain")
        if is_drained:
            draining.ok()


def test_records_that_are_accepted_rejected_or_released_and_accepted_are_as_they_should_be():
    told = Told()
    told.wrote(1, 2, 3)
    life = told.life("one")
    told.got(life, 0, 1)
    told.got(life, 1, 1)
    told.got(life, 2, 1)
    told.said(0, 1)
    told.said(1, 1, "REJECT")
    told.said(2, 1, "RELEASE")
    told.got(told.life("two"), 2, 2)
    told.said(2, 2)
    told.ended(1, 2, 3)
    assert told.names() == []


def test_what_was_acknowledged_and_comes_to_somebody_who_began_later_is_redelivered():
    told = Told()
    told.wrote(1)
    told.got(told.life("one"), 0, 1)
    told.said(0, 1)
    told.got(told.life("two"), 0, 1)
    assert told.names() == ["share-redelivered"]


def test_a_later_delivery_of_what_was_acknowledged_is_one_to_anybody():
    told = Told()
    told.wrote(1)
    life = told.life("one", sure=False)
    told.got(life, 0, 1)
    told.said(0, 1)
    told.got(life, 0, 2)
    assert told.names() == ["share-redelivered"]


def test_an_answer_that_was_on_its_way_and_a_leader_that_is_none_any_more_are_no_redelivery():
    told = Told()
    told.wrote(1)
    early = told.life("early")
    told.got(told.life("one"), 0, 2)
    told.said(0, 2)
    told.got(early, 0, 1)
    told.got(told.life("late", sure=False), 0, 2)
    assert told.names() == []


def test_what_was_acknowledged_without_an_answer_may_come_again():
    told = Told()
    told.wrote(1)
    told.got(told.life("one"), 0, 1)
    told.said(0, 1, is_kept=False)
    told.got(told.life("two"), 0, 1)
    told.said(0, 1)
    told.ended(1)
    assert told.names() == []


def test_a_delivery_count_does_not_go_back():
    told = Told()
    told.wrote(1)
    told.got(told.life("one"), 0, 3)
    told.got(told.life("two"), 0, 3)
    assert told.names() == [], "what is acquired is not written: the same count may come again"
    told.got(told.life("three"), 0, 2)
    assert told.names() == ["share-count-regress"]


def test_who_lost_the_record_to_another_is_not_answered_before_that_one_ended_it():
    told = Told()
    told.wrote(1)
    told.got(told.life("one"), 0, 1)
    told.got(told.life("two"), 0, 2)
    told.said(0, 1)
    assert told.names() == ["share-stale-acknowledged"]


def test_who_is_late_is_answered_when_the_record_is_done():
    told = Told()
    told.wrote(1)
    told.got(told.life("one"), 0, 1)
    told.got(told.life("two"), 0, 2)
    told.said(0, 2, is_kept=False)
    told.said(0, 1)
    told.ended(1)
    assert told.names() == []


def test_what_is_written_and_never_delivered_is_lost():
    told = Told()
    told.wrote(1, 2)
    told.got(told.life("one"), 0, 1)
    told.said(0, 1)
    told.ended(1, 2)
    assert told.names() == ["share-lost"]


def test_what_is_released_and_does_not_come_again_is_stuck_unless_it_came_often_enough():
    told = Told()
    told.wrote(1, 2)
    life = told.life("one")
    told.got(life, 0, 4)
    told.got(life, 1, 5)
    told.said(0, 4, "RELEASE")
    told.said(1, 5, "RELEASE")
    told.ended(1, 2)
    assert told.names() == ["share-stuck"]


def test_who_cannot_read_to_the_end_is_named():
    told = Told()
    told.wrote()
    told.life("one")
    told.ended(is_drained=False)
    assert told.names() == ["share-not-drained"]


def test_another_value_than_others_read_is_inconsistent():
    told = Told()
    told.wrote(1)
    told.got(told.life("one"), 0, 1, value=7)
    assert told.names() == ["inconsistent-offsets"]
