"""No key, no password of a store and no token of a provider is seen anywhere: the second half of
test_secrets_stay_secret.py, for TLS and OAUTHBEARER.

Two brokers: one with stores that have passwords (PKCS12) and logins by signed tokens, one with its key as text in its
settings, locked with a password. Private keys are canaries themselves: a line of their PEM, and the number that they
are. The same for clients, with stores that can be opened and with others that cannot.
"""

from __future__ import annotations

import base64
import contextlib
import faulthandler
import io
import json
import logging
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from jwt.algorithms import ECAlgorithm
from tests.client.canaries import Canaries
from tests.client.test_secrets_stay_secret import watch_objects
from tests.patience import HANG_S
from tests.unit.net.tls_files import HOSTS, TlsFiles

from ottla import Admin, Producer
from ottla.broker.settings import BrokerSettings
from ottla.cli.main import main
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.client.admin.settings import AdminSettings
from ottla.clock import SystemClock
from ottla.errors import OttlaError
from ottla.net.tls.authority import Issued
from ottla.testing import KafkaBroker

BROKER = ConfigResource(ConfigResourceType.BROKER, "0")
LISTENER = "listener.name.sasl_ssl"
MODULE = "org.apache.kafka.common.security"
SIGNING_KEY = ec.generate_private_key(ec.SECP256R1())


class Stage:
    """Two brokers full of keys, and everything that is seen of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.canaries = Canaries()
        self.files = TlsFiles(directory)
        self.secret_key = self.canaries.new("delegation.token.secret.key")
        self.admin_password = self.canaries.new("password of admin")
        self.stores = self.store_settings("broker")
        self.settings = {**self.stores, **self.login_settings()}
        self.inline = self.inline_settings("broker")
        self.broker = KafkaBroker(self.settings, directory=directory / "first")
        self.second = KafkaBroker(self.inline, directory=directory / "second")

    def issue(self, whose: str) -> Issued:
        """A certificate for anybody, whose key is a canary: the number that it is, and its text as PEM."""
        issued = self.files.authority.issue(whose.split()[0], hosts=HOSTS)
        number, name = issued.key.private_numbers().private_value, f"key {len(self.canaries.secrets)} of {whose}"
        self.canaries.add(f"{name} as a number", str(number).encode())
        self.canaries.add(f"{name} as bytes", number.to_bytes(32))
        self.canaries.add(f"{name} as PEM", longest_line(issued.key_pem()))
        return issued

    def store_settings(self, whose: str) -> dict[str, str]:
        """Key store and trust store with passwords, in files."""
        issued = self.issue(whose)
        password, trust_password = (self.canaries.new(f"{name} password of {whose}") for name in ("key store", "trust"))
        store, trust = (self.directory / f"{whose}-{name}.p12" for name in ("keys", "trusted"))
        locked = BestAvailableEncryption(password.encode())
        store.write_bytes(serialize_key_and_certificates(b"own", issued.key, issued.certificate, None, locked))
        anchors = [PKCS12Certificate(self.files.authority.certificate, b"ca")]
        trust.write_bytes(serialize_java_truststore(anchors, BestAvailableEncryption(trust_password.encode())))
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": password,
            "ssl.key.password": password,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(trust),
            "ssl.truststore.password": trust_password,
        }

    def inline_settings(self, whose: str) -> dict[str, str]:
        """Key and certificates as text; the key is locked."""
        issued, password = self.issue(whose), self.canaries.new(f"password of the key of {whose}")
        key = issued.key_pem(password)
        self.canaries.add(f"locked key of {whose} as PEM", longest_line(key))
        return {
            "listeners": "SSL://127.0.0.1:0",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": issued.certificates_pem,
            "ssl.key.password": password,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.files.authority.pem,
        }

    def login_settings(self) -> dict[str, str]:
        keys = self.directory / "jwks.json"
        keys.write_text(json.dumps({"keys": [ECAlgorithm.to_jwk(SIGNING_KEY.public_key(), as_dict=True)]}))
        return {
            "listeners": "SASL_SSL://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"{LISTENER}.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required username=admin"
            f' password="{self.admin_password}" user_admin="{self.admin_password}";',
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "ottla.oauthbearer.allowed.urls": keys.as_uri(),
            "delegation.token.secret.key": self.secret_key,
            "connection.failed.authentication.delay.ms": "0",
            "ottla.admin.listener": "127.0.0.1:0",
        }

    def token(self, name: str, **claims: object) -> str:
        """A signed token; the signature alone is a canary, too."""
        now_s = SystemClock().now_ms() // 1000
        made = jwt.encode({"sub": "admin", "iat": now_s, "exp": now_s + 300, **claims}, SIGNING_KEY, "ES256")
        self.canaries.add(f"{name}: a token", made.encode())
        self.canaries.add(f"{name}: the signature of a token", made.rpartition(".")[2].encode())
        return made

    def by_token(self, provider: Callable[[], str]) -> dict[str, Any]:
        return self.client({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": provider})

    def client(self, login: dict[str, Any]) -> dict[str, Any]:
        trusted = {name: value for name, value in self.stores.items() if name.startswith("ssl.truststore")}
        servers = {"bootstrap.servers": self.broker.bootstrap_servers, "security.protocol": "SASL_SSL"}
        return {**servers, **trusted, **login}

    def admin(self) -> dict[str, Any]:
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": self.admin_password}
        return self.client(login)

    @contextlib.contextmanager
    def refused(self, where: str) -> Iterator[None]:
        """What is done here fails, and its error is looked at, with its causes and its trace."""
        with pytest.raises(OttlaError) as caught:
            yield
        error: BaseException | None = caught.value
        while error is not None:
            self.canaries.watch(where, error)
            error = error.__cause__ or error.__context__
        self.canaries.watch(where, str(caught.getrepr(style="native")))


def longest_line(pem: str) -> bytes:
    return max((line for line in pem.splitlines() if "-----" not in line), key=len).encode()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("keys"))
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s %(args)r"))
    root, before = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with made.broker, made.second:
            yield made
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    made.canaries.watch("log lines of brokers and clients", written.getvalue())
    assert "DEBUG" in written.getvalue(), "the log was listened to"
    assert made.canaries.found() == []


def test_settings_of_brokers(stage: Stage) -> None:
    for each in (stage.settings, stage.inline):
        settings = BrokerSettings({**each, "log.dirs": str(stage.directory)})
        stage.canaries.watch("settings of a broker", [settings, settings.as_dict(), vars(settings)])
    assert stage.canaries.found_lately() == []


@pytest.mark.parametrize("name", ["ssl.keystore.password", "ssl.key.password", "ssl.truststore.password"])
def test_a_broker_whose_store_cannot_be_opened(stage: Stage, name: str) -> None:
    wrong = {name: stage.canaries.new(f"wrong {name}")}
    with stage.refused(f"a broker with a wrong {name}"), KafkaBroker({**stage.settings, **wrong}):
        pass
    if name == "ssl.key.password":
        with stage.refused("a broker with a locked key and a wrong password"), KafkaBroker({**stage.inline, **wrong}):
            pass
    assert stage.canaries.found_lately() == []


@pytest.mark.parametrize("damage", [lambda pem: pem[:-60], lambda pem: pem.replace("-----", "", 1), longest_line])
def test_a_key_in_settings_that_is_damaged(stage: Stage, damage: Callable[[str], Any]) -> None:
    key = damage(stage.inline["ssl.keystore.key"])
    wrong = {"ssl.keystore.key": key if isinstance(key, str) else key.decode()}
    with stage.refused("a broker with a damaged key"), KafkaBroker({**stage.inline, **wrong}):
        pass
    with stage.refused("a client with a damaged key"):
        client = {name: value for name, value in {**stage.inline, **wrong}.items() if name.startswith("ssl.")}
        Admin({"bootstrap.servers": stage.second.bootstrap_servers, "security.protocol": "SSL", **client})
    assert stage.canaries.found_lately() == []


@pytest.mark.parametrize("kind", ["stores", "inline"])
def test_a_client_with_a_certificate(stage: Stage, kind: str) -> None:
    made = stage.store_settings("client") if kind == "stores" else stage.inline_settings("client")
    tls = {name: value for name, value in made.items() if name.startswith("ssl.")}
    settings = {"bootstrap.servers": stage.second.bootstrap_servers, "security.protocol": "SSL", **tls}
    stage.canaries.watch("settings of a client", [AdminSettings(settings), vars(AdminSettings(settings))])
    with Admin(settings) as admin:
        admin.list_topics(timeout=HANG_S)
        watch_objects(stage, "objects of a client with a certificate")  # type: ignore[arg-type]  # it has canaries
    names = ["ssl.key.password"] if kind == "inline" else ["ssl.keystore.password", "ssl.truststore.password"]
    for name in names:
        with stage.refused(f"a client with a wrong {name}"):
            Admin({**settings, name: stage.canaries.new(f"wrong {name} of a client")})
    assert stage.canaries.found_lately() == []


def test_logins_by_token(stage: Stage) -> None:
    good = stage.token("a good one")
    with Admin(stage.by_token(lambda: good)) as admin:
        admin.list_topics(timeout=HANG_S)
        watch_objects(stage, "objects while somebody is logged in by a token")  # type: ignore[arg-type]
    for name, token in (
        ("expired", stage.token("expired", exp=1_000)),
        ("of nobody", stage.token("of nobody", sub="")),
        ("with another signature", good[:-6] + "AAAAAA"),
        ("no token at all", stage.canaries.new("a token that is none")),
    ):
        stage.canaries.add(name, token.encode())
        refused = stage.by_token(lambda token=token: token)  # type: ignore[misc]
        stage.canaries.watch("settings of a client", AdminSettings(refused))
        with stage.refused(f"a login by a token: {name}"), Admin(refused) as admin:
            admin.list_topics(timeout=HANG_S)
        with stage.refused(f"a producer with a token: {name}"), Producer(refused) as producer:
            producer.send("t", b"x").result(HANG_S)
    assert stage.canaries.found_lately() == []


def test_a_provider_that_gives_no_token(stage: Stage) -> None:
    secret = stage.canaries.new("client secret of a provider")
    oauth = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:9/token"}
    name = "sasl.oauthbearer.client.credentials.client"
    jaas = f'{MODULE}.oauthbearer.OAuthBearerLoginModule required clientId="me" clientSecret="{secret}";'
    for login in ({f"{name}.id": "me", f"{name}.secret": secret}, {"sasl.jaas.config": jaas}):
        settings = stage.client({**oauth, **login, "socket.connection.setup.timeout.ms": 500})
        stage.canaries.watch("settings of a client", AdminSettings(settings))
        with stage.refused("a provider that is not there"), Admin(settings) as admin:
            admin.list_topics(timeout=3)
    assert stage.canaries.found_lately() == []


def test_delegation_tokens(stage: Stage) -> None:
    with Admin(stage.admin()) as admin:
        token = admin.create_delegation_token(timeout=HANG_S)
        stage.canaries.add("HMAC of a token", token.hmac)
        stage.canaries.add("HMAC of a token as its password", base64.b64encode(token.hmac))
        stage.canaries.watch("a token", [token, admin.describe_delegation_tokens(timeout=HANG_S)])
        login = stage.client(token.login_settings())
        stage.canaries.watch("settings of a client", AdminSettings(login))
        with Admin(login) as by_token:
            by_token.list_topics(timeout=HANG_S)
            watch_objects(stage, "objects while somebody is logged in with a delegation token")  # type: ignore[arg-type]
    assert stage.canaries.found_lately() == []


def test_settings_that_are_described_and_changed(stage: Stage) -> None:
    """Only what can be opened is taken while a broker runs."""
    with Admin(stage.admin()) as admin:
        for name in ("ssl.keystore.password", "ssl.key.password", "ssl.truststore.password", "ssl.keystore.key"):
            change = AlterConfig(f"{LISTENER}.{name}", stage.canaries.new(f"refused value of {name}"))
            with stage.refused(f"a change of {name}"):
                admin.incremental_alter_configs({BROKER: [change]}, timeout=HANG_S)
        made = stage.store_settings("broker while running")
        changes = [AlterConfig(f"{LISTENER}.{name}", value) for name, value in made.items()]
        stage.canaries.watch("changes of settings", changes)
        admin.incremental_alter_configs({BROKER: changes}, timeout=HANG_S)
        stage.canaries.watch("settings as described", admin.describe_configs([BROKER], timeout=HANG_S))
    assert stage.canaries.found_lately() == []


def test_metrics_a_dump_of_all_threads_and_objects(stage: Stage, tmp_path: Path) -> None:
    host, port = stage.broker.info.admin_address or ("", 0)
    for path in ("metrics", "health/ready"):
        with urllib.request.urlopen(f"http://{host}:{port}/{path}", timeout=HANG_S) as answer:
            stage.canaries.watch(path, answer.read())
    with (tmp_path / "threads").open("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        stage.canaries.watch("a dump of all threads", file.read())
    watch_objects(stage, "objects of running brokers")  # type: ignore[arg-type]
    assert stage.canaries.found_lately() == []


@pytest.mark.parametrize("command", ["topic list", "config describe broker 0", "token list", "doctor"])
@pytest.mark.parametrize("is_right", [True, False])
def test_commands(
    stage: Stage, command: str, is_right: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = stage.admin()
    if not is_right:
        lines["ssl.truststore.password"] = stage.canaries.new(f"wrong password in a file of {command}")
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    file.chmod(0o600)
    with contextlib.suppress(SystemExit):
        main([*command.split(), "--command-config", str(file)])
    stage.canaries.watch(f"ottla {command}", "".join(capfd.readouterr()))
    assert stage.canaries.found_lately() == []


@pytest.mark.parametrize("word", ["ssl", "sasl", "token"])
def test_settings_of_a_broker_as_the_command_shows_them(
    stage: Stage, word: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in stage.settings.items():
        monkeypatch.setenv("OTTLA_" + name.replace(".", "_").upper(), value)
    for form in ([], ["--wide"], ["--format", "json"]):
        with contextlib.suppress(SystemExit):
            main(["broker", "settings", word, *form])
    shown = "".join(capfd.readouterr())
    assert word in shown
    stage.canaries.watch("ottla broker settings", shown)
    assert stage.canaries.found_lately() == []
