"""`ottla broker start --secure` as a stranger uses it: one command, then our tools, confluent-kafka and metrics get in
with what it made, and nobody gets in without."""

import base64
import contextlib
import io
import json
import re
import sys
import urllib.error
import urllib.request

import confluent_kafka
import pytest
from tests.conformance.our_broker import BrokerProcess
from tests.patience import HANG_S

import ottla
from ottla.cli.client_files import scram_login
from ottla.cli.main import main
from ottla.errors import OttlaError
from ottla.properties import read_properties


class SecureBroker(BrokerProcess):
    """The same process with --secure."""

    def _command(self):
        return [*super()._command(), "--secure"]

    @property
    def client_file(self):
        return self.data / "client.properties"

    @property
    def password(self):
        return re.search(r'password="([^"]*)"', self.client_file.read_text())[1]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with SecureBroker(tmp_path_factory.mktemp("secure")) as made:
        yield made
    assert made.faults() == []


def run(broker, text, stdin="", file=None):
    """A command; returns its exit code and all it said."""
    said = io.TextIOWrapper(io.BytesIO(), write_through=True)
    words = [*text.split(), "--command-config", str(file or broker.client_file)]
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(words)
        return code, said.buffer.getvalue().decode()
    finally:
        sys.stdin = before


def librdkafka(broker, user, password):
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(broker.data / "ca.pem"),
    }


def test_the_password_is_in_no_log_and_kept_over_a_restart(tmp_path):
    with SecureBroker(tmp_path, {"ottla.log.level": "DEBUG"}) as broker:
        assert run(broker, "topic create clicks")[0] == 0
        password = broker.password
        broker.stop()
        broker.start()
        assert broker.password == password
        assert run(broker, "topic list") == (0, "clicks\n")
        logged = broker.log.read_text()
    assert password not in logged
    for secret in ("token.key", "ca-key.pem"):
        assert (broker.data / secret).read_text().strip().splitlines()[-1] not in logged


def test_a_user_with_few_rights_works_and_is_refused(broker, tmp_path):
    file = tmp_path / "alice.properties"
    assert run(broker, "topic create clicks")[0] == 0
    assert run(broker, f"user create alice --generate --client-config {file}")[0] == 0
    assert run(broker, "acl add --allow alice --producer --topic clicks")[0] == 0
    assert run(broker, "produce clicks", "hello\n", file)[0] == 0
    code, said = run(broker, "consume clicks -e", file=file)
    assert (code, "may not" in said) == (1, True)
    code, said = run(broker, "topic create orders", file=file)
    assert (code, "User:alice may not CREATE" in said) == (1, True)
    with ottla.Producer(ottla.read_properties(file)) as producer:
        assert producer.send("clicks", b"from a program").result(HANG_S).topic == "clicks"
    assert run(broker, "consume clicks -e -o beginning") == (0, "hello\nfrom a program\n")


def test_confluent_kafka_gets_in_with_the_same_authority(broker):
    admin = confluent_kafka.Producer(librdkafka(broker, "admin", broker.password))
    assert run(broker, "topic create from-librdkafka")[0] == 0
    delivered = []
    admin.produce("from-librdkafka", b"x", on_delivery=lambda error, message: delivered.append(error))
    assert admin.flush(HANG_S) == 0
    assert delivered == [None]


@pytest.mark.parametrize(
    "changes",
    [
        {"security.protocol": "PLAINTEXT"},
        {"security.protocol": "SSL"},
        {"sasl.jaas.config": scram_login("admin", "guess")},
        {"ssl.truststore.location": None},
    ],
    ids=["no TLS", "no login", "wrong password", "no trust"],
)
def test_nobody_gets_in_otherwise(broker, changes):
    settings = {**read_properties(broker.client_file), **changes}
    settings = {name: value for name, value in settings.items() if value is not None}
    if "ssl.truststore.location" not in settings:
        del settings["ssl.truststore.type"]
    limits = {"default.api.timeout.ms": 5_000, "request.timeout.ms": 5_000}
    with ottla.Admin({**settings, **limits}) as admin, pytest.raises((OttlaError, TimeoutError)):
        admin.list_topics()


def test_tokens_and_quotas_work_at_once(broker, tmp_path):
    file = tmp_path / "job.properties"
    assert run(broker, f"token create --client-config {file}")[0] == 0
    assert run(broker, "topic list", file=file)[0] == 0
    assert run(broker, "quota set --default client --produce 10MB")[0] == 0
    code, said = run(broker, "quota list --json")
    assert (code, json.loads(said)[0]["quotas"]) == (0, {"producer_byte_rate": 10e6})


def test_metrics_want_the_login(broker):
    request = urllib.request.Request(f"http://{broker.admin_address}/metrics")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=HANG_S)
    with refused.value as answer:
        assert answer.code == 401
    request.add_header("Authorization", f"Basic {base64.b64encode(f'admin:{broker.password}'.encode()).decode()}")
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        assert b"kafka_server" in answer.read()
