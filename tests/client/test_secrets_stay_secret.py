"""H9: whatever a broker and its clients write, answer, raise or print has no secret in it.

One broker with logins, rights, tokens, metrics and files of its own, and everything at DEBUG. Canaries go through every
path that takes a secret: settings and JAAS lines, logins that succeed and fail, SCRAM users, tokens, changed settings,
commands. Then all that was seen (log lines of both sides, answers, errors, metrics, a dump of all threads, the repr of
every object of ours that is alive, the files of the broker) is searched for them in many forms.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import logging
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.canaries import Canaries
from tests.patience import HANG_S

from ottla import Admin, Producer
from ottla.broker.settings import BrokerSettings
from ottla.cli.main import main
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.client.admin.credentials import ScramMechanism, ScramUpsertion
from ottla.client.admin.settings import AdminSettings
from ottla.errors import OttlaError
from ottla.testing import KafkaBroker

MODULE = "org.apache.kafka.common.security"
LISTENER = "listener.name.sasl_plaintext"
MALFORMED = (
    "Module required password={0};",
    '{0} required username="a";',
    '"{0}',
    f'{MODULE}.plain.PlainLoginModule required user_a="{{0}}"',
    f'{MODULE}.plain.PlainLoginModule perhaps user_a="{{0}}";',
)


class Stage:
    """A broker full of secrets, and everything that is seen of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.canaries = Canaries()
        self.admin_password = self.canaries.new("password of admin, in a JAAS line of the broker")
        self.secret_key = self.canaries.new("delegation.token.secret.key")
        self.settings = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"{LISTENER}.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required username=admin"
            f' password="{self.admin_password}" user_admin="{self.admin_password}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "delegation.token.secret.key": self.secret_key,
            "connection.failed.authentication.delay.ms": "0",
            "ottla.admin.listener": "127.0.0.1:0",
        }
        self.broker = KafkaBroker(self.settings, directory=directory)

    def login(self, user: str = "admin", password: str | None = None, mechanism: str = "PLAIN") -> dict[str, Any]:
        return {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": self.admin_password if password is None else password,
        }

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


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("secrets"))
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s %(args)r"))
    root, before = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with made.broker:
            yield made
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    made.canaries.watch("log lines of broker and clients", written.getvalue())
    assert "DEBUG" in written.getvalue(), "the log was listened to"
    assert made.canaries.found() == []


def test_settings_of_both_sides(stage: Stage) -> None:
    watch, settings = stage.canaries.watch, BrokerSettings({**stage.settings, "log.dirs": str(stage.directory)})
    watch("settings of the broker", [settings, settings.as_dict(), vars(settings)])
    watch("settings of a client", AdminSettings(stage.login()))
    for wrong in MALFORMED:
        line = wrong.format(stage.canaries.new(f"in the malformed line {wrong!r}"))
        with stage.refused("a malformed JAAS line of a client"):
            Admin({**stage.login(), "sasl.username": None, "sasl.password": None, "sasl.jaas.config": line})
        settings_of_broker = {**stage.settings, f"{LISTENER}.plain.sasl.jaas.config": line}
        with stage.refused("a malformed JAAS line of a broker"), KafkaBroker(settings_of_broker):
            pass
    with stage.refused("a setting of a client that is wrong beside a secret"):
        Admin({**stage.login(), "request.timeout.ms": "soon"})
    assert stage.canaries.found_lately() == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["admin", "nobody"])
def test_logins_that_fail(stage: Stage, mechanism: str, user: str) -> None:
    password = stage.canaries.new(f"wrong password of {user} by {mechanism}")
    with stage.refused(f"a login of {user} by {mechanism}"), Admin(stage.login(user, password, mechanism)) as admin:
        admin.list_topics(timeout=HANG_S)
    with stage.refused("a producer that cannot log in"), Producer(stage.login(user, password, mechanism)) as producer:
        producer.send("t", b"x").result(HANG_S)
    assert stage.canaries.found_lately() == []


def test_users_of_scram(stage: Stage) -> None:
    password = stage.canaries.new("password of a SCRAM user")
    with Admin(stage.login()) as admin:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = ScramUpsertion("carol", password, mechanism)
            stage.canaries.watch("a change of a user", change)
            admin.alter_user_scram_credentials([change], timeout=HANG_S)
        stage.canaries.watch("users as described", admin.describe_user_scram_credentials(timeout=HANG_S))
        refused = ScramUpsertion("dave", stage.canaries.new("password of a refused user"), iterations=1)
        with stage.refused("a user that is refused"):
            admin.alter_user_scram_credentials([refused], timeout=HANG_S)
    with Admin(stage.login("carol", password, "SCRAM-SHA-512")) as carol:
        carol.list_topics(timeout=HANG_S)
        watch_objects(stage, "objects while a SCRAM user is logged in")
    assert stage.canaries.found_lately() == []


def test_tokens(stage: Stage) -> None:
    with Admin(stage.login()) as admin:
        token = admin.create_delegation_token(timeout=HANG_S)
        stage.canaries.add("HMAC of a token", token.hmac)
        stage.canaries.watch("a token", token)
        admin.renew_delegation_token(token.hmac, timeout=HANG_S)
        stage.canaries.watch("tokens as described", admin.describe_delegation_tokens(timeout=HANG_S))
        base = {"bootstrap.servers": stage.broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
        login = {**base, **token.login_settings()}
        with Admin(login) as by_token:
            by_token.list_topics(timeout=HANG_S)
            with stage.refused("a token that is asked for by a token"):
                by_token.renew_delegation_token(token.hmac, timeout=HANG_S)
            watch_objects(stage, "objects while somebody is logged in with a token")
        wrong = stage.canaries.new("HMAC of no token").encode()
        with stage.refused("a token that is not there"):
            admin.renew_delegation_token(wrong, timeout=HANG_S)
        admin.expire_delegation_token(token.hmac, timeout=HANG_S)
        with stage.refused("a login with a token that is gone"), Admin(login) as gone:
            gone.list_topics(timeout=HANG_S)
    assert stage.canaries.found_lately() == []


def test_settings_that_are_described_and_changed(stage: Stage) -> None:
    broker, everywhere = (ConfigResource(ConfigResourceType.BROKER, name) for name in ("0", ""))
    fine = f'{MODULE}.plain.PlainLoginModule required username="admin" password="{stage.admin_password}"'
    fine += f' user_admin="{stage.admin_password}" user_erin="{stage.canaries.new("a password set while running")}";'
    with Admin(stage.login()) as admin:
        admin.incremental_alter_configs(
            {broker: [AlterConfig(f"{LISTENER}.plain.sasl.jaas.config", fine)]}, timeout=HANG_S
        )
        for resource, name, text in (
            (broker, f"{LISTENER}.plain.sasl.jaas.config", "PlainLoginModule required user_admin={0}"),
            (everywhere, "sasl.jaas.config", "{0};"),
            (broker, "delegation.token.secret.key", "{0}"),
            (everywhere, "ssl.truststore.password", "{0}"),
            (broker, "there.is.no.such.password", "{0}"),
        ):
            change = AlterConfig(name, text.format(stage.canaries.new(f"refused value of {name}")))
            with stage.refused(f"a change of {name}"):
                admin.incremental_alter_configs({resource: [change]}, timeout=HANG_S)
        # There is no TLS here that it could be wrong for, so it is taken.
        kept = AlterConfig(f"{LISTENER}.ssl.keystore.password", stage.canaries.new("a TLS password set while running"))
        admin.incremental_alter_configs({broker: [kept]}, timeout=HANG_S)
        for described in (broker, everywhere):
            stage.canaries.watch("settings as described", admin.describe_configs([described], timeout=HANG_S))
    assert stage.canaries.found_lately() == []


def test_metrics_and_a_dump_of_all_threads(stage: Stage, tmp_path: Path) -> None:
    host, port = stage.broker.info.admin_address or ("", 0)
    for path in ("metrics", "health/ready"):
        with urllib.request.urlopen(f"http://{host}:{port}/{path}", timeout=HANG_S) as answer:
            stage.canaries.watch(path, answer.read())
    with (tmp_path / "threads").open("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        stage.canaries.watch("a dump of all threads", file.read())
    assert stage.canaries.found_lately() == []


@pytest.mark.parametrize("command", ["topic list", "user list", "token list", "config describe broker 0", "doctor"])
@pytest.mark.parametrize("is_right", [True, False])
def test_commands(
    stage: Stage, command: str, is_right: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    password = stage.admin_password if is_right else stage.canaries.new(f"wrong password in a file of {command}")
    lines = {**stage.login(password=password)}
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    file.chmod(0o600)
    with contextlib.suppress(SystemExit):
        main([*command.split(), "--command-config", str(file)])
    stage.canaries.watch(f"ottla {command}", "".join(capfd.readouterr()))
    assert stage.canaries.found_lately() == []


def test_objects_and_files(stage: Stage) -> None:
    """The keys of SCRAM users are in the files of a broker, and their passwords are not; nor is any other secret that
    was not set while the broker runs: those are kept as Apache Kafka keeps them."""
    watch_objects(stage, "objects of a running broker")
    assert stage.canaries.found_lately() == []
    files = Canaries()
    files.secrets = {name: secret for name, secret in stage.canaries.secrets.items() if "while running" not in name}
    del files.secrets["password of admin, in a JAAS line of the broker"]  # it was set while running, too
    for path in stage.directory.rglob("*"):
        if path.is_file():
            files.watch(str(path.relative_to(stage.directory)), path.read_bytes())
    assert files.seen_bytes > 0
    assert files.found() == []


def watch_objects(stage: Stage, where: str) -> None:
    """The repr of everything of ours that is alive."""
    for each in gc.get_objects():
        kind = type(each)
        if str(kind.__module__).startswith("ottla."):
            with contextlib.suppress(Exception):  # an object that is half made has no repr
                stage.canaries.watch(f"{where}: {kind.__module__}.{kind.__name__}", repr(each))


def test_the_search_finds_what_is_there() -> None:
    """The canary of the canaries."""
    import base64
    from urllib.parse import quote

    for show in (
        lambda secret: secret,
        lambda secret: f"x {secret} y",
        lambda secret: base64.b64encode(b"ab" + secret.encode() + b"c").decode(),
        lambda secret: base64.urlsafe_b64encode(b"a" + secret.encode()).decode(),
        lambda secret: secret.encode().hex(),
        lambda secret: quote(secret, safe=""),
        lambda secret: {"key": secret.encode()},
        lambda secret: list(secret.encode()),
    ):
        canaries = Canaries()
        secret = canaries.new("it")
        canaries.watch("somewhere", show(secret))
        assert canaries.found(), show(secret)
        assert canaries.found()[0][2] == "somewhere"
