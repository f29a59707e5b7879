"""Tables beside Apache Kafka: the tests of tests/unit/tables/test_loop.py, and the command with its own settings.

Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.client_suite import ApacheKafka, suite_of
from tests.unit.tables import test_loop
from tests.unit.tables.topics import Lake, write

from ottla.cli.main import main

globals().update(suite_of(test_loop))
pytestmark = pytest.mark.long


@pytest.fixture
def servers(apache: ApacheKafka) -> str:
    return apache.bootstrap_servers


def test_settings_of_the_command_are_those_of_the_topics(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", servers)
    lake = Lake(servers, tmp_path, "delta")
    lake.cluster.admin().create_topics(["tables-of-the-command"])
    write(servers, "tables-of-the-command", [{"id": 1}])
    lake.cluster.close()
    own = ["--set", "ottla.table.mode=json", "--set", f"ottla.table.location={tmp_path}/{{topic}}"]
    assert main(["table", "run", "tables-of-the-command", "--once", *own]) == 0
    assert main(["table", "check", "tables-of-the-command", *own]) == 0
    assert main(["table", "create", "tables-of-the-command", "--location", "lake"]) == 1
    assert "these brokers do not know the settings of tables" in capsys.readouterr().err
