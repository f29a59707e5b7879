"""`ottla spark doctor` on this machine: tasks report, and reach the brokers or say why not."""

from __future__ import annotations

import sys

from ottla.spark.doctor.examining import ask_tasks, check_executors, examine_spark


def test_all_is_well_here(spark, broker):
    findings = examine_spark(spark, {"bootstrap.servers": broker.bootstrap_servers}, tasks=2)
    assert [(each.step, each.result) for each in findings] == [
        ("driver", "ok"),
        ("pipelines", "ok"),
        ("settings", "ok"),
        ("executors", "ok"),
        ("brokers from the driver", "ok"),
        ("brokers from tasks", "ok"),
    ]


def test_tasks_report_the_python_that_they_run_in(spark):
    found = ask_tasks(spark, 2, {})
    assert len(found) == 2
    assert {each.executable for each in found} == {sys.executable}
    check_executors(spark)


def test_brokers_that_are_not_there_are_told(spark):
    findings = examine_spark(spark, {"bootstrap.servers": "127.0.0.1:1"}, tasks=1)
    failed = [each for each in findings if each.result == "failed"]
    assert [each.step for each in failed] == ["brokers from the driver", "brokers from tasks"]
    assert "127.0.0.1:1" in failed[1].what
