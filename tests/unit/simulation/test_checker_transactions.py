"""The checker on transactions, groups, ends and cleaning: each anomaly by its name, beside a history that has none."""

from __future__ import annotations

import pytest

from ottla.simulation.checker import check
from ottla.simulation.checker.cycles import circles
from ottla.simulation.history import History


class Story:
    """A history in few words."""

    def __init__(self):
        self.time_s = 0.0
        self.history = History(lambda: self.time_s)
        self.next_value = 1

    def begin(self, client="producer"):
        return self.history.note(client, "begin")

    def send(self, partition=0, offset=None, *, txn=None, client="producer", **facts):
        value, self.next_value = self.next_value, self.next_value + 1
        if txn is not None:
            facts["txn"] = txn
        sending = self.history.invoke(client, "send", partition=partition, value=value, **facts)
        if offset is not None:
            sending.ok(offset=offset)
        return value

    def end(self, txn, wants="commit", end="ok", client="producer"):
        ending = self.history.invoke(client, "end", txn=txn, wants=wants)
        if end == "ok":
            ending.ok()
        elif end == "info":
            ending.info("time-out")

    def poll(self, *records, client="reader", action="poll", **facts):
        self.history.invoke(client, action).ok(records=[list(each) for each in records], **facts)

    def note(self, action, **facts):
        self.history.note("somebody", action, **facts)

    def op(self, action, end, **facts):
        self.history.invoke("somebody", action, **facts).ok(**end)

    def anomalies(self, **options):
        return [each.name for each in check(self.history.events, **options)]


def transaction(*, wants="commit", end="ok", reads=()):
    """Two values of one transaction at 0:0 and 1:0, and which of them is read."""
    story = Story()
    txn = story.begin()
    values = [story.send(partition, 0, txn=txn) for partition in (0, 1)]
    story.end(txn, wants, end)
    for partition in reads:
        story.poll((partition, 0, values[partition]))
    return story


# --- transactions ---


def test_a_committed_transaction_is_there_and_an_aborted_one_is_not():
    assert transaction(reads=(0, 1)).anomalies() == []
    assert transaction(wants="abort").anomalies() == []
    assert transaction(end="info").anomalies() == []
    assert transaction(end="info", reads=(0, 1)).anomalies() == []


def test_what_a_transaction_committed_and_nobody_reads_is_unseen():
    assert transaction(reads=(0,)).anomalies() == ["unseen"]


def test_aborted_read():
    assert transaction(wants="abort", reads=(0,)).anomalies() == ["aborted-read"]


def test_a_transaction_that_nobody_asked_to_commit_counts_as_aborted():
    story = Story()
    txn = story.begin()
    story.poll((0, 0, story.send(0, 0, txn=txn)))
    assert story.anomalies() == ["aborted-read"]


def test_who_reads_what_is_not_committed_may_read_what_was_aborted():
    story = Story()
    txn = story.begin()
    story.poll((0, 0, story.send(0, 0, txn=txn)), isolation="read_uncommitted")
    story.end(txn, "abort")
    assert story.anomalies() == []


@pytest.mark.parametrize(("client", "name"), [("reader", "dirty-read"), ("producer", "precommitted-read")])
def test_a_read_before_anybody_asked_for_the_commit(client, name):
    story = Story()
    txn = story.begin()
    value = story.send(0, 0, txn=txn)
    story.poll((0, 0, value), client=client)
    story.end(txn)
    assert story.anomalies() == [name]


def test_who_asks_for_a_commit_again_does_not_make_earlier_reads_dirty():
    story = transaction(end="info", reads=(0, 1))
    story.end(1)
    assert story.anomalies() == []


def test_an_abort_that_succeeds_after_a_commit_that_did_not_decides():
    story = transaction(end="info", reads=(0,))
    story.end(1, "abort")
    assert story.anomalies() == ["aborted-read"]


def test_torn_transaction():
    assert transaction(end="info", reads=(1,)).anomalies() == ["torn-transaction"]


def test_hanging_transaction():
    story = Story()
    story.history.invoke("reader", "final-stable").info("t-0 is open")
    assert story.anomalies() == ["hanging-transaction"]
    story = Story()
    story.history.invoke("reader", "final-stable").ok()
    assert story.anomalies() == []


# --- exactly once ---


def copying(*, copies=1, committed=1):
    story = Story()
    story.poll(("in", 0, story.send("in", 0)))
    for number in range(copies):
        txn = story.begin("copier")
        value = story.send("out", number, txn=txn, client="copier", source=["in", 0], group="copy")
        story.end(txn, client="copier")
        story.poll(("out", number, value))
    story.op("final-committed", {"offsets": {"in": committed} if committed else {}}, group="copy")
    return story


def test_every_record_is_copied_once_when_its_offset_is_committed():
    assert copying().anomalies() == []
    assert copying(copies=0, committed=0).anomalies() == []


@pytest.mark.parametrize(("copies", "committed"), [(2, 1), (0, 1), (1, 0)], ids=["twice", "lost", "not committed"])
def test_consume_count(copies, committed):
    assert copying(copies=copies, committed=committed).anomalies() == ["consume-count"]


# --- cycles ---


def circular(*, is_read):
    """Two transactions; with `is_read` each reads what the other wrote, otherwise each writes after the other."""
    story = Story()
    one, two = story.begin("a"), story.begin("b")
    first, last = (story.send(partition, 0, txn=one, client="a") for partition in (0, 1))
    others = [story.send(partition, 1, txn=two, client="b") for partition in (0, 1)]
    story.end(one, client="a")
    story.end(two, client="b")
    if is_read:
        story.poll((0, 0, first), (0, 1, others[0]), client="b", txn=two)
        story.poll((1, 0, last), (1, 1, others[1]), client="a", txn=one)
    else:
        story.poll((0, 0, first), (0, 1, others[0]), (1, 0, last), (1, 1, others[1]))
    return story


def test_g1c_by_reads():
    assert circular(is_read=True).anomalies() == ["G1c"]
    assert circular(is_read=False).anomalies() == []


def test_g0_is_told_only_to_who_is_strict():
    story = Story()
    one, two = story.begin("a"), story.begin("b")
    values = [
        (0, 0, story.send(0, 0, txn=one, client="a")),
        (0, 1, story.send(0, 1, txn=two, client="b")),
        (1, 0, story.send(1, 0, txn=two, client="b")),
        (1, 1, story.send(1, 1, txn=one, client="a")),
    ]
    story.end(one, client="a")
    story.end(two, client="b")
    story.poll(*values)
    assert story.anomalies() == []
    assert set(story.anomalies(strict=True)) == {"G0", "G1c"}
    assert circular(is_read=False).anomalies(strict=True) == []


def test_circles_are_strongly_connected_components():
    assert circles({1: {2}, 2: {3}, 3: {1}, 4: {1}, 5: {6}, 6: {5}}) == [[1, 2, 3], [5, 6]]
    assert circles({number: {number + 1} for number in range(5_000)}) == []
    assert circles({number: {(number + 1) % 5_000} for number in range(5_000)}) == [list(range(5_000))]


# --- order ---


def test_order_within_one_poll_and_one_transaction():
    story = Story()
    values = [story.send(0, offset) for offset in range(3)]
    story.poll((0, 1, values[1]), (0, 0, values[0]), (0, 2, values[2]))
    assert story.anomalies() == ["int-nonmonotonic-poll", "int-poll-skip"]
    story = Story()
    txn = story.begin()
    late, early = story.send(0, 1, txn=txn), story.send(0, 0, txn=txn)
    story.end(txn)
    story.poll((0, 0, early), (0, 1, late))
    assert story.anomalies() == ["int-nonmonotonic-send"]


def test_what_was_aborted_is_not_skipped():
    story = Story()
    first, txn = story.send(0, 0), story.begin()
    aborted = story.send(0, 1, txn=txn)
    story.end(txn, "abort")
    last = story.send(0, 3)
    story.poll((0, 0, first), (0, 1, aborted), (0, 3, last), client="raw", isolation="read_uncommitted")
    story.poll((0, 0, first), (0, 3, last))
    assert story.anomalies() == []


def test_a_client_that_was_killed_may_be_overtaken_by_its_next_life():
    for is_killed, found in ((True, []), (False, ["nonmonotonic-send"])):
        story = Story()
        late = story.send(0)
        if is_killed:
            story.history.invoke("faults", "client-kill", whom="producer").ok()
        early = story.send(0, 0)
        story.poll((0, 0, early), (0, 1, late))
        assert story.anomalies() == found


# --- groups ---


@pytest.mark.parametrize(("generations", "found"), [((3, 3), ["double-ownership"]), ((3, 4), [])])
def test_double_ownership(generations, found):
    story = Story()
    values = [story.send(0, offset) for offset in (0, 1)]
    for number, generation in enumerate(generations):
        record = (0, number, values[number])
        story.poll(record, client=f"member {number}", group="g", generation=generation)
    assert story.anomalies() == found


# --- ends and cleaning ---


@pytest.mark.parametrize(("isolation", "name"), [("read_uncommitted", "hw-regress"), ("read_committed", "lso-regress")])
def test_ends_never_go_back(isolation, name):
    story = Story()
    story.op("ends", {"ends": {"t-0": 5}}, isolation=isolation)
    story.op("ends", {"ends": {"t-0": 5}}, isolation=isolation)
    assert story.anomalies() == []
    story.op("ends", {"ends": {"t-0": 4}}, isolation=isolation)
    assert story.anomalies() == [name]


def test_of_two_questions_at_a_time_either_may_be_answered_first():
    story = Story()
    asking = story.history.invoke("somebody", "ends", isolation="read_committed")
    story.op("ends", {"ends": {"t-0": 5}}, isolation="read_committed")
    asking.ok(ends={"t-0": 4})
    assert story.anomalies() == []


def cut(*, start, before=1):
    """Two records, of which somebody deletes the first."""
    story = Story()
    story.note("topic", partitions=[0], policy="cut")
    story.send(0, 0)
    last = story.send(0, 1)
    story.op("delete-records", {"start": 1}, partition=0, before=before)
    story.poll((0, 1, last), action="final-poll")
    story.op("final-read", {"starts": {0: start}, "ends": {0: 2}})
    return story


def test_what_was_deleted_by_request_is_not_lost():
    assert cut(start=1).anomalies() == []


def test_what_nobody_asked_to_delete_is_lost():
    assert cut(start=1, before=0).anomalies() == ["lost-write"]


def test_log_start_regress():
    assert "log-start-regress" in cut(start=0).anomalies()


def test_deleted_read():
    story = cut(start=1)
    story.poll((0, 0, 1), action="final-poll", client="other")
    assert story.anomalies() == ["deleted-read"]


def compacted(*, is_last_there):
    story = Story()
    story.note("topic", partitions=[0], policy="compact")
    values = [story.send(0, offset, key="k") for offset in range(2)]
    kept = 1 if is_last_there else 0
    story.poll((0, kept, values[kept]))
    return story


def test_compaction_lost():
    assert compacted(is_last_there=True).anomalies() == []
    assert compacted(is_last_there=False).anomalies() == ["compaction-lost"]


def test_retention_takes_only_what_is_before_the_start():
    for start, found in ((1, []), (0, ["lost-write"])):
        story = Story()
        story.note("topic", partitions=[0], policy="retention")
        story.send(0, 0)
        story.poll((0, 1, story.send(0, 1)))
        story.op("final-read", {"starts": {0: start}, "ends": {0: 2}})
        assert story.anomalies() == found


def test_of_a_topic_that_was_deleted_nothing_is_owed():
    story = Story()
    story.send("churn.1-0", 0)
    assert story.anomalies() == ["unseen"]
    story.note("topic", partitions=["churn.1-0"], policy="gone")
    assert story.anomalies() == []


def test_unavailable():
    story = Story()
    story.send(0)
    story.note("healed")
    story.time_s = 1.0
    assert story.anomalies() == []
    story.send(0)
    assert story.anomalies() == ["unavailable"]
