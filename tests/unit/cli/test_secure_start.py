"""`ottla broker start --secure`: what is made, once, what is printed, what is refused. The server is a stub."""

import errno
import logging
import os
import stat
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from ottla.cli.commands.broker import read_settings, run_start
from ottla.cli.main import make_parser
from ottla.cli.output import OK, Failure
from ottla.cli.secure_certificates import ensure_certificates, hosts_of
from ottla.cli.secure_start import secure
from ottla.net.sasl.jaas import parse_jaas
from ottla.properties import read_properties

NOW = datetime(2026, 11, 15, tzinfo=UTC)
MADE = ["ca-key.pem", "ca.pem", "client.properties", "server.pem", "token.key"]


@dataclass
class Info:
    bootstrap_servers: str = "127.0.0.1:9092"
    broker_id: int = 0
    cluster_id: str = "abc"
    admin_address: tuple[str, int] | None = ("127.0.0.1", 9644)
    http_parts: tuple = ()


@pytest.fixture(autouse=True)
def _keep_logging():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _keep_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def options(data, *words):
    return make_parser(["broker"]).parse_args(["broker", "start", "--data", str(data), *words])


def settings_of(data, *words):
    return read_settings(options(data, "--secure", *words), {})[0]


def start(data, *words, info=None, is_terminal=False):
    """Run the command; returns the users the server was given."""
    seen = {}

    async def serve(settings, *, ready, stop, first_users=()):
        seen.update(users=first_users, settings=settings)
        ready(info or Info())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: is_terminal)
        assert run_start(options(data, *words), {}, serve) == OK
    return seen


def names_in(path):
    certificate = x509.load_pem_x509_certificates(path.read_bytes())[0]
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}


# --- what is made ----------------------------------------------------------------------------------------------------


def test_the_first_start_makes_everything_and_prints_the_password_once(data, capsys):
    (admin,) = start(data, "--secure", is_terminal=True)["users"]
    assert sorted(each.name for each in data.iterdir()) == MADE
    printed = capsys.readouterr().out
    assert f"user admin, password {admin.password} " in printed
    assert printed.splitlines()[-1].startswith("ottla: broker 0 is ready at 127.0.0.1:9092")
    assert (admin.name, admin.replace) == ("admin", True)
    (same,) = start(data, "--secure", is_terminal=True)["users"]
    assert (same.password, same.replace) == (admin.password, False)
    assert admin.password not in capsys.readouterr().out


def fail_to_start(data):
    """A start that ends after the files were made, as where the port is taken."""

    async def serve(settings, *, ready, stop, first_users=()):
        raise OSError(errno.EADDRINUSE, "taken")

    with pytest.raises(Failure, match="the port is taken"):
        run_start(options(data, "--secure"), {}, serve)


def test_a_first_start_that_fails_leaves_the_password_to_be_printed_by_the_next_one(data, capsys):
    fail_to_start(data)
    fail_to_start(data)
    assert "password" not in capsys.readouterr().out
    (admin,) = start(data, "--secure", is_terminal=True)["users"]
    assert f"user admin, password {admin.password} " in capsys.readouterr().out
    assert "no broker has served" not in (data / "client.properties").read_text()
    start(data, "--secure", is_terminal=True)
    assert admin.password not in capsys.readouterr().out


def test_a_new_password_is_set_by_the_first_start_that_serves(data):
    """Otherwise the store would have the old one, and client.properties another."""
    start(data, "--secure")
    (data / "client.properties").unlink()
    fail_to_start(data)
    (admin,) = start(data, "--secure")["users"]
    assert admin.replace
    (same,) = start(data, "--secure")["users"]
    assert (same.password, same.replace) == (admin.password, False)


def test_only_the_owner_reads_what_is_secret(data):
    start(data, "--secure")
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in data.iterdir()}
    assert modes == dict.fromkeys(MADE, 0o600) | {"ca.pem": modes["ca.pem"]}, "an authority's certificate is no secret"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_everything_that_a_secured_broker_makes_is_for_its_owner(data):
    data.mkdir(mode=0o755)

    async def serve(settings, *, ready, stop, first_users=()):
        (data / "orders-0").mkdir()
        (data / "orders-0" / "00000000000000000000.log").touch()
        ready(Info())

    assert run_start(options(data, "--secure"), {}, serve) == OK
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "orders-0").stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "orders-0" / "00000000000000000000.log").stat().st_mode) == 0o600


def test_the_password_is_printed_on_a_terminal_only(data, capsys):
    (admin,) = start(data, "--secure")["users"]
    printed = capsys.readouterr().out
    assert admin.password not in printed
    assert f"user admin, its password is in {data / 'client.properties'}" in printed


def test_a_secret_in_the_arguments_is_warned_of(data):
    _, notes = read_settings(options(data, "--set", "ssl.keystore.password=geheim"), {})
    assert any("list of processes" in note for note in notes)
    assert not any("geheim" in note for note in notes)
    assert not read_settings(options(data, "--set", "num.partitions=3"), {})[1]


def test_the_client_file_is_in_javas_form(data):
    (admin,) = start(data, "--secure")["users"]
    found = read_properties(data / "client.properties")
    login = parse_jaas(found.pop("sasl.jaas.config"))
    assert login.module == "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert login.options == {"username": "admin", "password": admin.password}
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(data / "ca.pem"),
        "bootstrap.servers": "127.0.0.1:9092",
    }


def test_the_client_file_follows_the_port_and_keeps_what_its_owner_wrote(data):
    start(data, "--secure")
    with (data / "client.properties").open("a") as file:
        file.write("client.id=me\n")
    start(data, "--secure", info=Info("127.0.0.1:41234"))
    found = read_properties(data / "client.properties")
    assert (found["bootstrap.servers"], found["client.id"]) == ("127.0.0.1:41234", "me")
    assert stat.S_IMODE((data / "client.properties").stat().st_mode) == 0o600


def test_who_removes_the_client_file_gets_a_new_password_and_the_same_certificates(data):
    (before,) = start(data, "--secure")["users"]
    authority = (data / "ca.pem").read_bytes()
    (data / "client.properties").unlink()
    (after,) = start(data, "--secure")["users"]
    assert after.password != before.password
    assert after.replace
    assert (data / "ca.pem").read_bytes() == authority


def test_tokens_can_be_made_and_their_secret_stays(data):
    first, second = (start(data, "--secure")["settings"].delegation_token_secret_key for _ in range(2))
    assert first == second
    assert len(first.value) == 24
    own = start(data, "--secure", "--set", "delegation.token.secret.key=mine")["settings"]
    assert own.delegation_token_secret_key.value == "mine"


def test_a_client_file_about_somebody_else_makes_no_user(data):
    start(data, "--secure")
    (data / "client.properties").write_text("client.id=me\n")
    assert start(data, "--secure")["users"] == []


# --- certificates ----------------------------------------------------------------------------------------------------


def test_a_certificate_has_the_names_clients_may_use(data):
    settings = settings_of(data, "--listen", "127.0.0.7:9092", "--set", "advertised.listeners=SASL_SSL://kafka.test:1")
    secure(settings, NOW)
    assert {"localhost", "127.0.0.1", "::1", "127.0.0.7", "kafka.test"} <= names_in(data / "server.pem")


def test_a_listener_on_every_interface_has_the_addresses_of_the_machine(data, monkeypatch):
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("10.1.2.3", 0))])
    settings = settings_of(data, "--listen", ":9092")
    assert "10.1.2.3" in hosts_of(settings.endpoints)


def test_certificates_are_made_anew_only_when_a_name_is_missing_or_they_end_soon(data):
    data.mkdir()
    ensure_certificates(data, ["a.test"], NOW)
    authority, first = (data / "ca.pem").read_bytes(), (data / "server.pem").read_bytes()
    ensure_certificates(data, ["a.test"], NOW + timedelta(days=700))
    assert (data / "server.pem").read_bytes() == first
    ensure_certificates(data, ["b.test"], NOW)
    assert names_in(data / "server.pem") == {"a.test", "b.test"}
    second = (data / "server.pem").read_bytes()
    ensure_certificates(data, ["a.test"], NOW + timedelta(days=800))
    assert (data / "server.pem").read_bytes() not in (first, second)
    assert (data / "ca.pem").read_bytes() == authority
    issued = x509.load_pem_x509_certificates((data / "server.pem").read_bytes())[0]
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))


def test_what_was_left_half_made_is_made(data):
    data.mkdir()
    (data / "ca-key.pem").write_text("half")
    (data / "server.pem").write_text("half")
    ensure_certificates(data, ["a.test"], NOW)
    assert names_in(data / "server.pem") == {"a.test"}


def test_an_authority_without_its_key_is_told_and_not_replaced(data):
    data.mkdir()
    ensure_certificates(data, ["a.test"], NOW)
    (data / "ca-key.pem").unlink()
    with pytest.raises(Failure, match=r"ca-key\.pem is not there"):
        ensure_certificates(data, ["a.test"], NOW)
    (data / "ca-key.pem").write_text("x")
    with pytest.raises(Failure, match="cannot be used"):
        ensure_certificates(data, ["a.test"], NOW)


def test_your_own_certificate_is_used(data, tmp_path):
    own = tmp_path / "own.pem"
    words = [
        f"--set=ssl.keystore.location={own}",
        "--set=ssl.keystore.type=PEM",
        "--set=ssl.truststore.location=/etc/our-ca.pem",
        "--set=ssl.truststore.type=PEM",
    ]
    settings = settings_of(data, *words)
    assert settings.ssl_keystore_location == str(own)
    secure(settings, NOW)
    assert sorted(each.name for each in data.iterdir()) == ["client.properties", "token.key"]
    assert read_properties(data / "client.properties")["ssl.truststore.location"] == "/etc/our-ca.pem"


# --- settings --------------------------------------------------------------------------------------------------------


def test_everything_is_locked(data):
    settings = settings_of(data)
    assert [str(each) for each in settings.endpoints] == ["SASL_SSL://127.0.0.1:9092"]
    assert settings.inter_broker_listener.protocol == "SASL_SSL"
    assert settings.sasl_enabled_mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256")
    assert settings.authorizer_class_name.endswith(".StandardAuthorizer")
    assert settings.super_users == "User:admin"
    assert settings.ottla_admin_login
    assert settings.ssl_keystore_location == str(data / "server.pem")


def test_other_super_users_stay(data):
    assert settings_of(data, "--set", "super.users=User:root").super_users == "User:root"
    file = data.parent / "server.properties"
    file.write_text("super.users=User:root;User:admin\n")
    assert settings_of(data, "--config", str(file)).super_users == "User:admin;User:root"


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("listeners=PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://127.0.0.1:9092 is not SASL_SSL"),
        ("authorizer.class.name=", "there is no authorizer"),
        ("allow.everyone.if.no.acl.found=true", "allow.everyone.if.no.acl.found is set"),
        ("ottla.admin.login=false", "ottla.admin.login is off"),
        ("ottla.allow.insecure.listeners=true", "ottla.allow.insecure.listeners is set"),
    ],
)
def test_what_contradicts_it_ends_the_start_before_anything_is_made(data, word, problem):
    with pytest.raises(Failure, match="contradict each other") as failure:
        start(data, "--secure", "--set", word)
    assert problem in str(failure.value)
    assert not data.exists()


def test_a_member_of_a_cluster_does_not_secure_itself(data):
    with pytest.raises(Failure, match="a broker of its own"):
        start(data, "--secure", "--zookeeper", "127.0.0.1:2181")
    assert not data.exists()


def test_secure_and_insecure_are_not_both(data):
    with pytest.raises(Failure, match="contradict"):
        start(data, "--secure", "--insecure")


def test_the_admin_port_may_be_off(data):
    assert settings_of(data, "--set", "ottla.admin.listener=", "--set", "ottla.admin.login=false").admin_address is None


def test_a_directory_that_was_secured_is_not_opened_by_a_forgotten_word(data):
    start(data, "--secure")
    with pytest.raises(Failure, match="was secured"):
        start(data)
    start(data, "--insecure")
    start(data, "--secure")
