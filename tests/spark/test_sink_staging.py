"""Batches that take longer than their transactions may stay open, on a real broker: they end, each row once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

pyarrow = pytest.importorskip("pyarrow", reason="needs PyArrow: pip install 'ottla[arrow]'")
pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from tests.patience import wait_until  # noqa: E402
from tests.spark.sink_queries import SHORT, Query, arrow, rows_of, wait_until_aborted  # noqa: E402
from tests.spark.test_sink_kills import committed  # noqa: E402

from ottla import Admin  # noqa: E402
from ottla.spark.sink import staging_topic  # noqa: E402
from ottla.spark.sink.clients import close_sink_clients  # noqa: E402
from ottla.spark.sink.markers import Decision, Marker  # noqa: E402
from ottla.spark.sink.step_kinds import (  # noqa: E402
    AddMarker,
    BatchTooLong,
    BeginCopy,
    Clear,
    CopyPart,
    End,
    Finished,
    Look,
    Stage,
    Staged,
    StagedRowsLost,
    Together,
)
from ottla.spark.sink.stream_writer import StreamSink  # noqa: E402
from ottla.testing import KafkaBroker  # noqa: E402


@pytest.fixture(scope="module")
def server() -> Iterator[KafkaBroker]:
    with KafkaBroker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": 20}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_clients_left() -> Iterator[None]:
    yield
    close_sink_clients()


TIMEOUT_S = int(SHORT["kafka.transaction.timeout.ms"]) / 1000


class Crash(Exception):
    """The driver died here."""


def too_long(query: Query, batch: int = 0, tasks: int = 2) -> None:
    """A first attempt, whose transactions time out before the commit."""
    messages = [query.write(batch, task) for task in range(tasks)]
    for task in range(tasks):
        wait_until_aborted(query.broker, f"ottla-spark-{query.topic}-{task}")
    with pytest.raises(BatchTooLong):
        query.sink().commit(messages, batch)


def staging_topics(query: Query) -> list[str]:
    with Admin(bootstrap_servers=query.broker.bootstrap_servers) as admin:
        return sorted(name for name in admin.list_topics() if name.startswith("_ottla_spark_markers-"))


def test_a_batch_that_is_too_long_is_written_by_the_next_run_and_the_one_after_is_as_ever(server, unique_topic):
    query = Query(server, unique_topic, **SHORT)
    too_long(query)
    messages = query.run(0)
    assert [type(message.result) for message in messages] == [Staged, Staged]
    query.check(1)
    assert staging_topics(query) == []
    query.options |= {"kafka.transaction.timeout.ms": "60000"}
    assert not any(isinstance(message.result, Staged) for message in query.run(1))
    query.check(2)


def test_time_does_not_count_for_a_batch_that_is_staged(server, unique_topic):
    query = Query(server, unique_topic, **SHORT)
    too_long(query)
    messages = [query.write(0, 0), query.write(0, 1)]
    began_s = time.monotonic()
    wait_until(lambda: time.monotonic() - began_s > 2 * TIMEOUT_S, "more than the time-out")
    query.sink().commit(messages, 0)
    query.check(1)


def test_a_task_whose_transaction_times_out_while_it_writes_is_staged_by_the_next_attempt(server, unique_topic):
    query = Query(server, unique_topic, **SHORT)

    def slowly() -> Iterator[Any]:
        values = rows_of(0, 1)
        yield arrow(values[:3])
        wait_until_aborted(server, f"ottla-spark-{unique_topic}-1")
        yield arrow(values[3:])

    # The first record is sent before the wait: a batch of the producer is full, or lingers for no time.
    first = query.write(0, 0)
    with pytest.raises(BatchTooLong, match=r"task 1: its transaction was over after 0\.3 s"):
        query.write(0, 1, slowly())
    query.sink().abort([first, None], 0)
    query.run(0)
    query.check(1)


@pytest.mark.parametrize("moment", [Stage, End, BeginCopy, CopyPart, Clear])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_crash_at_any_moment_of_a_staged_batch_does_no_harm(server, unique_topic, moment, is_done, monkeypatch):
    monkeypatch.setattr(staging_topic, "PART_BYTES", 1)  # every piece is a part
    crashes: list[Any] = []

    class Mortal(StreamSink):
        def passing(self, step: Any, has_happened: bool) -> None:
            if isinstance(step, moment) and has_happened == is_done and len(crashes) < 2:
                crashes.append(step)
                raise Crash

    query = Query(server, unique_topic, **SHORT)
    too_long(query)
    query.sink_class = Mortal
    for _ in range(2):
        with suppress(Crash):  # the second run may have nothing left of this kind to do
            query.run(0)
        close_sink_clients()  # the next run is another process
    assert crashes
    query.sink_class = StreamSink
    query.run(0)
    query.check(1)
    query.options |= {"kafka.transaction.timeout.ms": "60000"}
    query.run(1)
    query.check(2)
    assert staging_topics(query) == []


def test_attempts_that_died_are_not_copied_and_a_repetition_may_have_other_rows(server, unique_topic):
    query = Query(server, unique_topic, **SHORT)
    too_long(query, tasks=3)
    query.write(0, 0, [arrow(["dead"] * 10)])
    query.write(0, 2, [arrow(["dead"] * 10)])
    query.run(0)  # two tasks now
    query.check(1)


def test_a_repetition_after_the_decision_writes_nothing_and_copies_the_rest(server, unique_topic, monkeypatch):
    monkeypatch.setattr(staging_topic, "PART_BYTES", 1)
    query = Query(server, unique_topic, **SHORT)
    too_long(query)

    class DiesAfterOnePart(StreamSink):
        def passing(self, step: Any, is_done: bool) -> None:
            if isinstance(step, CopyPart) and is_done:
                raise Crash

    query.sink_class = DiesAfterOnePart
    with pytest.raises(Crash):
        query.run(0)
    query.sink_class = StreamSink
    messages = [query.write(0, task, [arrow(["other rows"])]) for task in range(3)]
    assert all(isinstance(message.result, Finished) for message in messages)
    query.sink().commit(messages, 0)
    query.check(1)


def test_a_staging_topic_that_somebody_deletes_is_an_error_and_no_loss_in_silence(server, unique_topic):
    query = Query(server, unique_topic, **SHORT)
    too_long(query)
    messages = [query.write(0, 0), query.write(0, 1)]

    class Deleted(StreamSink):
        def passing(self, step: Any, is_done: bool) -> None:
            if isinstance(step, CopyPart) and not is_done:
                with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
                    admin.delete_topics(staging_topics(query))

    query.sink_class = Deleted
    with pytest.raises(StagedRowsLost, match="Was the topic deleted"):
        query.sink().commit(messages, 0)
    query.sink_class = StreamSink
    with pytest.raises(StagedRowsLost):
        query.run(0)


def test_rows_that_are_larger_than_a_piece_are_cut_and_those_larger_than_a_request_fail(server, unique_topic):
    query = Query(server, unique_topic, **SHORT)
    too_long(query)
    values = [f"{number}" * 1000 for number in range(2000)]
    messages = [query.write(0, 0, [arrow(values)]), query.write(0, 1, [])]
    query.sink().commit(messages, 0)
    assert committed(server, unique_topic, len(values)) == Counter(values)


def test_a_decision_about_many_tasks_is_kept_whole(server, unique_topic):
    """The list of 2,000 tasks goes on in further offsets, in the same transaction."""
    query = Query(server, unique_topic)
    query.run(0)
    actions = query.sink()._actions(unique_topic)
    decision = Decision(2_000, 2, {task: (100_000_000 + 7 * task, 3) for task in range(2_000)})
    prepared = query.write(1, 0).result.prepared
    (opened,) = actions.act(Together((AddMarker(0, prepared, Marker(1, decision)),)))
    assert actions.act(Look((0,), is_final=False))[0].batch_id == 0, "nothing of it counts before the end"
    assert actions.act(End(0, opened)) is None
    assert actions.act(Look((0,), is_final=True))[0] == Marker(1, decision)
