"""The promises of the sticky task assignor, for any members, processes, topologies and pasts."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.coordinators.groups.streams.assignor import (
    AssignmentSpec,
    MemberSpec,
    SubtopologySpec,
    assign,
)
from ottla.broker.coordinators.groups.streams.tasks import TaskId, Tasks, by_subtopology, task_ids

SUBTOPOLOGIES = st.dictionaries(
    st.sampled_from(["0", "1", "2", "10"]), st.builds(SubtopologySpec, st.integers(1, 9), st.booleans()), min_size=1
)
MEMBERS = st.dictionaries(st.sampled_from("ABCDEFGH"), st.sampled_from(["p", "q", "r", "s"]), min_size=1)


def spec(members, subtopologies, standbys=0, before=None):
    past = before or {}
    return AssignmentSpec(
        {name: MemberSpec(process, past.get(name, Tasks())) for name, process in members.items()},
        subtopologies,
        standbys,
    )


def check(asked: AssignmentSpec, tasks: dict[str, Tasks]) -> None:
    wanted = {TaskId(name, each) for name, sub in asked.subtopologies.items() for each in range(sub.task_count)}
    active = Counter(task for each in tasks.values() for task in task_ids(each.active))
    assert active == Counter(wanted), "every task is active with exactly one member"
    counts = [sum(1 for _ in task_ids(each.active)) for each in tasks.values()]
    assert max(counts) - min(counts) <= 1
    processes = {name: each.process_id for name, each in asked.members.items()}
    everywhere = Counter(
        (processes[name], task)
        for name, each in tasks.items()
        for task in (*task_ids(each.active), *task_ids(each.standby))
    )
    assert all(count == 1 for count in everywhere.values()), "no process has a task twice"
    copies = min(asked.standby_replicas, len(set(processes.values())) - 1)
    standby = Counter(task for each in tasks.values() for task in task_ids(each.standby))
    stateful = {task for task in wanted if asked.subtopologies[task.subtopology].is_stateful}
    assert standby == Counter(dict.fromkeys(stateful, copies)) - Counter()
    assert all(each.warmup == {} for each in tasks.values())


def moved(before: dict[str, Tasks], after: dict[str, Tasks]) -> int:
    was = {task: name for name, each in before.items() for task in task_ids(each.active)}
    return sum(1 for name, each in after.items() for task in task_ids(each.active) if was.get(task, name) != name)


@given(MEMBERS, MEMBERS, SUBTOPOLOGIES, SUBTOPOLOGIES, st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_it_keeps_its_promises_whatever_was_before(first, then, shape, later_shape, standbys, later_standbys):
    asked = spec(first, shape, standbys)
    before = assign(asked).tasks
    check(asked, before)
    again = spec(then, later_shape, later_standbys, before)
    after = assign(again)
    check(again, after.tasks)
    processes = len(set(then.values()))
    stateful = sum(each.task_count for each in later_shape.values() if each.is_stateful)
    assert after.missing_standbys == stateful * max(0, later_standbys - processes + 1)


@given(MEMBERS, SUBTOPOLOGIES, st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_what_did_not_change_stays_where_it_is(members, shape, standbys):
    before = assign(spec(members, shape, standbys)).tasks
    assert moved(before, assign(spec(members, shape, standbys, before)).tasks) == 0


@given(MEMBERS, SUBTOPOLOGIES)
@settings(max_examples=40, deadline=None)
def test_a_new_member_costs_no_more_moves_than_it_gets_tasks(members, shape):
    before = assign(spec(members, shape)).tasks
    after = assign(spec({**members, "new": "new"}, shape, before=before)).tasks
    assert moved(before, after) == sum(1 for _ in task_ids(after["new"].active))


@given(MEMBERS, SUBTOPOLOGIES)
@settings(max_examples=40, deadline=None)
def test_who_stays_keeps_all_that_it_had_when_another_goes(members, shape):
    before = assign(spec({**members, "gone": "gone"}, shape)).tasks
    after = assign(spec(members, shape, before=before)).tasks
    assert moved({name: each for name, each in before.items() if name != "gone"}, after) == 0


def test_a_task_goes_to_the_process_that_stood_by_for_it():
    shape = {"0": SubtopologySpec(4, True)}
    before = assign(spec({"A": "p", "B": "q"}, shape, 1)).tasks
    after = assign(spec({"B": "q", "C": "r"}, shape, 1, before)).tasks
    kept = set(task_ids(after["B"].active))
    assert kept >= set(task_ids(before["B"].active))
    assert len(kept) == 2
    lone = assign(spec({"B": "q"}, shape, 1, before)).tasks
    assert set(task_ids(lone["B"].active)) == {TaskId("0", each) for each in range(4)}


def test_a_first_assignment_pairs_partitions_of_a_subtopology_by_range():
    found = assign(spec({"A": "p", "B": "q"}, {"0": SubtopologySpec(2, False), "1": SubtopologySpec(2, False)})).tasks
    assert found == {
        "A": Tasks(by_subtopology([TaskId("0", 0), TaskId("1", 0)])),
        "B": Tasks(by_subtopology([TaskId("0", 1), TaskId("1", 1)])),
    }


def test_nobody_gets_nothing():
    assert assign(AssignmentSpec({}, {"0": SubtopologySpec(3, False)}, 0)).tasks == {}


def test_a_large_group_is_assigned_without_trying_every_member_for_every_task():
    members = {f"m{each:04}": f"p{each // 4}" for each in range(400)}
    found = assign(spec(members, {"0": SubtopologySpec(2_000, True)}, 1))
    check(spec(members, {"0": SubtopologySpec(2_000, True)}, 1), found.tasks)


def test_who_stood_by_for_a_task_gets_it_before_members_that_would_be_next():
    members = dict(zip("BCD", "qrs", strict=True))
    before = {"D": Tasks(standby=by_subtopology([TaskId("0", 0)]))}
    after = assign(spec(members, {"0": SubtopologySpec(1, True)}, 1, before)).tasks
    assert {name for name, each in after.items() if each.active} == {"D"}


def test_two_tasks_go_to_two_processes_before_a_process_gets_a_second_one():
    members = {"A": "p", "B": "p", "C": "q"}
    after = assign(spec(members, {"0": SubtopologySpec(2, False)})).tasks
    assert {members[name] for name, each in after.items() if each.active} == {"p", "q"}
