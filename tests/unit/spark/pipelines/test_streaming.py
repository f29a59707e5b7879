"""Flows as streaming queries: what happens when one of them ends or fails."""

import pytest

from ottla.spark.pipelines.declarative import PipelineFailed
from ottla.spark.pipelines.operations import Flow, Target
from ottla.spark.pipelines.plan import Plan
from ottla.spark.pipelines.streaming import RETRY_LIMIT, Queries

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")


class MadeUpQuery:
    """A query that ends as soon as it has begun, or runs until it is stopped."""

    def __init__(self, *, error=None, runs=False, progress=None):
        self.isActive = runs
        self.status = {"message": "Waiting for data"}
        self.lastProgress = progress
        self._error = error

    def exception(self):
        return self._error

    def stop(self):
        self.isActive = False


class MadeUpQueries(Queries):
    """The next query of a flow is the next one of its list."""

    def __init__(self, lives):
        plan = Plan("p", "/storage", (), (), {})
        super().__init__(plan, None, [Flow(name, "d", (), Target("x", {})) for name in lives], {}, self.note)
        self._lives = {name: list(queries) for name, queries in lives.items()}
        self.rests = 0

    def note(self, seconds):
        self.rests += 1

    def _started(self, flow):
        return self._lives[flow.name].pop(0)


def ran(queries, *, over_after=50):
    ended = {}
    looks = iter(range(over_after))
    queries.start()
    queries.wait(lambda seconds: next(looks, None) is None, ended.__setitem__)
    return ended


def test_a_run_ends_when_all_flows_have_ended():
    queries = MadeUpQueries({"a": [MadeUpQuery()], "b": [MadeUpQuery()]})
    assert ran(queries) == {"a": "completed", "b": "completed"}


def test_a_flow_that_fails_is_tried_again():
    queries = MadeUpQueries({"a": [MadeUpQuery(error="late"), MadeUpQuery(error="late"), MadeUpQuery()]})
    assert ran(queries) == {"a": "completed"}
    assert queries.rests == 2


def test_a_flow_that_fails_too_often_ends_the_run_with_its_error():
    lives = {"a": [MadeUpQuery(error="broken") for _ in range(RETRY_LIMIT + 1)], "b": [MadeUpQuery(runs=True)]}
    queries = MadeUpQueries(lives)
    with pytest.raises(PipelineFailed, match="a: broken"):
        ran(queries)
    queries.stop()
    assert not queries.queries["b"].isActive


def test_work_in_between_gives_a_flow_new_patience():
    failing = [MadeUpQuery(error="x", progress={"batchId": number}) for number in range(5)]
    assert ran(MadeUpQueries({"a": [*failing, MadeUpQuery()]})) == {"a": "completed"}


def test_somebody_may_end_it():
    queries = MadeUpQueries({"a": [MadeUpQuery(runs=True)]})
    assert ran(queries, over_after=3) == {}
