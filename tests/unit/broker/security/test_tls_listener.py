"""Listeners with TLS of a real broker: who is let in, who he is, and new certificates while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from tests.patience import HANG_S
from tests.unit.net.tls_files import CLIENT, HOSTS, LONG_AGO, SERVER, Authority, TlsFiles

from ottla.broker.network.processor import Connection
from ottla.broker.security.tls_listeners import CHECK_MS, TlsListeners
from ottla.broker.server import Server
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.dynamic import DynamicSettings
from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.errors import InvalidRequest, InvalidSetting, SaslAuthenticationFailed, TlsHandshakeFailed
from ottla.metrics import Registry
from ottla.testing.broker import KafkaBroker
from ottla.testing.clock import ManualClock

ALICE = x509.Name(
    [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Ottla"),
        x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "people"),
        x509.NameAttribute(NameOID.COMMON_NAME, "Alice"),
    ]
)

BROKER_0 = ConfigResource(ConfigResourceType.BROKER, "0")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make("Test CA")


@pytest.fixture
def files(tmp_path: Path, authority: Authority) -> TlsFiles:
    made = TlsFiles(tmp_path, authority)
    made.issue("alice", subject=ALICE)
    return made


def port_of(broker: KafkaBroker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def trusting(files: TlsFiles, store: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(files.ca)
    if store is not None:
        context.load_cert_chain(files.directory / f"{store}.pem")
    return context


@contextlib.contextmanager
def connected(broker: KafkaBroker, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    """A connection whose handshake both sides have completed: an answer came by it."""
    plain = socket.create_connection(("127.0.0.1", port_of(broker)), timeout=HANG_S)
    with context.wrap_socket(plain, server_hostname="localhost") as sock:
        ask_versions(sock)
        yield sock


def ask_versions(sock: ssl.SSLSocket) -> None:
    """ApiVersions 0, and its whole answer."""
    sock.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
    size = int.from_bytes(exactly(sock, 4), "big")
    exactly(sock, size)


def exactly(sock: ssl.SSLSocket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = sock.recv(count - len(found))
        assert more, "closed in the middle of an answer"
        found += more
    return found


def shown(sock: ssl.SSLSocket) -> int:
    certificate = sock.getpeercert(True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


def connections(broker: KafkaBroker) -> list[Connection]:
    return broker.call(lambda server: list(server.listeners.acceptor.connections))


# --- who is let in ---------------------------------------------------------------------------------------------------


def test_records_go_through_tls_in_both_directions(files: TlsFiles) -> None:
    import ottla

    with KafkaBroker(files.broker_settings()) as broker:
        common = {"bootstrap_servers": broker.bootstrap_servers, **files.client_settings()}
        values = [bytes([number]) * size for number, size in enumerate((10, 5_000, 70_000, 900_000))]
        with ottla.Producer(**common) as producer:
            for value in values:
                producer.send("t", value).result(HANG_S)
        with ottla.Consumer("t", group_id="g", auto_offset_reset="earliest", **common) as consumer:
            found = [record.value for record in itertools.islice(consumer, len(values))]
        assert found == values


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_spoken(files: TlsFiles, version: ssl.TLSVersion) -> None:
    with KafkaBroker(files.broker_settings()) as broker:
        context = trusting(files)
        context.minimum_version = context.maximum_version = version
        with connected(broker, context) as sock:
            assert sock.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_older_versions_and_weak_suites_are_refused(files: TlsFiles) -> None:
    with KafkaBroker(files.broker_settings()) as broker:
        old = trusting(files)
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)), connected(broker, old):
            pass
        weak = trusting(files)
        weak.maximum_version = ssl.TLSVersion.TLSv1_2
        weak.set_ciphers("AES128-SHA:NULL-SHA256:DES-CBC3-SHA:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)), connected(broker, weak):
            pass
        with connected(broker, trusting(files)):
            pass


def make_bad(files: TlsFiles, what: str) -> None:
    """A client's certificate that must not be accepted."""
    if what == "expired":
        files.issue("bad", now=LONG_AGO)
    elif what == "of another authority":
        files.write("bad", Authority.make("Other CA").issue("alice"))
    elif what == "made by itself":
        (files.directory / "bad.pem").write_text(_self_signed(Authority.make("alice")))
    elif what == "for servers only":
        files.issue("bad", usages=(SERVER,))


def _self_signed(own: Authority) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode() + own.pem


@pytest.mark.parametrize("what", ["expired", "of another authority", "made by itself", "for servers only", "none"])
def test_a_client_with_a_bad_certificate_is_refused(
    files: TlsFiles, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_bad(files, what)
    context = trusting(files, None if what == "none" else "bad")
    with caplog.at_level(logging.INFO), KafkaBroker(files.broker_settings(ssl_client_auth="required")) as broker:
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)), connected(broker, context):
            pass
        with connected(broker, trusting(files, "alice")):  # nobody else is disturbed
            pass
        text = broker.call(lambda server: server.registry.text(0))
    lines = [each for each in caplog.records if "the TLS handshake with 127.0.0.1 failed" in each.getMessage()]
    assert len(lines) == 1
    assert lines[0].levelno == logging.INFO
    assert lines[0].exc_info is None
    assert 'failed_authentication_total{listener="SSL",networkProcessor="0"} 1' in text


@pytest.mark.parametrize("what", ["expired", "another authority", "made by itself", "for clients only", "wrong host"])
def test_a_broker_with_a_bad_certificate_is_refused_by_the_client(files: TlsFiles, what: str) -> None:
    if what == "expired":
        files.issue("server", hosts=HOSTS, now=LONG_AGO)
    elif what == "another authority":
        files.write("server", Authority.make("Other CA").issue("server", hosts=HOSTS))
    elif what == "made by itself":
        files.server.write_text(_self_signed(Authority.make("localhost")))
    elif what == "for clients only":
        files.issue("server", hosts=HOSTS, usages=(CLIENT,))
    else:
        files.issue("server", hosts=["elsewhere.example"])
    # A listener that brokers use must accept itself; this one is for clients only.
    listeners = {
        **files.broker_settings(),
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "PLAINTEXT",
    }
    with KafkaBroker(listeners) as broker:
        address = broker.bootstrap_servers.split(",")[1]
        with pytest.raises(TlsHandshakeFailed), Admin(bootstrap_servers=address, **files.client_settings()) as admin:
            admin.list_topics()


# --- who he is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "store", "principal"),
    [
        ("required", "alice", "User:CN=Alice,OU=people,O=Ottla"),
        ("requested", "alice", "User:CN=Alice,OU=people,O=Ottla"),
        ("requested", None, "User:ANONYMOUS"),
        ("none", "alice", "User:ANONYMOUS"),
    ],
)
def test_the_certificate_says_who_a_client_is(files: TlsFiles, auth: str, store: str | None, principal: str) -> None:
    with (
        KafkaBroker(files.broker_settings(ssl_client_auth=auth)) as broker,
        connected(broker, trusting(files, store)),
    ):
        (connection,) = connections(broker)
        assert connection.principal == principal
        assert connection.security_protocol == "SSL"


def test_rules_make_a_name_of_the_subject_and_whom_none_fits_is_refused(files: TlsFiles) -> None:
    files.issue("bob")
    rules = "RULE:^CN=(.*?),OU=people.*$/$1/L"
    settings = files.broker_settings(ssl_client_auth="required", ssl_principal_mapping_rules=rules)
    with KafkaBroker(settings) as broker:
        with connected(broker, trusting(files, "alice")):
            assert [each.principal for each in connections(broker)] == ["User:alice"]
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)), connected(broker, trusting(files, "bob")):
            pass


def test_a_listener_has_its_own_settings(files: TlsFiles, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = TlsFiles(tmp_path / "other", Authority.make("Other CA"))
    settings = {
        **files.broker_settings(),
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SSL",
        "inter.broker.listener.name": "INSIDE",
        "listener.name.outside.ssl.keystore.location": str(other.server),
        "listener.name.outside.ssl.client.auth": "required",
    }
    del settings["security.inter.broker.protocol"]
    with KafkaBroker(settings) as broker:
        inside, outside = (int(each.rpartition(":")[2]) for each in broker.bootstrap_servers.split(","))
        for port, context in ((inside, trusting(files)), (outside, trusting(other))):
            if port == outside:
                context.load_cert_chain(files.directory / "alice.pem")
            plain = socket.create_connection(("127.0.0.1", port), timeout=HANG_S)
            with context.wrap_socket(plain, server_hostname="localhost") as sock:
                ask_versions(sock)


# --- what cannot be started ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ssl.keystore.location": "/nowhere/x.pem"}, "listener SSL: .*nowhere/x.pem cannot be read"),
        ({"ssl.keystore.location": None}, "needs a certificate and its key"),
        ({"ssl.client.auth": "required", "ssl.truststore.location": None}, "whose certificates count"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "older ones are broken"),
        ({"ssl.principal.mapping.rules": "RULE:(?=x)/y/"}, "cannot be used"),
        ({"ssl.truststore.password": "hunter2hunter2"}, "a PEM file, which has none"),
    ],
)
def test_a_listener_that_cannot_work_is_refused_at_the_start(
    files: TlsFiles, change: dict[str, object], why: str
) -> None:
    settings = {**files.broker_settings(), **change}
    settings = {name: value for name, value in settings.items() if value is not None}
    with pytest.raises(InvalidSetting, match=why) as refused, KafkaBroker(settings):
        pass
    assert "hunter2" not in str(refused.value)


def tls_listeners(dynamic: DynamicSettings, clock: ManualClock, *, is_member: bool = False) -> TlsListeners:
    return TlsListeners(dynamic, Registry(), clock, endpoints=dynamic.current.endpoints, is_member=is_member)


def test_a_certificate_that_other_brokers_would_refuse_is_refused_at_the_start(files: TlsFiles) -> None:
    files.issue("server", hosts=HOSTS, usages=(SERVER,))
    settings = files.broker_settings()
    with pytest.raises(InvalidSetting, match="other brokers would refuse"):
        tls_listeners(DynamicSettings(BrokerSettings(settings)), ManualClock(), is_member=True)
    with KafkaBroker(settings) as alone, connected(alone, trusting(files)):
        pass  # nobody else is there


def test_a_broker_of_its_own_needs_no_trust_store(files: TlsFiles) -> None:
    settings = files.broker_settings()
    del settings["ssl.truststore.location"], settings["ssl.truststore.type"]
    with KafkaBroker(settings) as broker, connected(broker, trusting(files)):
        pass


@pytest.mark.parametrize(("auth", "is_fine"), [("required", True), ("requested", False), ("none", False)])
def test_a_public_listener_wants_certificates(files: TlsFiles, auth: str, is_fine: bool) -> None:
    settings = {**files.broker_settings(ssl_client_auth=auth), "listeners": "SSL://192.0.2.1:9093"}
    if is_fine:
        BrokerSettings(settings)
        return
    with pytest.raises(InvalidSetting, match="asks for no login"):
        BrokerSettings(settings)
    BrokerSettings({**settings, "ottla.allow.insecure.listeners": "true"})


# --- new certificates while it runs ----------------------------------------------------------------------------------


def check_files_now(broker: KafkaBroker) -> None:
    def check(server: Server) -> None:
        assert server.listeners.tls is not None
        server.listeners.tls._check_files()

    broker.call(check)


def test_a_new_certificate_on_the_disk_is_used_and_nobody_is_dropped(files: TlsFiles) -> None:
    with KafkaBroker(files.broker_settings()) as broker, connected(broker, trusting(files)) as before:
        old = shown(before)
        files.issue("server", hosts=HOSTS)
        check_files_now(broker)
        with connected(broker, trusting(files)) as after:
            assert shown(after) != old
        ask_versions(before)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda files: files.server.write_text("junk"), "no certificate"),
        (lambda files: files.server.unlink(), "cannot be read"),
        (lambda files: files.issue("server", subject=ALICE, hosts=HOSTS), "ssl.allow.dn.changes"),
        (lambda files: files.issue("server", hosts=["localhost"]), "lacks names .*127.0.0.1"),
    ],
)
def test_a_bad_store_on_the_disk_is_logged_once_and_the_old_one_stays(
    files: TlsFiles, damage: Callable[[TlsFiles], object], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with KafkaBroker(files.broker_settings()) as broker:
        with connected(broker, trusting(files)) as before:
            old = shown(before)
        damage(files)
        for _ in range(3):
            check_files_now(broker)
        with connected(broker, trusting(files)) as after:
            assert shown(after) == old
    lines = [each for each in caplog.records if "is not used" in each.getMessage()]
    assert len(lines) == 1
    assert re.search(why, lines[0].getMessage())


def test_alter_configs_brings_a_new_store_and_refuses_a_broken_one(files: TlsFiles) -> None:
    newer = files.issue("newer", subject=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")]), hosts=HOSTS)
    broken = files.directory / "broken.pem"
    broken.write_text("junk")
    key = "listener.name.ssl.ssl.keystore.location"
    with KafkaBroker(files.broker_settings()) as broker, connected(broker, trusting(files)) as before:
        old = shown(before)
        with Admin(bootstrap_servers=broker.bootstrap_servers, **files.client_settings()) as admin:
            with pytest.raises(InvalidRequest, match=r"broken\.pem.*no certificate"):
                admin.incremental_alter_configs({BROKER_0: [AlterConfig(key, str(broken))]})
            with connected(broker, trusting(files)) as same:
                assert shown(same) == old
            admin.incremental_alter_configs({BROKER_0: [AlterConfig(key, str(newer))]})
        with connected(broker, trusting(files)) as after:
            assert shown(after) != old
        ask_versions(before)


STORE = "listener.name.ssl.ssl.keystore.location"
TRUST = "listener.name.ssl.ssl.truststore.location"
CLIENT_AUTH = "listener.name.ssl.ssl.client.auth"


def test_a_store_that_was_set_while_running_and_is_gone_does_not_stop_the_next_start(
    files: TlsFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newer = files.issue("newer", subject=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")]), hosts=HOSTS)
    settings, data = files.broker_settings(), tmp_path / "data"
    with KafkaBroker(settings, directory=data) as broker, connected(broker, trusting(files)) as first:
        static = shown(first)
        change(broker, files, {STORE: str(newer), "max.connections": "77"})
        with connected(broker, trusting(files)) as after:
            assert shown(after) != static
    kept = newer.read_text()
    newer.unlink()
    with KafkaBroker(settings, directory=data) as broker:
        with connected(broker, trusting(files)) as again:
            assert shown(again) == static
        assert broker.call(lambda server: server.broker.settings.max_connections) == 77
        assert re.search(rf"listener SSL: .*newer\.pem.* {STORE}: not used", caplog.text)
        newer.write_text(kept)  # brought back, and set again: used again
        change(broker, files, {STORE: str(newer)})
        with connected(broker, trusting(files)) as repaired:
            assert shown(repaired) != static


def test_without_the_trust_store_it_was_told_of_a_listener_does_not_ask_for_less(
    files: TlsFiles, tmp_path: Path
) -> None:
    """It must require certificates: it does so with the trust store of the file, or the broker does not start."""
    settings, data = files.broker_settings(), tmp_path / "data"
    own = files.directory / "own-ca.pem"
    own.write_text(files.ca.read_text())
    with KafkaBroker(settings, directory=data) as broker:
        change(broker, files, {TRUST: str(own), CLIENT_AUTH: "required"})
    own.unlink()
    with KafkaBroker(settings, directory=data) as broker:
        with pytest.raises((ssl.SSLError, ConnectionError)), connected(broker, trusting(files)):
            pass
        with connected(broker, trusting(files, "alice")):
            pass
    without = {name: value for name, value in settings.items() if "truststore" not in name}
    with pytest.raises(InvalidSetting, match=r"listener SSL: ssl\.client\.auth=required, but nothing says whose"):
        KafkaBroker(without, directory=data).start()


def test_a_store_that_another_tool_wrote_and_that_cannot_be_used_changes_nothing(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """A member hears of it by its cluster's store, where nobody has checked it."""

    async def scenario() -> None:
        dynamic = DynamicSettings(BrokerSettings(files.broker_settings()))
        listeners = tls_listeners(dynamic, ManualClock())
        listeners.start()
        listener = listeners.get("SSL")
        assert listener is not None
        before = listener._material.options
        dynamic.load({}, {STORE: "/nowhere.pem", "max.connections": "77"})
        assert listener._material.options == before
        assert dynamic.current.max_connections == 77
        assert STORE not in dynamic.values("per-broker")
        listeners.stop()

    asyncio.run(scenario())
    assert "stored per-broker settings are not used: Settings could not be applied" in caplog.text
    assert f"{STORE}: listener SSL: ssl.keystore.location=/nowhere.pem cannot be read" in caplog.text


def change(broker: KafkaBroker, files: TlsFiles, values: dict[str, str]) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers, **files.client_settings()) as admin:
        admin.incremental_alter_configs({BROKER_0: [AlterConfig(name, value) for name, value in values.items()]})


def test_files_are_looked_at_by_the_clock(files: TlsFiles) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        settings = BrokerSettings(files.broker_settings())
        listeners = tls_listeners(DynamicSettings(settings), clock)
        listeners.start()
        listener = listeners.get("SSL")
        assert listener is not None
        before = listener.context
        files.issue("server", hosts=HOSTS)
        await clock.advance(CHECK_MS - 1)
        assert listener.context is before
        await clock.advance(1)
        assert listener.context is not before
        listeners.stop()

    asyncio.run(scenario())


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_handshake_that_never_ends_counts_as_a_connection(files: TlsFiles) -> None:
    with KafkaBroker(files.broker_settings(max_connections="2")) as broker, connected(broker, trusting(files)):
        with socket.create_connection(("127.0.0.1", port_of(broker)), timeout=HANG_S) as half_open:
            half_open.sendall(b"\x16\x03\x01")
            wait_for_count(broker, 2)
            with socket.create_connection(("127.0.0.1", port_of(broker)), timeout=HANG_S) as third:
                assert is_closed(third)
        wait_for_count(broker, 1)
        with connected(broker, trusting(files)):
            pass


def test_a_rate_of_connections_holds_before_any_handshake(files: TlsFiles) -> None:
    """Who would wait too long is turned away though he has not said a word of TLS."""
    settings = files.broker_settings(max_connection_creation_rate="1", quota_window_num="2")
    with KafkaBroker(settings) as broker:
        sockets = [socket.create_connection(("127.0.0.1", port_of(broker)), timeout=HANG_S) for _ in range(50)]
        assert any(is_closed(each) for each in reversed(sockets))
        for each in sockets:
            each.close()


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def wait_for_count(broker: KafkaBroker, count: int) -> None:
    deadline = threading.Event()
    for _ in range(int(HANG_S * 100)):
        if broker.call(lambda server: server.listeners.acceptor.limits.count) == count:
            return
        deadline.wait(0.01)
    raise AssertionError(f"there are not {count} connections")


def test_a_login_goes_through_tls(files: TlsFiles) -> None:
    """SASL_SSL: the certificate is the broker's, the name is the login's."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        **files.broker_settings("SASL_SSL", ssl_client_auth="required"),  # without the listener's name it is SSL's
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.jaas.config": f'{module} required username="x" password="y" user_alice="pencil" user_x="y";',
        "connection.failed.authentication.delay.ms": "1",
    }
    settings["listener.name.sasl_ssl.plain.sasl.jaas.config"] = settings.pop("sasl.jaas.config")
    with KafkaBroker(settings) as broker:
        login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "alice"}
        common = {"bootstrap_servers": broker.bootstrap_servers, **files.client_settings(), **login}
        with Admin(sasl_password="pencil", **common) as admin:
            admin.list_topics()
            assert {(each.principal, each.security_protocol) for each in connections(broker)} == {
                ("User:alice", "SASL_SSL")
            }
        with pytest.raises(SaslAuthenticationFailed), Admin(sasl_password="wrong", **common) as admin:
            admin.list_topics()
        text = broker.call(lambda server: server.registry.text(0))
    assert 'failed_authentication_total{listener="SASL_SSL",networkProcessor="0"} 1' in text
