"""Spark through both locks, with its own connector (the JVM's) and with ours: TLS and each kind of login.

The matrix of tests/conformance/test_locked_python.py for Spark: a batch is written and read as each user, whose
password stands in the options of the query. Needs Spark's connector (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.conformance.locked_broker import LOGINS, OTHERS, LockedBroker, locked_broker
from tests.conformance.locked_java import ALLOWED_URLS, java_settings, tokens_for_java
from tests.patience import HANG_S
from tests.spark.running import why_not

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
CONNECTORS = ("kafka", "ottla")
WRITTEN = sorted(f"value {number}" for number in range(10))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the program says about each connector and each login."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    try:
        find_jars("spark-4.3", "spark")
    except JarsMissing as missing:
        pytest.skip(str(missing))
    with locked_broker(tmp_path_factory.mktemp("locked")) as broker, tokens_for_java() as provider:
        broker.make_topics(CONNECTORS)
        users = [user_of(broker, login, provider) for login in LOGINS]
        yield run({"java options": f"-D{ALLOWED_URLS}={provider}", "users": users})


def user_of(broker: LockedBroker, login: str, provider: str) -> dict[str, Any]:
    access = broker.access(login)
    options = {f"kafka.{name}": value for name, value in java_settings(access, provider).items()}
    topics = {name: access.topic(name) for name in CONNECTORS}
    return {"login": login, "topics": topics, "others": OTHERS, "group": access.group, "options": options}


def run(task: dict[str, Any]) -> dict[str, Any]:
    program = Path(__file__).parent / "programs" / "locked.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, str(program)],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        timeout=2 * HANG_S,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_job_writes_and_reads_the_topic_of_its_user_and_no_other(
    answers: dict[str, Any], connector: str, login: str
) -> None:
    refused = {"write others": "refused", "read others": "refused"}
    assert answers[connector][login] == {"read": WRITTEN, **refused}
