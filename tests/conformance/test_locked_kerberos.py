"""Kerberos through both locks: a real KDC, TLS, and the rules behind. Long, because it starts a realm.

The matrix of test_locked_python.py with GSSAPI instead of a password. confluent-kafka is left out: its wheels are built
without Kerberos. Needs Debian's krb5-kdc, krb5-admin-server and krb5-user, and pip install 'ottla[gssapi]'; Java's row
wants Java, and that of kcat wants kcat and libsasl2-modules-gssapi-mit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.kerberos import REALM, Realm, free_port, missing
from tests.conformance.locked_broker import MECHANISMS, LockedBroker, locked_broker
from tests.conformance.locked_clients import CLIENTS
from tests.conformance.locked_java import java_file
from tests.conformance.test_java_logins import counted
from tests.conformance.test_locked_java import check_java, compiled
from tests.conformance.test_locked_kcat import KCAT, check_kcat
from tests.conformance.test_locked_python import VALUES, check_client
from tests.patience import HANG_S, wait_until

import ottla
from ottla.errors import AuthenticationFailed, NotConnected
from ottla.net.sasl.kerberos_login import KerberosLogin

pytestmark = pytest.mark.long
if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

USER = "greta"
KEYTAB_USER = "karl"
SESSION_MS = 3_000
PYTHON = [client for client in CLIENTS if client != "confluent"]
OURS = ["ottla", "ottla.aio"]
SASL_MODULES = list(Path("/usr/lib").glob("*/sasl2/libgssapiv2.so*"))


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")) as made, pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        made.log_in(USER)
        yield made


@pytest.fixture(scope="module")
def settings(realm: Realm) -> dict[str, object]:
    """What a broker needs besides to offer Kerberos."""
    keytab = realm.keytab("kafka/localhost")
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    return {
        "sasl.enabled.mechanisms": ",".join((*MECHANISMS, "GSSAPI")),
        "listener.name.sasl_ssl.gssapi.sasl.jaas.config": (
            f'{module} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        ),
    }


@pytest.fixture(scope="module")
def broker(realm: Realm, settings: dict[str, object]) -> Iterator[LockedBroker]:
    with locked_broker(realm.directory, settings, [USER, KEYTAB_USER]) as made:
        made.make_topics([*PYTHON, "java", "kcat"], [USER, KEYTAB_USER])
        yield made


@pytest.mark.parametrize("client", PYTHON)
def test_who_has_a_ticket_writes_and_reads_its_own_topic_and_no_other(broker: LockedBroker, client: str) -> None:
    check_client(client, broker.access("GSSAPI", USER))


@pytest.mark.parametrize("client", OURS)
def test_who_has_a_key_needs_no_ticket(
    realm: Realm, broker: LockedBroker, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{realm.directory / 'nothing'}")
    check_client(client, broker.access("GSSAPI", KEYTAB_USER, realm.keytab(KEYTAB_USER)))


def test_our_client_logs_in_again_before_its_session_ends(settings: dict[str, object], tmp_path: Path) -> None:
    with locked_broker(tmp_path, {**settings, "connections.max.reauth.ms": SESSION_MS}, [USER]) as broker:
        broker.make_topics(["ottla"], [USER])
        access = broker.access("GSSAPI", USER)
        with ottla.Producer(**access.ours()) as producer:

            def has_logged_in_again() -> bool:
                producer.send(access.topic("ottla"), VALUES[0]).result(HANG_S)
                return counted(broker.broker, "successful_reauthentication") > 0

            wait_until(has_logged_in_again, "a login again")
        assert counted(broker.broker, "failed_reauthentication") == 0


def test_who_has_neither_is_told(realm: Realm, broker: LockedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{realm.directory / 'nothing'}")
    with (
        ottla.Producer(**broker.access("GSSAPI", USER).ours()) as producer,
        pytest.raises(AuthenticationFailed, match=r"Kerberos: .*[Cc]redential"),
    ):
        producer.send("any", VALUES[0]).result()


def test_a_realm_that_cannot_be_reached_may_come_back(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is no failed login: the client tries again."""
    login = KerberosLogin("kafka", principal="newcomer", keytab=str(realm.keytab("newcomer")))
    known = Path(realm.environment["KRB5_CONFIG"]).read_text()
    (tmp_path / "krb5.conf").write_text(re.sub(r"kdc = \S+", f"kdc = 127.0.0.1:{free_port()}", known))
    with monkeypatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
        with pytest.raises(NotConnected, match="KDC"):
            asyncio.run(login.prepare("localhost"))
    asyncio.run(login.prepare("localhost"))


def test_a_service_that_the_realm_does_not_know_is_told(broker: LockedBroker) -> None:
    settings = broker.access("GSSAPI", USER).ours() | {"sasl_kerberos_service_name": "nobody"}
    with ottla.Producer(**settings) as producer, pytest.raises(AuthenticationFailed, match="nobody"):
        producer.send("any", VALUES[0]).result()


def test_java_writes_and_reads_its_own_topic_and_no_other(
    realm: Realm, broker: LockedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={realm.environment['KRB5_CONFIG']}")
    access = broker.access("GSSAPI", KEYTAB_USER, realm.keytab(KEYTAB_USER))
    check_java(access, compiled(tmp_path), java_file(access, "", tmp_path))


@pytest.mark.skipif(KCAT is None, reason="needs kcat, and it is not installed")
@pytest.mark.skipif(not SASL_MODULES, reason="needs libsasl2-modules-gssapi-mit, and it is not installed")
def test_kcat_writes_and_reads_its_own_topic_and_no_other(broker: LockedBroker) -> None:
    check_kcat(broker.access("GSSAPI", USER))
