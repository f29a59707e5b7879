"""A pipeline as a task of Airflow: it works off what is there, and the task has what every flow did as its result.

    from ottla.spark.pipelines.airflow import PipelineOperator

    PipelineOperator(task_id="clicks", file="/srv/clicks/pipeline.yml")

1. The task is `ottla pipeline run` in a process of its own: a Spark that dies takes no worker of Airflow along, and a
   task that is cancelled ends it by SIGTERM. What was cut off is repeated by the next run; nothing is lost or doubled.
2. Two tasks of one pipeline at a time are refused by the lock of its storage: give the DAG max_active_runs=1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

STOP_LIMIT_S: Final = 60.0
TAIL: Final = 2_000


class PipelineOperator(BaseOperator):  # type: ignore[misc]  # Airflow need not be there to be checked
    """Runs a pipeline once. `arguments` are further words of `ottla pipeline run`, as ["--master", "yarn"]."""

    template_fields: Sequence[str] = ("file", "arguments", "environment")

    def __init__(
        self,
        *,
        file: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.file = file
        self.arguments = list(arguments)
        self.environment = dict(environment or {})
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """The summary of the run, as `ottla pipeline run --json` prints it."""
        words = [sys.executable, "-m", "ottla", "pipeline", "run", self.file, "--json", *self.arguments]
        self._process = subprocess.Popen(
            words,
            text=True,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, errors = self._process.communicate()
        if self._process.returncode != 0:
            raise AirflowException(errors.strip()[-TAIL:] or f"the run ended with {self._process.returncode}")
        summary: dict[str, Any] = json.loads(out.splitlines()[-1])
        return summary

    def on_kill(self) -> None:
        """The task is cancelled."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
