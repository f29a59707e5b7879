"""A service with a real pipeline: killed and started again, stopped in order, and killed itself. Each record once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from tests.patience import HANG_S, wait_until
from tests.spark.running import why_not
from tests.spark.test_pipeline_life import records

from ottla import Admin, NewTopic, Producer
from ottla.spark.pipelines.storage import Storage
from ottla.testing import KafkaBroker

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

PIPELINE = """
name: served
sources: {clicks: {topic: clicks, format: json, schema: number INT}}
sinks: {out: {from: clicks, topic: out, key: number}}
dead_letters: dead
"""


def send(servers, numbers):
    with Producer(bootstrap_servers=servers) as producer:
        for number in numbers:
            value = b"no click" if number % 10 == 3 else json.dumps({"number": number}).encode()
            producer.send("clicks", value=value)


def good(numbers):
    return Counter(str(number) for number in numbers if number % 10 != 3)


class Service:
    """The command, and what it says."""

    def __init__(self, place, servers):
        self.storage = Storage(str(place / "storage"))
        self.said = place / "said.txt"
        words = ["pipeline", "serve", "--listen", "127.0.0.1:0", "--master", "local[2]", "-b", servers]
        self.errors = self.said.open("w")
        self.process = subprocess.Popen([sys.executable, "-m", "ottla", *words], cwd=place, stderr=self.errors)

    def pid(self):
        """The process that runs the pipeline, when all its flows run."""
        status = self.storage.last_status()
        if status is None or any(flow.state != "running" for flow in status.flows) or not self.storage.is_in_use():
            return None
        return status.pid

    def ready(self):
        address = self.said.read_text().partition("health: ")[2].split()[0]
        try:
            with urllib.request.urlopen(f"{address}/health/ready") as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False


@pytest.fixture
def service(broker: KafkaBroker, tmp_path: Path):
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1) for name in ("clicks", "out", "dead")])
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    made = Service(tmp_path, broker.bootstrap_servers)
    yield made
    made.process.kill()
    made.process.wait()
    made.errors.close()
    wait_until(lambda: not made.storage.is_in_use(), "the pipeline ends with its service")


def written(servers):
    return Counter(record.key.decode() for record in records(servers, "out"))


def test_a_pipeline_that_is_killed_goes_on_and_the_service_ends_in_order(broker, service):
    servers = broker.bootstrap_servers
    send(servers, range(100))
    wait_until(lambda: service.pid() is not None, "the pipeline runs")
    first = service.pid()
    wait_until(lambda: written(servers) == good(range(100)), "the first records are written", step_s=0.5)
    send(servers, range(100, 200))
    os.killpg(first, signal.SIGKILL)
    send(servers, range(200, 300))
    wait_until(lambda: service.pid() not in (None, first), "the pipeline runs again")
    wait_until(lambda: written(servers) == good(range(300)), "all records are written once", step_s=0.5)
    wait_until(service.ready, "the service says that it is ready")

    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(HANG_S) == 0
    said = service.said.read_text()
    assert "ended by SIGKILL; it is started again" in said
    assert said.endswith("ottla: served: stopped\nottla: all pipelines are stopped\n")
    assert "Traceback" not in said
    assert service.storage.last_status().state == "stopped"
    assert written(servers) == good(range(300))
    assert len(records(servers, "dead")) == 30
