"""The doctor against brokers that are well and brokers that are not: each illness is found and named."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl

import pytest
from tests.patience import HANG_S
from tests.unit.net.papers import Papers, make_papers

from ottla.cli.main import main
from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.consumer import Consumer
from ottla.client.diagnosis import Finding
from ottla.client.doctor import examine
from ottla.client.producer.producer import Producer
from ottla.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse
from ottla.testing import FakeBroker

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


def visit(servers: str, *, timeout: float = 3, topic=None, group=None, **settings: object) -> dict[str, Finding]:
    async def all_findings() -> list[Finding]:
        config = {"bootstrap.servers": servers, **{name.replace("_", "."): value for name, value in settings.items()}}
        return [finding async for finding in examine(config, timeout=timeout, topic=topic, group=group)]

    return {finding.step: finding for finding in asyncio.run(all_findings())}


def results(found: dict[str, Finding]) -> dict[str, str]:
    return {step: finding.result for step, finding in found.items()}


def failed(found: dict[str, Finding]) -> list[Finding]:
    return [finding for finding in found.values() if finding.result == "failed"]


@pytest.fixture
def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return make_papers(tmp_path_factory.mktemp("papers"))


def server_context(papers: Papers) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers.server, papers.server_key)
    return context


# --- connections ------------------------------------------------------------------------------------------------------


def test_a_broker_that_is_well_has_nothing_wrong(kafka_broker):
    found = visit(kafka_broker.bootstrap_servers)
    assert {finding.result for finding in found.values()} <= {"ok", "skipped"}, found
    assert [step.split()[0] for step in found] == [
        *("resolve", "connect", "TLS", "versions", "login"),
        *("metadata", "broker", "controller", "quorum", "clock", "topic", "topic", "replication"),
    ]


def test_a_wrong_name_is_told():
    found = visit("no-such-host.invalid:9092")
    assert results(found) == {"resolve no-such-host.invalid": "failed", "metadata": "skipped"}
    assert "spelling" in found["resolve no-such-host.invalid"].remedy


def test_a_wrong_port_is_told(nobody):
    found = visit(nobody)
    assert [finding.what for finding in failed(found)] == ["nobody listens there"]
    assert "running" in failed(found)[0].remedy


def test_one_dead_bootstrap_server_is_told_and_the_others_go_on(kafka_broker, nobody):
    found = visit(f"{nobody},{kafka_broker.bootstrap_servers}")
    assert [finding.step for finding in failed(found)] == [f"connect to {nobody}"]
    assert found["metadata"].result == "ok"


@needs_openssl
def test_plain_where_tls_is_spoken_is_told(papers):
    with FakeBroker(tls=server_context(papers)) as fake:
        found = visit(fake.bootstrap_servers, timeout=1)
        assert [finding.step for finding in failed(found)] == [f"versions of {fake.bootstrap_servers}"]
        assert "security.protocol=SSL" in failed(found)[0].remedy


@needs_openssl
def test_tls_where_nobody_speaks_it_is_told(papers):
    with FakeBroker() as fake:
        more = {"security.protocol": "SSL", "ssl.ca.location": str(papers.ca)}
        found = visit(fake.bootstrap_servers, timeout=1, **more)
        assert [finding.step for finding in failed(found)] == [f"TLS with {fake.bootstrap_servers}"]


@needs_openssl
def test_a_certificate_of_strangers_is_told(papers):
    with FakeBroker(tls=server_context(papers)) as fake:
        found = visit(fake.bootstrap_servers, **{"security.protocol": "SSL"})
        assert [finding.step for finding in failed(found)] == [f"TLS with {fake.bootstrap_servers}"]
        assert "certificate" in failed(found)[0].what.lower()


def test_somebody_who_does_not_speak_kafka_is_told():
    with FakeBroker() as fake:
        fake.garble("ApiVersions", "garbage", times=None)
        found = visit(fake.bootstrap_servers, timeout=1)
        assert [finding.step for finding in failed(found)] == [f"versions of {fake.bootstrap_servers}"]


def test_a_wrong_password_is_told():
    with FakeBroker() as fake:
        fake.answer("SaslHandshake", lambda request: SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
        refusal = SaslAuthenticateResponse(error_code=58, error_message="Authentication failed", auth_bytes=b"")
        fake.answer("SaslAuthenticate", lambda request: refusal)
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
        found = visit(fake.bootstrap_servers, **login, **{"sasl.password": "wrong"})
        assert found[f"versions of {fake.bootstrap_servers}"].result == "ok"
        assert [finding.step for finding in failed(found)] == [f"login at {fake.bootstrap_servers}"]


def describing(fake: FakeBroker):
    """DescribeCluster as the fake's metadata would say it."""

    def answer(request):
        nodes = [DescribeClusterBroker(broker_id=n.id, host=n.host, port=n.port) for n in fake.cluster.nodes.values()]
        return DescribeClusterResponse(error_code=0, cluster_id="fake", controller_id=1, brokers=nodes)

    return answer


def test_an_advertised_address_that_cannot_be_reached_is_told(nobody):
    with FakeBroker(nodes=2) as fake:
        fake.answer("DescribeCluster", describing(fake))
        host, port = nobody.split(":")
        fake.advertise(2, host, int(port))
        found = visit(fake.address(1))
        assert [finding.step for finding in failed(found)] == [f"broker 2 at {nobody}"]
        assert "advertised.listeners" in failed(found)[0].remedy


def test_a_cluster_that_stays_silent_is_told_in_time():
    with FakeBroker() as fake:
        fake.mute("DescribeCluster", times=None)
        fake.answer("DescribeCluster", describing(fake))
        fake.mute("Metadata", times=None)
        found = visit(fake.bootstrap_servers, timeout=0.5)
        assert found["metadata"].result == "failed"


# --- topics and groups ------------------------------------------------------------------------------------------------


def test_a_topic_is_looked_at(kafka_broker, unique_topic):
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(unique_topic, num_partitions=2)])
    found = visit(kafka_broker.bootstrap_servers, topic=unique_topic)
    assert failed(found) == []
    assert found[f"topic {unique_topic}"].what == "2 partitions"
    assert found[f"transactions in {unique_topic}"].result == "ok"


def test_a_topic_that_is_not_there_is_told_and_not_made(kafka_broker, unique_topic):
    found = visit(kafka_broker.bootstrap_servers, topic=unique_topic)
    assert [finding.step for finding in failed(found)] == [f"topic {unique_topic}"]
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        assert unique_topic not in admin.list_topics()


def test_a_topic_that_wants_more_replicas_than_there_are_is_told(kafka_broker, unique_topic):
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(unique_topic, configs={"min.insync.replicas": "2"})])
    found = visit(kafka_broker.bootstrap_servers, topic=unique_topic)
    assert found[f"replicas of {unique_topic}"].result == "failed"
    assert "min.insync.replicas=2" in found[f"replicas of {unique_topic}"].what


def test_an_open_transaction_that_holds_readers_up_is_named(kafka_broker, unique_topic):
    where = {"bootstrap_servers": kafka_broker.bootstrap_servers}
    with Producer(**where, transactional_id=f"{unique_topic}-x") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(unique_topic, b"held").result(HANG_S)
        found = visit(kafka_broker.bootstrap_servers, topic=unique_topic)
        finding = found[f"transactions in {unique_topic}-0"]
        assert finding.result == "warning"
        assert f"transactional.id {unique_topic}-x" in finding.what
        producer.abort_transaction()


def test_a_group_is_looked_at(kafka_broker, unique_topic, unique_group):
    where = {"bootstrap_servers": kafka_broker.bootstrap_servers}
    with Producer(**where) as producer:
        producer.send_many(unique_topic, [b"x"] * 10).result(HANG_S)
    with Consumer(unique_topic, **where, group_id=unique_group, auto_offset_reset="earliest") as consumer:
        while not consumer.poll(1, max_records=4):
            pass
        consumer.commit()
        found = visit(kafka_broker.bootstrap_servers, group=unique_group)
    assert found[f"group {unique_group}"].result == "ok"
    assert found[f"lag of {unique_group}"].what.startswith("6 records")
    found = visit(kafka_broker.bootstrap_servers, group=unique_group)
    assert found[f"group {unique_group}"].result == "warning"
    assert "no members" in found[f"group {unique_group}"].what


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_says_all_is_well(kafka_broker, capsys):
    assert main(["doctor", "-b", kafka_broker.bootstrap_servers]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].startswith("ok")
    assert shown.splitlines()[-1] == "all is well"


def test_the_command_ends_with_one_when_something_failed(nobody, capsys):
    assert main(["doctor", "-b", nobody]) == 1
    shown = capsys.readouterr().out
    assert f"FAILED   connect to {nobody}: nobody listens there" in shown
    assert shown.splitlines()[-1] == f"1 failed, 0 warnings; begin with: connect to {nobody}"


def test_the_command_speaks_json(kafka_broker, capsys):
    assert main(["doctor", "-b", kafka_broker.bootstrap_servers, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"step", "result", "what", "remedy"} == set(found[0])
    assert "metadata" in {each["step"] for each in found}
