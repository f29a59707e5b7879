"""Which Python Spark is told of, for every way to say it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.running.interpreters import (
    USUAL_PATH,
    ExecutorPythonUnreachable,
    Interpreters,
    choose_interpreters,
    driver_directory,
    interpreters_of_a_running_jvm,
)

HERE = "/home/me/env/bin/python3"
THERE = "/opt/env/bin/python"
CLUSTER = "spark://host:7077"
BY_NAME = Interpreters(THERE, "python", f"/opt/env/bin:{USUAL_PATH}")


@pytest.mark.parametrize(
    ("settings", "environment", "chosen"),
    [
        ({}, {}, Interpreters(HERE, HERE)),
        ({}, {"PYSPARK_PYTHON": THERE}, BY_NAME),
        ({}, {"PYSPARK_PYTHON": THERE, "PYSPARK_DRIVER_PYTHON": HERE}, BY_NAME),
        ({"spark.pyspark.python": THERE}, {}, BY_NAME),
        ({"spark.executorEnv.PYSPARK_PYTHON": THERE}, {}, BY_NAME),
        ({"spark.pyspark.python": THERE}, {"PYSPARK_PYTHON": "/not/this"}, BY_NAME),
        ({}, {"PYSPARK_PYTHON": THERE, "PYSPARK_DRIVER_PYTHON": THERE}, Interpreters(THERE, THERE)),
        ({}, {"PYSPARK_PYTHON": "python3.11"}, Interpreters("python3.11", "python3.11")),
        (
            {"spark.executorEnv.PATH": "/mine"},
            {"PYSPARK_PYTHON": "./environment/bin/python"},
            Interpreters("./environment/bin/python", "python", "environment/bin:/mine"),
        ),
    ],
)
def test_on_a_cluster_one_name_is_right_on_both_sides(settings, environment, chosen):
    assert choose_interpreters(CLUSTER, HERE, settings, environment) == chosen


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({}, Interpreters(HERE, HERE)),
        ({"PYSPARK_PYTHON": THERE}, Interpreters(THERE, THERE)),
        ({"PYSPARK_PYTHON": THERE, "PYSPARK_DRIVER_PYTHON": HERE}, Interpreters(THERE, HERE)),
    ],
)
def test_on_one_machine_everything_stays_as_it_is(environment, chosen):
    assert choose_interpreters("local[2]", HERE, {}, environment) == chosen


def test_spark_submit_with_a_bare_name_for_the_driver():
    found = interpreters_of_a_running_jvm(
        CLUSTER, {}, {"PYSPARK_PYTHON": THERE}, {"PYSPARK_DRIVER_PYTHON": "python", "PYSPARK_PYTHON": THERE}
    )
    assert found == BY_NAME


def test_spark_submit_without_a_word_takes_python3_everywhere():
    assert interpreters_of_a_running_jvm(CLUSTER, {}, {}, {}) == Interpreters("python3", "python3")


@pytest.mark.parametrize("driver", [HERE, "python3"])
def test_spark_submit_that_cannot_be_made_right_says_what_to_set(driver):
    with pytest.raises(ExecutorPythonUnreachable, match=r"PYSPARK_DRIVER_PYTHON"):
        interpreters_of_a_running_jvm(CLUSTER, {}, {"PYSPARK_PYTHON": THERE}, {"PYSPARK_DRIVER_PYTHON": driver})


def test_the_driver_has_a_name_that_its_directory_lacks(tmp_path: Path):
    here = Path(sys.executable)
    script = driver_directory(here, "python-of-executors", tmp_path) / "python-of-executors"
    found = subprocess.run([script, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == sys.prefix, "the environment stays the same"
    assert driver_directory(here, here.name, tmp_path) == here.parent
