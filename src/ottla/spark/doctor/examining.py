"""Runs the doctor's tasks on a session, and gathers what they say.

    for finding in examine_spark(spark, {"bootstrap.servers": "broker:9092"}): ...
    check_executors(spark)            raises ExecutorsUnfit where no task of ours can run

1. Tasks are those of format("ottla-doctor"): found, planned and run by Spark as those of format("ottla").
2. A cluster may have no room for a task for a long time. `check_executors` waits CHECK_LIMIT_S and then goes on with a
   warning; nothing is known to be wrong.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ottla.client.diagnosis import Finding
from ottla.errors import OttlaError
from ottla.spark.doctor.facts import Facts, collect_facts, missing_for_pipelines
from ottla.spark.doctor.judging import (
    explain,
    judge_brokers,
    judge_driver,
    judge_executors,
    judge_pipelines,
    judge_settings,
)
from ottla.spark.doctor.source import CLIENT_PREFIX, NAME, TASKS
from ottla.spark.running.interpreters import EXECUTOR_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

CHECK_LIMIT_S: Final = 120.0
FAILURES: Final = (PySparkException, Py4JError)
"""Jobs that fail raise either: PySpark translates some of Java's errors, and leaves others as they are."""
SETTINGS_ASKED: Final = (
    "spark.python.unix.domain.socket.enabled",
    "spark.sql.execution.arrow.maxBytesPerBatch",
    "spark.speculation",
)


class ExecutorsUnfit(OttlaError):
    """Tasks of format("ottla") cannot run on the executors of this session."""

    invalid_configuration = True


def examine_spark(
    spark: SparkSession, client: Mapping[str, object], tasks: int = 8, *, is_remote: bool = False
) -> list[Finding]:
    """Everything that can be said of this session; `client` names the brokers to try, if any.
    `is_remote`: this process only speaks with a Connect server, whose driver is not asked by itself."""
    here = collect_facts({} if is_remote else client)
    asked = "" if is_remote else _asked_python()
    findings = judge_driver(here, "client" if is_remote else "driver")
    findings += judge_pipelines(missing_for_pipelines()) + judge_settings(_settings(spark))
    try:
        found = ask_tasks(spark, tasks, client)
    except FAILURES as error:
        cause = explain(_text(error), asked)
        return [*findings, Finding("executors", "failed", cause.what, cause.remedy), *judge_brokers(here, [])]
    executors = judge_executors(found[0] if is_remote else here, found, asked)
    return findings + executors + judge_brokers(here, found)


def ask_tasks(spark: SparkSession, tasks: int, client: Mapping[str, object]) -> list[Facts]:
    """What so many tasks say of the processes that they run in."""
    options = {f"{CLIENT_PREFIX}{name}": str(value) for name, value in client.items()}
    rows = spark.read.format(NAME).option(TASKS, tasks).options(**options).load().collect()
    return [Facts(*row) for row in rows]


def check_executors(spark: SparkSession, limit_s: float = CHECK_LIMIT_S) -> None:
    """Raise the sentence that tells what to set, if tasks of ours cannot run."""
    context = spark.sparkContext
    group, is_late = f"ottla-check-{uuid.uuid4().hex}", threading.Event()

    def give_up() -> None:
        is_late.set()
        context.cancelJobGroup(group)

    timer = threading.Timer(limit_s, give_up)
    timer.daemon = True
    context.setJobGroup(group, "ottla: can tasks of format('ottla') run?")
    timer.start()
    try:
        ask_tasks(spark, 1, {})
    except FAILURES as error:
        if is_late.is_set():
            log.warning("no executor took a task within %.0f s, so it is not known whether they have ottla", limit_s)
            return
        cause = explain(_text(error), _asked_python())
        raise ExecutorsUnfit(f"{cause.what}. {cause.remedy}".strip()) from None
    finally:
        timer.cancel()
        _forget_group(context)


def _forget_group(context: Any) -> None:
    for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
        context.setLocalProperty(name, None)


def _asked_python() -> str:
    """The Python that executors were to have: what the user said, or this one (session.py sees to that)."""
    return os.environ.get(EXECUTOR_VARIABLE, "")


def _settings(spark: SparkSession) -> dict[str, str]:
    return {name: str(value) for name in SETTINGS_ASKED if (value := spark.conf.get(name, None)) is not None}


def _text(error: BaseException) -> str:
    """All that Spark says, with the texts of its causes: "Cannot run program" stands in the last one."""
    get = getattr(error, "getMessage", None)
    return f"{get() if callable(get) else ''}\n{error}\n{getattr(error, '_stackTrace', '') or ''}"
