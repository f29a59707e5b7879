"""The worker of a table in a world by hand: kills, lost answers, twins, deleted offsets, a topic made anew.

The world is a topic whose records are their offsets, and a table that changes as Delta's and Iceberg's do: a commit
names the marker that it met, and is refused when there is another. What may never happen is looked for at each commit.
"""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.tables.marker import Marker
from ottla.tables.reach import Gap, Halt, PartitionOffsets, TopicDescription
from ottla.tables.worker import (
    Commit,
    DescribeTopic,
    Discard,
    LoadTable,
    Portion,
    Stage,
    State,
    TableRules,
    TableWorker,
    Wait,
)

RULES = TableRules(lag_ms=1_000, commit_bytes=400, portion_bytes=100, poll_interval_ms=100, retry_ms=10, tries=3)


class World:
    """A topic, a table and the files that workers made."""

    def __init__(self, partitions=1):
        self.topic_id = "t"
        self.logs = {partition: [0, 0] for partition in range(partitions)}
        self.marker = None
        self.rows = []
        self.gaps = []
        self.begins = {}
        self.files = {}
        self.named = set()
        self.schema = "v1"
        self.numbers = itertools.count()

    def topic(self):
        return TopicDescription(self.topic_id, {name: PartitionOffsets(*log) for name, log in self.logs.items()})

    def stage(self, stage):
        """Ten bytes a record; what was deleted meanwhile is a gap."""
        left, rows, ends, gaps = stage.bytes_max // 10, [], {}, []
        for partition, (start, end) in stage.ranges.items():
            first = max(start, min(self.logs[partition][0], end))
            if first > start:
                gaps.append(Gap(partition, start, first))
            last = min(end, first + left)
            left -= last - first
            rows += [(partition, offset) for offset in range(first, last)]
            ends[partition] = last
        names = ()
        if rows:
            names = (f"file-{next(self.numbers)}",)
            self.files[names[0]] = rows
        return Portion(names, ends, 10 * len(rows), self.schema, tuple(gaps))

    def commit(self, commit):
        if commit.before != self.marker:
            return False
        if self.marker is None:
            self.begins = dict(commit.after.next_offsets)
        self.marker = commit.after
        self.rows += [row for file in commit.files for row in self.files[file]]
        self.gaps += commit.gaps
        self.named.update(commit.files)
        self.check()
        return True

    def is_read(self):
        """Whether the table has all there is."""
        offsets = {} if self.marker is None else self.marker.next_offsets
        return self.marker is not None and all(offsets.get(name, 0) == log[1] for name, log in self.logs.items())

    def check(self):
        """Each offset below the marker is in the table once, unless its gap was told."""
        told = [(gap.partition, offset) for gap in self.gaps for offset in range(gap.start, gap.end)]
        wanted = [
            (partition, offset)
            for partition, end in self.marker.next_offsets.items()
            for offset in range(self.begins.get(partition, 0), end)
        ]
        assert sorted(self.rows + told) == sorted(wanted)


def step(worker, world, now_ms, fate="done"):
    """One action, and what comes of it: done, its answer lost before or behind the commit, refused beside another."""
    action = worker.next()
    match action:
        case LoadTable():
            worker.table_loaded(world.marker)
        case DescribeTopic():
            worker.topic_described(world.topic(), now_ms)
        case Stage():
            worker.staged(world.stage(action), now_ms)
        case Commit() if fate == "lost before":
            worker.answer_lost(now_ms)
        case Commit() if fate == "compacted":
            worker.refused(world.marker, now_ms)
        case Commit():
            made = world.commit(action)
            if fate == "lost behind":
                worker.answer_lost(now_ms)
            elif made:
                worker.committed(now_ms)
            else:
                worker.refused(world.marker, now_ms)
        case Discard():
            assert world.named.isdisjoint(action.files), "the table would lose rows"
            for file in action.files:
                del world.files[file]
            worker.discarded()
        case Wait():
            worker.woken()
    return action


def run(worker, world, now_ms=0, until=None, steps=500):
    """Until the worker halts, or has nothing to do; the clock goes on when it waits."""
    for _ in range(steps):
        action = step(worker, world, now_ms)
        if isinstance(action, Wait):
            now_ms = max(now_ms, action.until_ms)
        if isinstance(action, Halt) or (world.is_read() if until is None else until()):
            return now_ms
    raise AssertionError(f"it does not end: {worker.state}")


def actions(worker, world, count, now_ms=0):
    return [type(step(worker, world, now_ms)).__name__ for _ in range(count)]


# --- one after the other ---


def test_a_table_is_claimed_before_its_first_rows():
    world = World()
    world.logs[0] = [3, 8]
    worker = TableWorker(RULES)
    assert actions(worker, world, 4) == ["LoadTable", "DescribeTopic", "Commit", "DescribeTopic"]
    assert (world.marker, world.rows) == (Marker("t", 1, {0: 3}), [])
    run(worker, world)
    assert world.marker == Marker("t", 1, {0: 8})
    assert world.rows == [(0, offset) for offset in range(3, 8)]


def test_little_is_read_when_it_has_waited_and_much_at_once():
    world, worker = World(), TableWorker(RULES)
    world.logs[0][1] = 1
    run(worker, world)  # which tells how long records are
    world.logs[0][1] = 2
    assert run(worker, world, 5_000, until=lambda: worker.state is State.STAGING) == 6_000
    run(worker, world, 6_000)
    world.logs[0][1] = 1_000
    assert actions(worker, world, 8, 6_000) == ["DescribeTopic", "Stage"] * 4
    assert actions(worker, world, 2, 6_000) == ["DescribeTopic", "Commit"]
    assert world.marker.next_offsets == {0: 42}  # four portions of ten records are a commit


def test_a_commit_has_files_of_one_schema():
    world = World()
    world.logs[0] = [0, 1_000]
    worker = TableWorker(RULES)
    run(worker, world, until=lambda: len(world.files) == 2)
    world.schema = "v2"
    commits = []
    for _ in range(20):
        if isinstance(worker.next(), Commit):
            commits.append(worker.next())
        step(worker, world, 0)
    assert [(commit.schema, len(commit.files)) for commit in commits[:2]] == [("v1", 2), ("v2", 4)]


def test_who_starts_again_goes_on_behind_the_marker():
    world = World(2)
    world.logs |= {0: [0, 57], 1: [0, 3]}
    run(TableWorker(RULES), world, until=lambda: bool(world.rows))
    run(TableWorker(RULES), world)
    assert world.marker == Marker("t", 2, {0: 57, 1: 3})


def test_a_topic_made_anew_stops_the_table_and_its_files_go():
    world = World()
    world.logs[0] = [0, 15]
    worker = TableWorker(RULES)
    run(worker, world, until=lambda: bool(world.files))
    world.topic_id = "u"
    run(worker, world)
    assert worker.state is State.HALTED
    assert "made anew" in worker.next().reason
    assert (world.files, world.rows) == ({}, [])
    again = TableWorker(RULES)
    run(again, world)
    assert again.state is State.HALTED
    assert world.marker.topic_id == "t"


@pytest.mark.parametrize("stops", [False, True])
def test_offsets_deleted_before_they_were_read_are_told_or_stop(stops):
    world = World()
    world.logs[0] = [0, 10]
    rules = TableRules(**{**vars(RULES), "stops_at_gaps": stops})
    worker = TableWorker(rules)
    run(worker, world)
    world.logs[0] = [25, 30]
    run(worker, world)
    if stops:
        assert "partition 0 offsets 10 to 24" in worker.next().reason
        assert world.marker.next_offsets == {0: 10}
    else:
        assert world.gaps == [Gap(0, 10, 25)]
        assert world.marker.next_offsets == {0: 30}


def test_a_gap_alone_is_committed_too():
    world, worker = World(), TableWorker(RULES)
    world.logs[0] = [0, 10]
    now_ms = run(worker, world)
    world.logs[0] = [20, 20]
    run(worker, world, now_ms)
    assert (world.gaps, world.marker.next_offsets) == ([Gap(0, 10, 20)], {0: 20})


def test_a_twin_halts_the_first_writer_and_drops_what_it_made():
    world = World()
    world.logs[0] = [0, 15]
    first, second = TableWorker(RULES), TableWorker(RULES)
    run(first, world, until=lambda: bool(world.files))
    run(second, world)
    run(first, world, now_ms=10_000, until=lambda: first.state is State.HALTED)
    assert first.state is State.HALTED
    assert "another writer has the table: its marker is of epoch 2, ours of epoch 1" in first.next().reason
    assert sorted(row for rows in world.files.values() for row in rows) == sorted(world.rows)
    assert world.marker == Marker("t", 2, {0: 15})


def test_a_table_that_always_changes_beside_is_given_up_in_the_end():
    world, worker = World(), TableWorker(RULES)
    world.logs[0] = [0, 5]
    run(worker, world, until=lambda: worker.state is State.COMMITTING)
    for _ in range(10):
        step(worker, world, 0, "compacted")
    assert worker.state is State.HALTED
    assert "4 commits in a row were not made" in worker.next().reason


@pytest.mark.parametrize("fate", ["lost before", "lost behind"])
def test_a_commit_whose_answer_was_lost_is_made_once(fate):
    world, worker = World(), TableWorker(RULES)
    world.logs[0] = [0, 5]
    for goal in (State.CLAIMING, State.COMMITTING):
        run(worker, world, until=lambda goal=goal: worker.state is goal)
        step(worker, world, 0, fate)
        assert isinstance(worker.next(), Wait)
    run(worker, world, until=lambda: worker.state is State.DESCRIBING)
    assert world.marker == Marker("t", 2 if fate == "lost behind" else 1, {0: 5})
    assert len(world.rows) == 5


def test_files_of_a_commit_that_may_have_been_made_are_not_deleted():
    world, worker = World(), TableWorker(RULES)
    world.logs[0] = [0, 5]
    run(worker, world, until=lambda: worker.state is State.COMMITTING)
    step(worker, world, 0, "lost behind")
    run(TableWorker(RULES), world, until=lambda: world.marker.epoch == 2)
    run(worker, world, until=lambda: worker.state is State.HALTED)
    assert set(world.files) == world.named


def test_a_portion_that_read_nothing_waits():
    world, worker = World(), TableWorker(RULES)
    world.logs[0] = [0, 5]
    run(worker, world, until=lambda: worker.state is State.STAGING)
    worker.staged(Portion((), {0: 0}, 0, None), 7)
    assert worker.next() == Wait(107)


def test_an_answer_that_nobody_asked_for_is_a_bug():
    with pytest.raises(AssertionError, match="nobody asked"):
        TableWorker(RULES).committed(0)


# --- whatever happens ---

EVENTS = ["step"] * 12 + ["append"] * 3 + ["delete", "kill", "schema", "time", "partition", "other"]
FATES = ["done"] * 3 + ["lost before", "lost behind", "compacted"]
happenings = st.tuples(st.sampled_from(EVENTS), st.sampled_from(FATES), st.integers(0, 60))


@settings(max_examples=300)
@given(st.lists(happenings, max_size=120), st.booleans())
def test_no_record_is_there_twice_and_none_is_missing_in_silence(events, has_twin):
    world = World(2)
    workers = [TableWorker(RULES), TableWorker(RULES)]
    now_ms = 0
    for event, fate, number in events:
        partition = number % len(world.logs)
        log = world.logs[partition]
        worker = number % 2 if has_twin else 0
        if event == "append":
            log[1] += number
        elif event == "delete":
            log[0] = min(log[1], log[0] + number)
        elif event == "kill":
            workers[worker] = TableWorker(RULES)
        elif event == "schema":
            world.schema = f"v{number}"
        elif event == "time":
            now_ms += number * 100
        elif event == "partition" and len(world.logs) < 4:
            world.logs[len(world.logs)] = [0, 0]
        else:
            action = step(workers[worker], world, now_ms, fate)
            now_ms = max(now_ms, action.until_ms) if isinstance(action, Wait) else now_ms
    last = TableWorker(RULES)
    run(last, world, now_ms)
    assert last.state is not State.HALTED
    world.check()
    assert world.is_read()
