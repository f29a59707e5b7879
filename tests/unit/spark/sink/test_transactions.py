"""The decisions of the exactly-once sink on a cluster in memory: never doubled, never lost, whatever dies when."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.unit.spark.sink_model import FINAL, NAMES, Cluster, Run, expected

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import ProducerFenced
from ottla.spark.sink.markers import Decision, Marker, MarkerUnreadable, further_pieces
from ottla.spark.sink.staging import note_too_long
from ottla.spark.sink.step_kinds import (
    AddMarker,
    BatchNotCommitted,
    BatchSuperseded,
    BatchTooLong,
    Claim,
    End,
    Fence,
    Finished,
    LayoutChanged,
    Look,
    MarkersContradict,
    Nothing,
    Staged,
    TakeOver,
    TimedOut,
    Together,
    TransactionLost,
    Write,
    Written,
)
from ottla.spark.sink.transactions import abort_steps, commit_steps, task_steps

STEP_LIMIT = 200


def prepared(task: int, epoch: int = 3, is_empty: bool = False) -> PreparedTransaction:
    return PreparedTransaction(NAMES.transactional_id(task), 100 + task, epoch, is_empty)


def talk(steps, *answers):
    """The steps that are asked for, while these answers are given; the last entry is the result or the error."""
    asked, answer = [], None
    given = iter(answers)
    while True:
        try:
            asked.append(steps.send(answer))
        except StopIteration as end:
            return [*asked, end.value]
        answer = next(given)


# --- a task -----------------------------------------------------------------------------------------------------------


def test_a_task_takes_over_looks_again_and_writes():
    left = prepared(1)
    said = talk(
        task_steps(7, 1, NAMES, is_empty=False), {0: Marker(), 1: Marker()}, None, {1: Marker(6)}, Written(1, left, 9)
    )
    assert said == [Look((0, 1), False), TakeOver(1), Look((1,), True), Write(1), Written(1, left, 9)]


def test_a_task_without_rows_touches_nothing_but_task_0_carries_the_decision():
    assert talk(task_steps(7, 1, NAMES, is_empty=True), {0: Marker(), 1: Marker()})[-1] == Nothing(1)
    assert TakeOver(0) in talk(
        task_steps(7, 0, NAMES, is_empty=True), {0: Marker()}, None, {0: Marker()}, Written(0, prepared(0), 0)
    )


def test_a_decided_task_ends_what_it_wrote_and_writes_nothing():
    decision = Decision.about(2, {0: prepared(0), 1: prepared(1)})
    said = talk(task_steps(7, 1, NAMES, is_empty=False), {0: Marker(7, decision), 1: Marker(6)}, None)
    assert said == [Look((0, 1), False), End(1, prepared(1)), Finished(1)]


def test_a_decided_task_whose_transaction_was_aborted_writes_again():
    decision = Decision.about(2, {0: prepared(0), 1: prepared(1)})
    again = prepared(1, epoch=9)
    said = talk(
        task_steps(7, 1, NAMES, is_empty=False),
        {0: Marker(7, decision), 1: Marker(6)},
        ProducerFenced(),
        None,
        {1: Marker(6)},
        Written(1, again, 4),
    )
    assert said[-2:] == [Write(1), Written(1, again, 4)]


def test_a_task_that_was_not_part_of_the_decision_is_finished():
    decision = Decision.about(2, {0: prepared(0), 1: prepared(1)})
    assert talk(task_steps(7, 5, NAMES, is_empty=False), {0: Marker(7, decision), 5: Marker()})[-1] == Finished(5)


def test_a_commit_that_came_between_the_two_looks_is_seen():
    said = talk(task_steps(7, 1, NAMES, is_empty=False), {0: Marker(6), 1: Marker(6)}, None, {1: Marker(7)})
    assert said[-1] == Finished(1)


def test_a_checkpoint_that_was_set_back_is_refused():
    with pytest.raises(BatchSuperseded, match="batch 9 was written"):
        talk(task_steps(7, 1, NAMES, is_empty=False), {0: Marker(9, Decision(1, 2, {})), 1: Marker(6)})


# --- the driver -------------------------------------------------------------------------------------------------------


def test_the_driver_marks_all_decides_with_task_0_and_then_ends_the_others():
    results = [Written(0, prepared(0), 1), Written(1, prepared(1), 1), Nothing(2), Written(3, prepared(3), 2)]
    decision = Decision.about(4, {task: prepared(task) for task in (0, 1, 3)})
    said = talk(commit_steps(7, results, NAMES, 0.0), [prepared(0), prepared(1), prepared(3)], None, [None, None])
    assert said == [
        Together(
            (
                AddMarker(0, prepared(0), Marker(7, decision)),
                AddMarker(1, prepared(1), Marker(7)),
                AddMarker(3, prepared(3), Marker(7)),
            )
        ),
        End(0, prepared(0)),
        Together((End(1, prepared(1)), End(3, prepared(3)))),
        None,
    ]


def test_a_transaction_that_is_gone_stops_the_batch_before_anything_counts():
    results = [Written(0, prepared(0), 1), Written(1, prepared(1), 1)]
    with pytest.raises(BatchNotCommitted, match="task 1"):
        talk(commit_steps(7, results, NAMES, 0.0), [prepared(0), ProducerFenced()])


def test_an_end_of_task_0_that_is_refused_is_looked_up():
    results = [Written(0, prepared(0), 1)]
    ours, theirs = (Decision.about(1, {0: prepared(0, epoch)}) for epoch in (3, 4))
    said = talk(commit_steps(7, results, NAMES, 0.0), [prepared(0)], ProducerFenced(), {0: Marker(7, ours)})
    assert said[-1] is None
    for marker in (Marker(6, ours), Marker(7, theirs)):
        with pytest.raises(BatchNotCommitted):
            talk(commit_steps(7, results, NAMES, 0.0), [prepared(0)], ProducerFenced(), {0: marker})


def test_a_transaction_that_is_lost_after_the_decision_is_an_error():
    results = [Written(0, prepared(0), 1), Written(1, prepared(1), 1)]
    said = commit_steps(7, results, NAMES, 0.0)
    with pytest.raises(TransactionLost, match="task 1"):
        talk(said, [prepared(0), prepared(1)], None, [ProducerFenced()], {1: Marker(6)})


def test_a_batch_without_rows_asks_nothing():
    results = [Written(0, prepared(0, is_empty=True), 0), Nothing(1)]
    assert talk(commit_steps(7, results, NAMES, 0.0)) == [None]


def test_what_was_decided_by_more_tasks_is_ended_by_the_driver():
    decision = Decision.about(3, {task: prepared(task) for task in range(3)})
    said = talk(commit_steps(7, [Finished(0)], NAMES, 0.0), {0: Marker(7, decision)}, [None, None])
    assert said[1] == Together((End(1, prepared(1)), End(2, prepared(2))))


def test_rows_that_must_be_written_again_by_another_number_of_tasks_are_an_error():
    decision = Decision.about(3, {task: prepared(task) for task in range(3)})
    results = [Finished(0), Written(1, prepared(1, epoch=8), 2)]
    with pytest.raises(LayoutChanged, match="3 tasks and has 2"):
        talk(commit_steps(7, results, NAMES, 0.0), {0: Marker(7, decision)})


def test_markers_that_do_not_fit_are_an_error():
    with pytest.raises(MarkersContradict):
        talk(commit_steps(7, [Written(0, prepared(0), 1), Finished(1)], NAMES, 0.0), {0: Marker(6)})


def test_an_abort_begins_with_task_0_and_stops_when_that_is_refused():
    results = [Written(0, prepared(0), 1), None, Written(2, prepared(2), 1)]
    assert talk(abort_steps(7, results), None, [None], None) == [
        End(0, prepared(0), commit=False),
        Together((End(2, prepared(2), commit=False),)),
        Fence((1,)),
        None,
    ]
    assert len(talk(abort_steps(7, results), ProducerFenced())) == 2


def test_an_abort_of_tasks_that_were_killed_leaves_nothing_open():
    assert talk(abort_steps(7, [None, None]), {0: Marker(6)}, None, {0: Marker(6)}, None) == [
        Look((0,), False),
        Fence((0,)),
        Look((0,), True),
        Fence((1,)),
        None,
    ]


@pytest.mark.parametrize("answers", [[{0: Marker(7)}], [{0: Marker(6)}, None, {0: Marker(7)}]])
def test_an_abort_leaves_a_batch_alone_that_was_decided(answers):
    assert Fence((1,)) not in talk(abort_steps(7, [None, None]), *answers)
    assert talk(abort_steps(7, [Finished(0), None])) == [None]


# --- what is written down ---------------------------------------------------------------------------------------------

IDENTITIES = some.dictionaries(some.integers(0, 20), some.tuples(some.integers(0, 2**62), some.integers(0, 32767)))


@given(IDENTITIES, some.integers(1, 2))
def test_a_decision_survives_its_text(identities, version):
    decision = Decision(max(identities, default=0) + 1, version, dict(sorted(identities.items())))
    assert Decision.read(decision.text()) == decision


@given(IDENTITIES, some.one_of(some.none(), some.integers(0, 10**9)), some.booleans(), some.integers(-1, 10**9))
def test_a_marker_survives_its_offsets(identities, staged_batch, is_staged, batch_id):
    decision = Decision(max(identities, default=0) + 1, 2, dict(sorted(identities.items())), is_staged)
    marker = Marker(batch_id, decision if batch_id >= 0 else None, staged_batch)
    first, *more = marker.as_offsets()
    assert further_pieces(first) == len(more)
    assert Marker.of(0, first, more) == marker
    assert Marker.of(1, first) == Marker(batch_id)


@pytest.mark.parametrize("tasks", [600, 900, 20_000])
def test_a_list_that_is_too_long_for_one_offset_goes_on_in_others(tasks):
    marker = Marker(7, Decision.about(tasks, {task: prepared(task) for task in range(tasks)}), 8)
    offsets = marker.as_offsets()
    assert all(len(each.metadata) < 4096 for each in offsets), "what brokers take"
    assert {each.offset for each in offsets} == {8}
    assert further_pieces(offsets[0]) == len(offsets) - 1
    assert Marker.of(0, offsets[0], offsets[1:]) == marker


def test_a_list_of_which_a_part_is_not_there_is_an_error():
    first, second, third = Marker(7, Decision.about(2000, {task: prepared(task) for task in range(2000)})).as_offsets()
    for more in ([second, None], [second, Marker(6).as_offsets()[0]]):
        with pytest.raises(MarkerUnreadable, match="batch 7"):
            Marker.of(0, first, more)
    assert Marker.of(0, first, [second, third]).batch_id == 7


# --- the whole: crashes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_two_crashes_at_any_two_steps_do_no_harm(version, tasks):
    """Rows are spread otherwise in every run: no determinism is needed as long as nothing times out."""
    crashes = 0
    for first in range(STEP_LIMIT):
        for second in range(STEP_LIMIT):
            cluster, checkpoint = Cluster(version), [0]
            one = Run(cluster, checkpoint, 2, tasks=tasks, turn=0)
            went_on = all(one.step() for _ in range(first))
            two = Run(cluster, checkpoint, 2, tasks=tasks, turn=1)
            again = all(two.step() for _ in range(second))
            Run(cluster, checkpoint, 2, tasks=tasks, turn=2).finish()
            assert cluster.committed == expected(2), (first, second)
            assert checkpoint == [2]
            crashes += 1
            if not again:
                break
        if not went_on:
            break
    assert crashes > 100


@pytest.mark.parametrize("before", [1, 2, 3, 5])
@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_a_crash_and_another_number_of_tasks_do_no_harm(before, after):
    for steps in range(STEP_LIMIT):
        cluster, checkpoint = Cluster(), [0]
        one = Run(cluster, checkpoint, 2, tasks=before)
        went_on = all(one.step() for _ in range(steps))
        Run(cluster, checkpoint, 2, tasks=after, turn=1).finish()
        assert cluster.committed == expected(2), steps
        if not went_on:
            return
    raise AssertionError("the run has more steps than the test makes")


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_transaction_that_times_out_after_a_crash_is_written_again(lost):
    for steps in range(STEP_LIMIT):
        cluster, checkpoint = Cluster(), [0]
        one = Run(cluster, checkpoint, 2, tasks=3)
        went_on = all(one.step() for _ in range(steps))
        cluster.time_out(lost)
        Run(cluster, checkpoint, 2, tasks=3).finish()
        assert cluster.committed == expected(2), steps
        if not went_on:
            return


@pytest.mark.parametrize("layout", [(3, 2), (2, 3), (3, 1)])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_crash_a_time_out_and_another_number_of_tasks_are_told(layout, lost):
    refusals = 0
    for steps in range(STEP_LIMIT):
        cluster, checkpoint = Cluster(), [0]
        one = Run(cluster, checkpoint, 1, tasks=layout[0])
        went_on = all(one.step() for _ in range(steps))
        cluster.time_out(lost)
        two = Run(cluster, checkpoint, 1, tasks=layout[1])
        two.finish()
        assert max(cluster.committed.values(), default=0) <= 1
        assert cluster.committed == expected(1) or isinstance(two.error, LayoutChanged), steps
        if isinstance(two.error, LayoutChanged):
            refusals += 1
            Run(cluster, checkpoint, 1, tasks=layout[0]).finish()  # as the error says: the number it had
            assert cluster.committed == expected(1), steps
        if not went_on:
            break
    assert refusals > 0 or lost >= layout[0]


def test_a_time_out_before_the_end_is_an_error_and_a_repeated_batch_and_no_loss():
    """At every step of the driver, one transaction times out under its hands."""
    failures = 0
    for lost in range(3):
        for steps in range(STEP_LIMIT):
            cluster, checkpoint = Cluster(), [0]
            one = Run(cluster, checkpoint, 1, tasks=3)
            went_on = all(one.step() for _ in range(steps))
            cluster.time_out(lost)
            one.finish()
            failures += one.error is not None
            assert one.error is not None or cluster.committed == expected(1)
            Run(cluster, checkpoint, 1, tasks=3).finish()
            assert cluster.committed == expected(1), (lost, steps)
            if not went_on:
                break
    assert failures > 5


def test_a_twin_of_a_task_leaves_nothing():
    cluster = Cluster()
    Run(cluster, [0], 3, tasks=3, twins=lambda batch, task: (batch + task) % 2 == 0).finish()
    assert cluster.committed == expected(3)


@pytest.mark.parametrize("layout", [(1, 1), (2, 2), (1, 3), (3, 1), (3, 2)])
def test_an_old_driver_that_goes_on_at_any_moment_does_no_harm(layout):
    """Run one stops after some steps, run two makes some, then one goes on to its end, then two, then a third."""
    for first in range(40):
        for second in range(40):
            cluster, checkpoint = Cluster(), [0]
            one, two = (Run(cluster, checkpoint, 1, tasks=tasks) for tasks in layout)
            for _ in range(first):
                one.step()
            for _ in range(second):
                two.step()
            one.finish()
            two.finish()
            last = Run(cluster, checkpoint, 1, tasks=layout[1])
            last.finish()
            assert max(cluster.committed.values()) == 1
            assert cluster.committed == expected(1) or isinstance(last.error, LayoutChanged), (first, second)
            assert last.error is None or layout[0] != layout[1]


@pytest.mark.parametrize("tasks", [1, 2, 3])
@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_that_is_too_long_is_staged_by_the_next_run_and_two_crashes_do_no_harm(version, tasks):
    """A transaction of the first run times out at any step; the next run stages, and dies at any step, twice."""
    staged = 0
    for lost_at in range(STEP_LIMIT):
        cluster, checkpoint = Cluster(version), [0]
        one = Run(cluster, checkpoint, 1, tasks=tasks, is_late=True)
        all(one.step() for _ in range(lost_at))
        if 0 in cluster.markers:
            break  # decided: what times out from here on is written again as it was, without a detour
        cluster.time_out(tasks - 1)
        one.finish()
        if isinstance(one.error, TransactionLost):
            continue  # between its marker and the decision: what is lost is written again as it was
        story = len(cluster.story)
        for died_at in range(STEP_LIMIT):
            crashed, then = copy.deepcopy(cluster), [*checkpoint]
            two = Run(crashed, then, 1, tasks=tasks, turn=1, is_late=True)
            again = all(two.step() for _ in range(died_at))
            three = Run(crashed, then, 1, tasks=tasks, turn=2, is_late=True)
            for _ in range(died_at % 7):
                three.step()
            two.finish()  # a zombie goes on
            Run(crashed, then, 1, tasks=tasks, turn=0, is_late=True).finish()
            assert crashed.committed == expected(1), "\n".join(crashed.story)
            staged += any("CopyPart" in line for line in crashed.story[story:])
            if not again:
                break
    assert staged > 10


def test_a_batch_that_would_never_end_ends_in_the_run_after_the_failure():
    """Every transaction of the batch times out before its commit, however often it is repeated."""
    cluster, checkpoint = Cluster(), [0]
    errors = []
    for _ in range(2):
        run = Run(cluster, checkpoint, 1, tasks=3, is_late=True)
        while run.step():
            if any(each.is_open and each.rows for each in cluster.transactions.values()):
                for task in range(3):
                    cluster.time_out(task)
        errors.append(run.error)
    assert isinstance(errors[0], BatchTooLong)
    assert errors[1] is None
    assert (cluster.committed, cluster.staged) == (expected(1), {})


def test_a_task_whose_transaction_times_out_while_it_writes_sees_to_it_that_the_next_attempt_stages():
    said = task_steps(7, 1, NAMES, is_empty=False)
    before = {0: Marker(6, Decision.about(1, {0: prepared(0)})), 1: Marker(6)}
    answers = (before, None, {1: Marker(6)}, TimedOut("it was over"), prepared(0, 9, True), before, [prepared(0, 9)])
    with pytest.raises(BatchTooLong, match="task 1: it was over"):
        talk(said, *answers, None)


@pytest.mark.parametrize("marker", [Marker(7), Marker(8), Marker(6, None, 7)])
def test_a_batch_that_was_decided_or_noted_meanwhile_is_not_noted(marker):
    assert talk(note_too_long(7), prepared(0), {0: marker}) == [Claim(0), Look((0,), True), None]


def test_a_batch_is_not_decided_when_some_tasks_wrote_and_others_staged():
    results = [Staged(0, prepared(0), 1), Written(1, prepared(1), 1)]
    with pytest.raises(BatchNotCommitted, match="task 1"):
        talk(commit_steps(7, results, NAMES, 0.0))


def test_a_transaction_that_another_took_over_in_time_does_not_make_the_batch_staged():
    results = [Written(0, prepared(0), 1, ends_s=100.0), Written(1, prepared(1), 1, ends_s=100.0)]
    with pytest.raises(BatchNotCommitted):
        talk(commit_steps(7, results, NAMES, 99.0), [prepared(0), ProducerFenced()])
    with pytest.raises(BatchTooLong):
        talk(commit_steps(7, results, NAMES, 100.0), [prepared(0), ProducerFenced()], prepared(0), {0: Marker(7)})


@given(some.data())
def test_no_mixture_of_drivers_time_outs_and_layouts_doubles_a_row_or_loses_one_in_silence(data):
    cluster, checkpoint = Cluster(data.draw(some.sampled_from([1, 2]))), [0]
    layouts = data.draw(some.lists(some.integers(1, 3), min_size=1, max_size=2))
    runs: list[Run] = []
    for _ in range(data.draw(some.integers(0, 60))):
        move = data.draw(some.integers(0, 9))
        if move == 0 or not runs:
            layout = data.draw(some.sampled_from(layouts))
            runs.append(Run(cluster, checkpoint, 3, tasks=layout, is_late=data.draw(some.booleans())))
        elif move == 1:
            cluster.time_out(data.draw(some.integers(0, 2)))
        else:
            chosen = data.draw(some.sampled_from(runs))
            for _ in range(data.draw(some.integers(1, 5))):
                chosen.step()
        assert max(cluster.committed.values(), default=0) <= 1, "\n".join(cluster.story)
    for run in runs:
        if data.draw(some.booleans()):
            run.finish()
    last = Run(cluster, checkpoint, 3, tasks=layouts[0], is_late=data.draw(some.booleans()))
    last.finish()
    assert max(cluster.committed.values(), default=0) <= 1, "\n".join(cluster.story)
    if last.error is None:
        assert cluster.committed == expected(3)
    else:
        assert isinstance(last.error, FINAL), "\n".join([*cluster.story, str(last.error)])
        assert len(set(layouts)) > 1
