"""Java's client logs in at our broker with every mechanism, and again in the middle of its work (KIP-368)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.test_login_clients import MECHANISMS, PASSWORD, login_settings, make_users, token

from ottla.testing import KafkaBroker

pytestmark = pytest.mark.long

MODULE = "org.apache.kafka.common.security"
SESSION_MS = 2_000
ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    settings = login_settings(tmp_path_factory.mktemp("keys")) | {"connections.max.reauth.ms": SESSION_MS}
    with KafkaBroker(settings) as made:
        make_users(made)
        yield made


def properties(broker: KafkaBroker, mechanism: str, scratch: Path, password: str) -> Path:
    """A file as Java's clients read it: the backslash is doubled once for JAAS and once for the file."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    jaas = f'{MODULE}.plain.PlainLoginModule required username="alice" password="{quoted}";'
    lines = [f"bootstrap.servers={broker.bootstrap_servers}", "security.protocol=SASL_PLAINTEXT"]
    lines.append(f"sasl.mechanism={mechanism}")
    if mechanism == "OAUTHBEARER":
        jaas = f"{MODULE}.oauthbearer.OAuthBearerLoginModule required;"
        file = scratch / "token"
        file.write_text(token() if password == PASSWORD else token(sub="alice", life_s=300)[:-4] + "AAAA")
        lines.append(f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}")
        handler = "OAuthBearerLoginCallbackHandler"
        lines.append(f"sasl.login.callback.handler.class={MODULE}.oauthbearer.{handler}")
    elif mechanism != "PLAIN":
        jaas = jaas.replace("plain.Plain", "scram.Scram")
    lines.append("sasl.jaas.config=" + jaas.replace("\\", "\\\\"))
    path = scratch / "client.properties"
    path.write_text("\n".join(lines), "iso-8859-1")
    return path


def produce(java: JavaPrograms, file: Path, records: int, *, fails: bool = False) -> str:
    how = ["--topic", "clicks", "--num-records", str(records), "--record-size", "10", "--throughput", "20"]
    return java.run("org.apache.kafka.tools.ProducerPerformance", *how, "--producer.config", str(file), fails=fails)


def counted(broker: KafkaBroker, name: str) -> int:
    lines = broker.call(lambda server: server.registry.text(0)).splitlines()
    found = f"kafka_server_socket_server_metrics_{name}_total{{"
    return int(next(line for line in lines if line.startswith(found)).rpartition(" ")[2])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_javas_producer_logs_in_and_logs_in_again(
    broker: KafkaBroker, mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{ALLOWED}{(tmp_path / 'token').as_uri()}")
    java = JavaPrograms(jars_or_skip("4.3"), tmp_path, broker.bootstrap_servers)
    before = counted(broker, "successful_reauthentication")
    assert "120 records sent" in produce(java, properties(broker, mechanism, tmp_path, PASSWORD), 120)
    assert counted(broker, "successful_reauthentication") > before
    assert counted(broker, "failed_reauthentication") == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java_says_why_it_was_refused(
    broker: KafkaBroker, mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{ALLOWED}{(tmp_path / 'token').as_uri()}")
    java = JavaPrograms(jars_or_skip("4.3"), tmp_path, broker.bootstrap_servers)
    file = properties(broker, mechanism, tmp_path, "wrong")
    words = java.tool("TopicCommand", "--command-config", str(file), "--list", fails=True)
    said = {"PLAIN": "Invalid username or password", "OAUTHBEARER": "invalid_token"}
    assert said.get(mechanism, f"invalid credentials with SASL mechanism {mechanism}") in words
