"""The sink's own methods on a real broker that dies, with twins, zombies, old drivers and time-outs; no JVM.

`Query` does what Spark does for one batch: write() for each task, then commit() with what they told.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

pyarrow = pytest.importorskip("pyarrow", reason="needs PyArrow: pip install 'ottla[arrow]'")
pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from tests.conformance.our_broker import BrokerProcess  # noqa: E402
from tests.spark.sink_queries import ROWS, SCHEMA, SHORT, Query, arrow, rows_of, wait_until_aborted  # noqa: E402
from tests.spark.test_sink_kills import committed  # noqa: E402

from ottla import Admin, NewTopic  # noqa: E402
from ottla.spark.sink.clients import PRODUCER_LIMIT, close_sink_clients, sink_clients  # noqa: E402
from ottla.spark.sink.coordinator_calls import MarkerTopicUnfit  # noqa: E402
from ottla.spark.sink.numbered_writer import batch_sink  # noqa: E402
from ottla.spark.sink.signals import WorkerEnded  # noqa: E402
from ottla.spark.sink.step_kinds import (  # noqa: E402
    AddMarker,
    BatchNotCommitted,
    BatchSuperseded,
    BatchTooLong,
    End,
    Finished,
    Staged,
    TakeOver,
    TransactionLost,
    Write,
    Written,
)
from ottla.spark.sink.steps import TaskFenced, TransactionTimeoutRefused  # noqa: E402
from ottla.spark.sink.stream_writer import BatchForgotten, NotInAQuery, StreamSink, checkpoint_query_id  # noqa: E402
from ottla.spark.sink.writer import BatchSink, JobNotCommitted  # noqa: E402
from ottla.testing import KafkaBroker  # noqa: E402


@pytest.fixture(scope="module")
def server() -> Iterator[KafkaBroker]:
    with KafkaBroker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": 20}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_clients_left() -> Iterator[None]:
    yield
    close_sink_clients()


# --- the broker dies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [TakeOver, Write, AddMarker, End])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_broker_that_is_killed_and_comes_back_costs_nothing_but_time(tmp_path, unique_topic, moment, is_done):
    with BrokerProcess(tmp_path) as broker:
        deaths = []

        class Deadly(StreamSink):
            def passing(self, step: Any, has_happened: bool) -> None:
                if isinstance(step, moment) and has_happened == is_done and not deaths:
                    deaths.append(step)
                    broker.kill()
                    broker.start()

        query = Query(broker, unique_topic, Deadly)
        query.run(0)
        query.run(1)
        assert deaths
        query.check(2)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_broker_that_is_restarted_while_rows_are_written_loses_none(tmp_path, unique_topic, end):
    with BrokerProcess(tmp_path) as broker:
        query = Query(broker, unique_topic)
        query.run(0)

        def slowly() -> Iterator[Any]:
            values = rows_of(1, 0)
            yield arrow(values[:3])
            getattr(broker, end)()
            broker.start()
            yield arrow(values[3:])

        query.sink().commit([query.write(1, 0, slowly()), query.write(1, 1)], 1)
        query.check(2)


# --- twins and zombies ------------------------------------------------------------------------------------------------


def test_a_twin_takes_over_and_the_first_attempt_is_fenced(server, unique_topic):
    query = Query(server, unique_topic)

    def until_the_twin_has_written() -> Iterator[Any]:
        values = rows_of(0, 1)
        yield arrow(values[:3])
        close_sink_clients()  # the twin runs in another process: it has clients of its own
        twins.append(query.write(0, 1))
        yield arrow(values[3:])

    twins: list[Any] = []
    first = query.write(0, 0)
    sink = query.sink()
    with pytest.raises(Exception):  # noqa: B017  # its producer was closed under its hands, or fenced
        sink.write_task(unique_topic, 0, 1, until_the_twin_has_written())
    query.sink().commit([first, *twins], 0)
    query.check(1)


def test_a_zombie_that_was_fenced_is_told_so(server, unique_topic):
    query = Query(server, unique_topic)
    sink = query.sink()
    clients = sink_clients(sink.options)

    def taken_over_meanwhile() -> Iterator[Any]:
        values = rows_of(0, 0)
        yield arrow(values[:3])
        clients.run(clients.admin.fence_producers([f"ottla-spark-{unique_topic}-0"]))
        yield arrow(values[3:])

    with pytest.raises(TaskFenced, match="another attempt"):
        sink.write_task(unique_topic, 0, 0, taken_over_meanwhile())
    query.run(0)
    query.check(1)


def test_a_twin_that_comes_after_the_first_attempt_has_finished_stops_the_batch_before_it_counts(server, unique_topic):
    query = Query(server, unique_topic)
    messages = [query.write(0, 0), query.write(0, 1)]
    query.write(0, 1)
    with pytest.raises(BatchNotCommitted, match="task 1"):
        query.sink().commit(messages, 0)
    query.sink().abort(messages, 0)
    query.run(0)
    query.check(1)


def test_the_late_word_of_an_old_driver_changes_nothing(server, unique_topic):
    query = Query(server, unique_topic)
    old = [query.write(0, 0), query.write(0, 1)]
    query.run(0)
    with pytest.raises(BatchNotCommitted):
        query.sink().commit(old, 0)
    query.sink().abort(old, 0)
    query.run(1)
    with pytest.raises(BatchNotCommitted):
        query.sink().commit(old, 0)
    query.check(2)


def test_a_batch_that_was_committed_is_not_written_again(server, unique_topic):
    query = Query(server, unique_topic)
    query.run(0)
    messages = query.run(0)
    assert [type(message.result) for message in messages] == [Finished, Finished]
    assert query.run(0, tasks=1)[0].result == Finished(0)
    query.run(1)
    query.check(2)


# --- time-outs --------------------------------------------------------------------------------------------------------


def test_a_time_out_before_the_end_is_an_error_and_a_repeated_batch(server, unique_topic):
    query = Query(server, unique_topic, **SHORT)
    messages = [query.write(0, 0), query.write(0, 1)]
    for task in range(2):
        wait_until_aborted(server, f"ottla-spark-{unique_topic}-{task}")
    with pytest.raises(BatchTooLong, match=r"longer than its transactions may stay open .*transaction\.timeout\.ms"):
        query.sink().commit(messages, 0)
    again = query.run(0)
    assert [type(message.result) for message in again] == [Staged, Staged]
    query.check(1)


def test_a_time_out_between_the_decision_and_an_end_is_an_error_and_only_that_task_writes_again(server, unique_topic):
    class Slow(StreamSink):
        def passing(self, step: Any, is_done: bool) -> None:
            if isinstance(step, End) and step.task == 0 and is_done:
                clients = sink_clients(self.options)
                name = f"ottla-spark-{unique_topic}-1"
                with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
                    admin.fence_producers([name])  # what a time-out does, without the wait
                assert clients is sink_clients(self.options)

    query = Query(server, unique_topic, Slow)
    messages = [query.write(0, 0), query.write(0, 1)]
    with pytest.raises(TransactionLost, match="task 1"):
        query.sink().commit(messages, 0)
    query.sink().abort(messages, 0)
    query.sink_class = StreamSink
    again = query.run(0)
    assert [type(message.result) for message in again] == [Finished, Written]
    query.check(1)


def test_a_time_out_that_brokers_do_not_allow_is_told_before_a_record(server, unique_topic):
    query = Query(server, unique_topic, **{"kafka.transaction.timeout.ms": "3600000"})
    with pytest.raises(TransactionTimeoutRefused, match=r"transaction\.timeout\.ms=3600000"):
        query.write(0, 0)


@pytest.mark.parametrize(("days", "is_known"), [(8, False), (8, True), (6, False)])
def test_a_batch_that_was_planned_before_its_markers_were_forgotten_is_not_written_without_a_word(
    server, unique_topic, tmp_path, days, is_known
):
    query = Query(server, unique_topic, checkpointLocation=str(tmp_path))
    batch = 1 if is_known else 0
    if is_known:
        query.run(0)
    (tmp_path / "offsets").mkdir()
    plan = tmp_path / "offsets" / str(batch)
    plan.write_text("v1")
    os.utime(plan, (0, time.time() - days * 24 * 3600))
    if days > 7 and not is_known:
        messages = [query.write(batch, task) for task in range(2)]
        with pytest.raises(BatchForgotten, match=r"offsets/0"):
            query.sink().commit(messages, batch)
        query.sink().abort(messages, batch)
        plan.touch()  # as the error says
    query.run(batch)
    query.check(batch + 1)


# --- a job ------------------------------------------------------------------------------------------------------------


def job(broker: Any, topic: str, **options: str) -> BatchSink:
    return BatchSink({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, **options}, SCHEMA)


def test_a_job_commits_the_attempts_that_spark_chose_and_aborts_the_others(server, unique_topic):
    query = Query(server, unique_topic)
    sink = job(server, unique_topic)
    chosen = [
        sink.write_task(task, attempt, iter([arrow(rows_of(0, task))])) for task, attempt in [(0, 0), (1, 0), (1, 1)]
    ]
    sink.commit([chosen[0], chosen[2]])
    query.check(1)
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        assert [
            each for each in admin.list_transactions(states=["Ongoing"]) if each.transactional_id in sink.job_prefix
        ] == []


def test_a_job_whose_transaction_timed_out_commits_nothing(server, unique_topic):
    sink = job(server, unique_topic, **SHORT)
    Query(server, unique_topic)
    messages = [sink.write_task(task, 0, iter([arrow(rows_of(0, task))])) for task in range(2)]
    wait_until_aborted(server, f"{sink.job_prefix}1-0")
    with pytest.raises(JobNotCommitted):
        sink.commit(messages)
    sink.abort(messages)
    assert committed(server, unique_topic, 0) == Counter()


def still_open(broker: Any, part: str) -> list[str]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        listed = admin.list_transactions(states=["Ongoing"])
    return [each.transactional_id for each in listed if part in each.transactional_id]


def test_a_run_of_a_job_aborts_what_a_killed_run_of_that_name_left(server, unique_topic):
    query = Query(server, unique_topic)
    options = {**query.options, "jobName": unique_topic}
    other = batch_sink({**options, "jobName": f"{unique_topic}-other"}, SCHEMA)
    other.write_task(0, 0, iter([arrow(["not ours"])]))
    killed = batch_sink(options, SCHEMA)
    messages = [killed.write_task(task, 0, iter([arrow(rows_of(0, task))])) for task in range(2)]
    close_sink_clients()
    again = batch_sink(options, SCHEMA)
    assert still_open(server, unique_topic) == [f"{other.job_prefix}0-0"]
    with pytest.raises(JobNotCommitted):
        killed.commit(messages)  # the old driver was not dead after all
    again.commit([again.write_task(task, 0, iter([arrow(rows_of(0, task))])) for task in range(2)])
    other.abort([])
    query.check(1)


def test_a_job_whose_driver_dies_between_two_ends_leaves_a_part_and_its_next_run_writes_that_again(
    server, unique_topic
):
    """What docs/spark.md tells of df.write without a batchId; a batchId closes the gap (below)."""
    query = Query(server, unique_topic)
    options = {**query.options, "jobName": unique_topic}
    killed = batch_sink(options, SCHEMA)
    messages = [killed.write_task(task, 0, iter([arrow(rows_of(0, task))])) for task in range(2)]
    clients = sink_clients(killed.options)
    clients.run(clients.admin.end_transaction(messages[0].prepared, commit=True))  # the last thing that the driver did
    close_sink_clients()
    again = batch_sink(options, SCHEMA)
    again.commit([again.write_task(task, 0, iter([arrow(rows_of(0, task))])) for task in range(2)])
    first, second = Counter(rows_of(0, 0)), Counter(rows_of(0, 1))
    assert committed(server, unique_topic, 3 * ROWS) == first + first + second


# --- a job with numbered batches --------------------------------------------------------------------------------------


def numbered(query: Query, batch: int) -> Any:
    return batch_sink({**query.options, "jobName": query.topic, "batchId": str(batch)}, SCHEMA)


def write_numbered(query: Query, batch: int, tasks: int = 2) -> list[Any]:
    sink = numbered(query, batch)
    return [sink.write_task(sink.query_id, batch, task, iter([arrow(rows_of(batch, task))])) for task in range(tasks)]


def test_a_numbered_batch_is_written_once_however_often_it_is_tried(server, unique_topic):
    query = Query(server, unique_topic)
    write_numbered(query, 0)  # killed before its commit
    for _ in range(2):  # killed after it, so that foreachBatch calls again
        numbered(query, 0).commit(write_numbered(query, 0))
    numbered(query, 1).commit(write_numbered(query, 1))
    query.check(2)
    with pytest.raises(BatchSuperseded):
        write_numbered(query, 0)


def test_a_numbered_batch_that_was_decided_is_finished_by_the_next_run(server, unique_topic):
    query = Query(server, unique_topic)

    class Killed(Exception):
        pass

    def die(step: Any, is_done: bool) -> None:
        if isinstance(step, End) and step.task == 0 and is_done:
            raise Killed

    sink = numbered(query, 0)
    sink.passing = die
    with pytest.raises(Killed):
        sink.commit(write_numbered(query, 0))
    assert still_open(server, unique_topic) == [f"ottla-spark-{unique_topic}-batches-1"]
    numbered(query, 0).commit(write_numbered(query, 0))
    query.check(1)


# --- a batch is given up ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finished", [[], [0], [1], [0, 1]])
def test_nothing_stays_open_of_a_batch_that_was_given_up_whichever_tasks_were_killed(server, unique_topic, finished):
    query = Query(server, unique_topic)
    messages = [query.write(0, task) for task in range(2)]
    sink = query.sink()
    sink.abort_batch(unique_topic, [each if task in finished else None for task, each in enumerate(messages)], 0)
    assert still_open(server, unique_topic) == []
    query.run(0)
    query.check(1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_worker_that_is_ended_by_a_signal_leaves_nothing_open(server, unique_topic, number):
    query = Query(server, unique_topic)
    before = signal.getsignal(number)

    def batches() -> Iterator[Any]:
        yield arrow(rows_of(0, 0))
        sink_clients(query.sink().options).producer(f"ottla-spark-{unique_topic}-0").flush()
        assert still_open(server, unique_topic) != []
        signal.raise_signal(number)
        yield arrow(rows_of(0, 1))

    with pytest.raises(WorkerEnded):
        query.write(0, 0, batches())
    assert still_open(server, unique_topic) == []
    assert signal.getsignal(number) is before


def test_a_decided_batch_is_not_given_up(server, unique_topic):
    query = Query(server, unique_topic)
    query.run(0)
    query.sink().abort_batch(unique_topic, [None, None], 0)
    query.check(1)


def test_the_query_of_an_abort_without_messages_is_in_its_checkpoint(server, unique_topic, tmp_path):
    query = Query(server, unique_topic, checkpointLocation=tmp_path.as_uri())
    query.write(0, 0)
    query.sink().abort([None], 0)  # no checkpoint yet
    assert still_open(server, unique_topic) != []
    (tmp_path / "metadata").write_text(json.dumps({"id": unique_topic}))
    query.sink().abort([None], 0)
    assert still_open(server, unique_topic) == []
    assert checkpoint_query_id("hdfs://somewhere/else") is None


# --- clients ----------------------------------------------------------------------------------------------------------


def test_producers_are_kept_from_batch_to_batch_and_their_epochs_rise(server, unique_topic):
    query = Query(server, unique_topic)
    clients = sink_clients(query.sink().options)
    kept = set()
    epochs = []
    for batch in range(3):
        epochs.append(query.run(batch)[0].result.prepared.producer_epoch)
        kept.add(clients.producer(f"ottla-spark-{unique_topic}-0"))
    assert len(kept) == 1
    assert epochs == sorted(set(epochs))
    query.check(3)


def test_a_task_that_ends_between_taking_over_and_writing_does_not_spoil_the_next(server, unique_topic):
    class Failing(StreamSink):
        def passing(self, step: Any, is_done: bool) -> None:
            if isinstance(step, TakeOver) and is_done:
                raise RuntimeError("the worker was interrupted")

    query = Query(server, unique_topic, Failing)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            query.write(0, 0)
    query.sink_class = StreamSink
    query.run(0)
    query.check(1)


def test_a_producer_that_makes_room_leaves_its_prepared_transaction_alone(server, unique_topic):
    query = Query(server, unique_topic)
    tasks = PRODUCER_LIMIT + 2
    query.run(0, tasks=tasks)
    query.check(1, tasks=tasks)


@pytest.mark.parametrize("tasks", [3, 20])
def test_what_a_larger_run_left_open_does_not_hold_back_readers(server, unique_topic, tasks):
    query = Query(server, unique_topic)
    for task in range(tasks):
        query.write(0, task)
    close_sink_clients()  # the driver is gone, and so is what it knew
    query.run(0)
    query.check(1)
    query.write(1, tasks - 1)  # a zombie of the larger run
    query.run(1)
    query.check(2)


def test_many_tasks_have_markers_in_further_groups(server, unique_topic):
    query = Query(server, unique_topic)
    query.run(0, tasks=18)
    again = query.run(0, tasks=18)
    assert {type(message.result) for message in again} == {Finished}
    query.check(1, tasks=18)


def test_a_marker_topic_that_is_too_small_is_refused(server, unique_topic):
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("small", 2)])
    query = Query(server, unique_topic, markerTopic="small")
    with pytest.raises(MarkerTopicUnfit, match="small has 2 partitions, 16 are needed"):
        query.run(0)


def test_a_batch_without_rows_writes_nothing_and_is_committed(server, unique_topic):
    query = Query(server, unique_topic)
    messages = [query.write(0, task, []) for task in range(2)]
    query.sink().commit(messages, 0)
    query.sink().commit([], 1)
    query.run(0)
    query.check(1)


def test_the_stream_sink_outside_a_query_says_so(server, unique_topic):
    with pytest.raises(NotInAQuery):
        Query(server, unique_topic).sink().write(iter([]))


def test_rows_that_cannot_be_sent_fail_the_task_and_leave_nothing_open(server, unique_topic):
    query = Query(server, unique_topic)
    with pytest.raises(Exception, match=r"too large|larger"):
        query.write(0, 0, [arrow(["x" * 3_000_000])])
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        still_open = [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]
    assert f"ottla-spark-{unique_topic}-0" not in still_open
