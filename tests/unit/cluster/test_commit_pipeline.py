"""Decisions on what is not committed yet, beside a model that has no pipeline: it keeps the whole history."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.cluster.store.pipeline import CommitPipeline, PipelineFull

LIMIT = 4


def begun(pipeline: CommitPipeline[str, str], *names: str) -> list[int]:
    """Decisions that each add their name to the image."""
    return [pipeline.begin(pipeline.newest + name, name) for name in names]


def test_the_next_decision_is_made_on_the_one_that_is_on_its_way() -> None:
    pipeline: CommitPipeline[str, str] = CommitPipeline("")
    begun(pipeline, "a", "b")
    assert (pipeline.newest, pipeline.image, pipeline.pending_count) == ("ab", "", 2)


def test_an_answer_goes_out_when_its_own_commit_is_true_and_not_before() -> None:
    pipeline: CommitPipeline[str, str] = CommitPipeline("")
    first, second, third = begun(pipeline, "a", "b", "c")
    assert pipeline.committed(first) == ["a"]
    assert pipeline.image == "a"
    assert pipeline.committed(third) == ["b", "c"]
    assert pipeline.committed(second) == []


def test_a_commit_that_fails_in_the_middle_takes_with_it_what_was_built_upon_it() -> None:
    pipeline: CommitPipeline[str, str] = CommitPipeline("")
    first, second, _ = begun(pipeline, "a", "b", "c")
    assert pipeline.failed(second) == ["b", "c"]
    assert pipeline.newest == "a"
    (again,) = begun(pipeline, "d")
    assert pipeline.committed(again) == ["a", "d"]
    assert (pipeline.image, first < second < again) == ("ad", True)


def test_what_is_heard_later_of_a_dropped_commit_changes_nothing() -> None:
    pipeline: CommitPipeline[str, str] = CommitPipeline("")
    first, second, third = begun(pipeline, "a", "b", "c")
    pipeline.failed(second)
    assert pipeline.failed(third) == []
    assert pipeline.pending_count == 1
    assert pipeline.committed(first) == ["a"]


def test_an_answer_that_changes_nothing_waits_for_what_it_saw() -> None:
    pipeline: CommitPipeline[str, str] = CommitPipeline("")
    assert pipeline.seen("at once") == ["at once"]
    (first,) = begun(pipeline, "a")
    assert pipeline.seen("there is an a") == []
    (second,) = begun(pipeline, "b")
    assert pipeline.seen("there is a b") == []
    assert pipeline.committed(first) == ["a", "there is an a"]
    assert pipeline.failed(second) == ["b", "there is a b"]


def test_so_many_are_on_their_way_and_no_more() -> None:
    pipeline: CommitPipeline[str, str] = CommitPipeline("", limit=2)
    first, _ = begun(pipeline, "a", "b")
    assert not pipeline.has_room
    with pytest.raises(PipelineFull, match="2 may be"):
        pipeline.begin("abc", "c")
    pipeline.committed(first)
    assert pipeline.has_room
    pipeline.seen("1")
    pipeline.seen("2")
    assert not pipeline.has_room
    with pytest.raises(PipelineFull):
        pipeline.seen("3")


class AnyOrder(RuleBasedStateMachine):
    """The model: a list of all decisions that are not refused, as (number or None, name), and how many are true."""

    def __init__(self) -> None:
        super().__init__()
        self.pipeline: CommitPipeline[tuple[int, ...], int] = CommitPipeline((), limit=LIMIT)
        self.truth: list[int] = []
        self.waiting: list[tuple[int, int, bool]] = []  # commit it waits for, reply, whether it is that commit's own
        self.numbers: list[int] = []
        self.replies = 0

    @precondition(lambda self: self.pipeline.has_room)
    @rule()
    def begin(self) -> None:
        self.replies += 1
        number = self.pipeline.begin((*self.pipeline.newest, self.replies), self.replies)
        assert all(number > before for before in self.numbers)
        self.numbers.append(number)
        self.waiting.append((number, self.replies, True))

    @precondition(lambda self: self.pipeline.has_room)
    @rule()
    def see(self) -> None:
        self.replies += 1
        out = self.pipeline.seen(self.replies)
        assert out == ([] if self.waiting else [self.replies])
        if self.waiting:
            self.waiting.append((self.waiting[-1][0], self.replies, False))

    @precondition(lambda self: self.numbers)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.numbers))
        done = [entry for entry in self.waiting if entry[0] <= number]
        self.waiting = [entry for entry in self.waiting if entry[0] > number]
        self.truth += [reply for _, reply, is_own in done if is_own]
        assert self.pipeline.committed(number) == [reply for _, reply, _ in done]

    @precondition(lambda self: self.numbers)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.numbers))
        dropped = [reply for at, reply, _ in self.waiting if at >= number]
        self.waiting = [entry for entry in self.waiting if entry[0] < number]
        assert self.pipeline.failed(number) == dropped

    @invariant()
    def images_are_what_was_decided(self) -> None:
        assert self.pipeline.image == tuple(self.truth)
        assert self.pipeline.newest == (*self.truth, *(reply for _, reply, is_own in self.waiting if is_own))
        assert self.pipeline.pending_count == len({at for at, _, _ in self.waiting}) <= LIMIT


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(deadline=None)
