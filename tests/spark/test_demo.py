"""`make demo` is the first thing that anybody sees: it tells its story, and nothing else is on the screen."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from tests.spark.running import why_not

from ottla.demo import readable

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

LIMIT_S = 600


def test_the_demo_tells_its_story_and_prints_nothing_else(tmp_path):
    # A stranger's module that cannot be imported makes Spark pass over all Python sources, in silence.
    (tmp_path / "pyspark_broken.py").write_text("raise ImportError('not here')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "ottla.demo"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    output = done.stdout
    assert done.returncode == 0, output
    for noise in ("Traceback", " ERROR ", "BrokenPipe", "Exception", "MicroBatchStream"):
        assert noise not in output, output
    steps = [int(number) for number in re.findall(r"^\[ *\d+ s\] (\d)\.", output, re.MULTILINE)]
    assert steps == list(range(1, 9)), output
    assert 'writeStream.format("ottla")' in output
    assert "$ ottla consume clicks-rejected" in output
    assert "reason=not a click: no page in it" in output
    assert "Exactly once, across a restart." in output
    assert "ottla broker start" in output.split("Exactly once, across a restart.")[1]


def test_what_spark_does_is_told_with_the_name_of_the_topic():
    java = "org.apache.spark.sql.execution.python.streaming.PythonMicroBatchStreamWithAdmissionControl@6f1c29b7"
    assert readable(f"Getting offsets from {java}") == "Getting offsets from the topic clicks"
    assert readable("Waiting for next trigger") == "Waiting for next trigger"
