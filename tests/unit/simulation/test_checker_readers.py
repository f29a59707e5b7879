"""The checker on what readers and members of groups see of each other: each anomaly beside a history that has none."""

from __future__ import annotations

import pytest

from ottla.simulation.checker import check
from ottla.simulation.history import History

UNCOMMITTED = "read_uncommitted"


def names(history):
    return [each.name for each in check(history.events)]


def send(history, value, offset):
    history.invoke("producer", "send", partition="t-0", value=value).ok(offset=offset)


def poll(history, client, *records, action="poll", **facts):
    history.invoke(client, action).ok(records=[["t-0", *each] for each in records], **facts)


# --- what was read stays ---


def last_read(history, *records, end):
    reading = history.invoke("last", "final-read", isolation="read_committed")
    poll(history, "last", *records, action="final-poll")
    reading.ok(starts={"t-0": 0}, ends={"t-0": end})


def test_what_was_read_and_is_not_there_at_the_end_has_vanished():
    history = History()
    history.invoke("producer", "send", partition="t-0", value=1).info("time-out")
    poll(history, "reader", (0, 1))
    last_read(history, end=0)
    assert names(history) == ["vanished-read"]


def test_what_was_read_and_is_there_at_the_end_has_not_vanished():
    history = History()
    send(history, 1, 0)
    poll(history, "reader", (0, 1))
    last_read(history, (0, 1), end=1)
    assert names(history) == []


@pytest.mark.parametrize("policy", ["compact", "retention", "cut"])
def test_what_may_be_deleted_may_vanish(policy):
    history = History()
    history.note("admin", "topic", partitions=["t-0"], policy=policy)
    send(history, 1, 0)
    poll(history, "reader", (0, 1))
    last_read(history, end=1)
    assert names(history) == []


# --- ends ---


def ends(history, client, end):
    history.invoke(client, "ends", isolation=UNCOMMITTED).ok(ends={"t-0": end})


@pytest.mark.parametrize(("client", "found"), [("reader", ["hw-regress"]), ("other", [])])
def test_who_has_read_a_record_is_told_an_end_behind_it(client, found):
    """Another one may ask a leader that does not know yet that it is none."""
    history = History()
    send(history, 1, 0)
    send(history, 2, 1)
    poll(history, "reader", (0, 1), (1, 2), isolation=UNCOMMITTED)
    ends(history, client, 1)
    assert names(history) == found


def test_the_next_life_of_a_client_has_heard_of_no_end():
    history = History()
    ends(history, "watcher", 5)
    history.note("faults", "healed")
    history.invoke("faults", "client-kill", whom="watcher").ok()
    ends(history, "watcher", 4)
    assert names(history) == []


# --- groups ---


def two_members(*, second, commit_first=False):
    """The first reads and commits in generation 3; the second reads the same partition in between."""
    history = History()
    for value in (1, 2):
        send(history, value, value - 1)
    poll(history, "first", (0, 1), group="g", generation=3)
    committing = {"group": "g", "partition": "t-0", "offset": 1, "generation": 3}
    if commit_first:
        history.invoke("first", "commit", **committing).ok()
    poll(history, "second", (1, 2), group="g", generation=second)
    if not commit_first:
        history.invoke("first", "commit", **committing).ok()
    return history


def test_a_partition_that_its_owner_may_still_commit_belongs_to_nobody_else():
    assert names(two_members(second=4)) == ["double-ownership"]


def test_a_partition_that_was_given_back_belongs_to_the_next():
    assert names(two_members(second=4, commit_first=True)) == []


def test_a_member_that_was_put_out_long_ago_may_still_read():
    assert names(two_members(second=2)) == []


@pytest.mark.parametrize(
    ("offsets", "found"),
    [({"t-0": 2}, []), ({"t-0": 1}, ["group-offset-regress"]), ({}, ["group-offset-lost"])],
)
def test_what_a_group_committed_is_there_at_the_end(offsets, found):
    history = History()
    for value in (1, 2):
        send(history, value, value - 1)
    poll(history, "member", (0, 1), (1, 2), group="g", generation=1)
    history.invoke("member", "commit", group="g", partition="t-0", offset=2, generation=1).ok()
    history.invoke("last", "final-committed", group="g").ok(offsets=offsets)
    assert names(history) == found


# --- service ---


def test_records_can_be_deleted_when_all_is_healed():
    history = History(iter(range(100)).__next__)
    history.note("faults", "healed")
    deleting = history.invoke("cutter", "delete-records", partition="t-0", before=0)
    deleting.info("time-out")
    assert names(history) == ["unavailable"]
