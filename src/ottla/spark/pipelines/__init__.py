"""Pipelines: a file says where records come from, what is done to them and where they go; Spark runs it.

    ottla pipeline init clicks && cd clicks
    ottla pipeline run

How a file becomes a run, and where to read on:

    definition.py       the words of a file
    yaml_file.py        YAML to these words; python_steps.py does it for Python files
    checks.py           does it make sense? with graph.py, sql_names.py; all of this without Spark
    plan.py             views and flows, as values; expectations.py has the rules that records must pass
    frames.py           from values to DataFrames
    declarative.py      one run by Spark's own pipelines
    streaming.py        the same as streaming queries: until Ctrl-C, and for what Spark's pipelines lack
    watching.py         rows, rates, lag and broken rules while it runs
    running.py          all of it in order

In a Python file the same words are the classes exported here.
"""

from __future__ import annotations

from ottla.spark.pipelines.definition import DeadLetters, Expectation, Pipeline, Sink, Source, Step, Watermark
from ottla.spark.pipelines.parameters import parameter

__all__ = ["DeadLetters", "Expectation", "Pipeline", "Sink", "Source", "Step", "Watermark", "parameter"]
