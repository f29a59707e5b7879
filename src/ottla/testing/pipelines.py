"""Pipelines in a test of Python: records in, rows out, on real Spark and without a broker.

    def test_clicks_are_named(pipeline_test):
        outcome = pipeline_test("pipeline.yml", {"clicks": [{"value": {"user": "ada"}}]}, rows_of=["named"])
        assert [row["title"] for row in outcome["named"]] == ["Start"]
        assert not outcome.dead_letters

1. All tests share one Spark: the session that the process has, else one that is made for the first of them.
2. What is given and what comes out is as in the YAML of `ottla pipeline test` (ottla/spark/pipelines/testing/).
3. `run_file` runs such a file, one test after the other, and fails with what differs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipelines.definition import Pipeline
    from ottla.spark.pipelines.running import Loaded
    from ottla.spark.pipelines.testing.trying import Outcome

SERVERS: Final = "nobody:9092"
"""Plans name brokers; a test asks none."""


class PipelineTest:
    """What the fixture pipeline_test is: a call runs a pipeline on what is given."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._session: SparkSession | None = None

    def __enter__(self) -> PipelineTest:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._open.close()

    def __call__(
        self,
        pipeline: str | os.PathLike[str] | Pipeline,
        inputs: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        rows_of: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run all sinks on what is given: rows by source, or several batches of them. `rows_of` names sources and steps
        whose rows are wanted, too."""
        from ottla.spark.pipelines.testing.cases import Given
        from ottla.spark.pipelines.testing.trying import try_plan

        loaded = _loaded(pipeline, environment)
        batches = [inputs] if isinstance(inputs, Mapping) else inputs
        wrapped = [{name: Given(rows) for name, rows in batch.items()} for batch in batches]
        wanted = {*loaded.graph.pipeline.sinks, *rows_of}
        return try_plan(self._spark(), loaded.plan(SERVERS), loaded.graph, wrapped, wanted)

    def run_file(self, tests: str | os.PathLike[str], pipeline: str | os.PathLike[str]) -> None:
        """Run the tests of a YAML file; AssertionError lists what is not as they say."""
        from ottla.spark.pipelines.testing.judging import run_case
        from ottla.spark.pipelines.testing.yaml_tests import open_test_file, read_cases

        loaded = _loaded(pipeline, None)
        cases = read_cases(open_test_file(Path(tests)), loaded.graph.pipeline)
        verdicts = [run_case(self._spark(), loaded.plan(SERVERS), loaded.graph, case) for case in cases]
        report = "\n".join(verdict.text() for verdict in verdicts if not verdict.passed)
        if report:
            raise AssertionError(report)

    def _spark(self) -> SparkSession:
        if self._session is None:
            self._session = _active_session() or self._open.enter_context(_own_session())
        return self._session


def _loaded(pipeline: str | os.PathLike[str] | Pipeline, environment: Mapping[str, str] | None) -> Loaded:
    from ottla.spark.pipelines.checks import checked
    from ottla.spark.pipelines.definition import Pipeline
    from ottla.spark.pipelines.running import Loaded, find_file, load

    if isinstance(pipeline, Pipeline):
        here = Path.cwd() / "pipeline.py"
        return Loaded(here, checked(pipeline, here.parent, {}, pipeline.name), {})
    return load(find_file(Path(pipeline), Path.cwd()), os.environ if environment is None else environment)


def _active_session() -> SparkSession | None:
    """The session of a suite that tests other things with Spark, too."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _own_session() -> Any:
    from ottla.spark.pipelines.connecting import open_session
    from ottla.spark.pipelines.testing.trying import SESSION
    from ottla.spark.running.session import prefer_quick_start

    prefer_quick_start()
    return open_session("ottla-test", master="local[2]", settings=SESSION)
