"""A pipeline as a task of Airflow, where Airflow is installed: pip install 'ottla[airflow]'."""

from __future__ import annotations

import runpy

import pytest
from tests.spark.running import why_not

from ottla import Producer
from ottla.cli.main import main

pytest.importorskip("airflow.sdk", reason="needs Airflow: pip install 'ottla[airflow]'")
pytestmark = [pytest.mark.long, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

PIPELINE = """
name: clicks
sources: {clicks: {topic: clicks, format: string}}
sinks: {out: {from: clicks, topic: out}}
"""


def test_the_dag_of_the_command_runs_the_pipeline(broker, tmp_path, capsys, monkeypatch):
    from airflow.sdk.exceptions import AirflowException

    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    assert main(["pipeline", "airflow", str(tmp_path)]) == 0
    (tmp_path / "dag.py").write_text(capsys.readouterr().out)
    made = runpy.run_path(str(tmp_path / "dag.py"))

    operator = made["PipelineOperator"](task_id="again", file=str(tmp_path / "pipeline.yml"))
    with pytest.raises(AirflowException, match="ottla topic create clicks"):
        operator.execute({})
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(5):
            producer.send("clicks", value=b"x")
    (flow,) = operator.execute({})["flows"]
    assert (flow["state"], flow["rows_out"]) == ("completed", 5)
