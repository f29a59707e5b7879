"""When a pipeline's process is started, stopped and started again."""

from ottla.spark.pipelines.serving.supervision import (
    BACK_OFF_MAX_S,
    HEALTHY_S,
    STOP_LIMIT_S,
    Action,
    Phase,
    Supervision,
)


def crashed(supervision, now_s, *, has_progress=False):
    """One start and one end, a second later; returns how long it waits then."""
    assert supervision.due(now_s) is Action.START
    supervision.ended(now_s + 1, has_progress=has_progress)
    assert supervision.phase is Phase.WAITING
    return supervision.start_at_s - now_s - 1


def test_it_is_started_once():
    supervision = Supervision()
    assert [supervision.due(now_s) for now_s in (0, 0.1, 50)] == [Action.START, None, None]
    assert supervision.phase is Phase.RUNNING


def test_each_failure_waits_twice_as_long_up_to_a_limit():
    supervision, now_s, waits = Supervision(), 0.0, []
    for _ in range(8):
        waits.append(crashed(supervision, now_s))
        assert supervision.due(supervision.start_at_s - 0.01) is None
        now_s = supervision.start_at_s
    assert waits == [1, 2, 4, 8, 16, 32, BACK_OFF_MAX_S, BACK_OFF_MAX_S]
    assert supervision.restarts == 8


def test_progress_forgives_the_failures_before():
    supervision = Supervision()
    for _ in range(4):
        crashed(supervision, supervision.start_at_s)
    assert crashed(supervision, supervision.start_at_s, has_progress=True) == 1


def test_so_does_a_long_life_without_work():
    supervision = Supervision()
    crashed(supervision, 0)
    assert supervision.due(10) is Action.START
    supervision.ended(10 + HEALTHY_S, has_progress=False)
    assert supervision.start_at_s == 10 + HEALTHY_S + 1


def test_a_stop_is_asked_once_and_then_it_is_over():
    supervision = Supervision()
    supervision.due(0)
    supervision.stop()
    assert [supervision.due(now_s) for now_s in (1, 2)] == [Action.STOP, None]
    supervision.ended(3, has_progress=False)
    assert supervision.is_over
    assert supervision.restarts == 0


def test_who_does_not_stop_is_killed_once():
    supervision = Supervision()
    supervision.due(0)
    supervision.stop()
    supervision.due(1)
    assert [supervision.due(1 + STOP_LIMIT_S + more) for more in (-0.1, 0, 1)] == [None, Action.KILL, None]


def test_a_stop_while_it_waits_starts_nothing():
    supervision = Supervision()
    crashed(supervision, 0)
    supervision.stop()
    assert supervision.due(100) is None
    assert supervision.is_over


def test_an_end_that_crosses_a_stop_is_the_end():
    supervision = Supervision()
    supervision.due(0)
    supervision.stop()
    supervision.ended(1, has_progress=False)
    assert supervision.is_over
