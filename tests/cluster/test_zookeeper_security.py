"""ZooKeeper that wants TLS, or a login: the store speaks to a real one of each kind."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.broker.settings import BrokerSettings
from ottla.cluster.changes import AlterConfig, SetScramCredential
from ottla.cluster.model import ALL_BROKERS, ScramCredential, ScramKey
from ottla.cluster.store.interface import NoSession
from ottla.cluster.store.zookeeper.connecting import Connection, connection_from
from ottla.errors import InvalidSetting
from ottla.net.tls import TlsOptions
from ottla.testing.zookeeper import ZooKeeperServer, missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from ottla.cluster.store.zookeeper.store import ZooKeeperStore

JAAS = """Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required user_ottla="secret" user_other="other";
};
"""


def openssl(*arguments: str, cwd: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """An authority, and one certificate for both ends: localhost.pem has the key and the chain."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    key = ["-newkey", "rsa:2048", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-subj", "/CN=ca", "-out", "ca.pem", "-days", "9", cwd=tmp_path)
    openssl("req", *key, "-keyout", "key.pem", "-subj", "/CN=localhost", "-out", "l.csr", cwd=tmp_path)
    (tmp_path / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "ext", "-days", "9"]
    openssl("x509", "-req", "-in", "l.csr", *signing, "-out", "cert.pem", cwd=tmp_path)
    (tmp_path / "localhost.pem").write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
    return tmp_path


def tls_settings(papers: Path) -> list[str]:
    return [
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={papers / 'localhost.pem'}",
        "ssl.keyStore.type=PEM",
        f"ssl.trustStore.location={papers / 'ca.pem'}",
        "ssl.trustStore.type=PEM",
        "client.portUnification=true",
        "authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "ssl.clientAuth=need",
        "ssl.protocol=TLSv1.2",  # Kafka's default; ZooKeeper 3.9 would have 1.3 only
        "ssl.enabledProtocols=TLSv1.2",
    ]


def test_tls_with_certificates_on_both_sides(papers: Path) -> None:
    with ZooKeeperServer(papers / "zk", extra=tls_settings(papers)) as server:
        settings = BrokerSettings(
            {
                "zookeeper.connect": f"{server.connect}/secure",
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.ssl.keystore.location": str(papers / "localhost.pem"),
                "zookeeper.ssl.truststore.location": str(papers / "ca.pem"),
                "zookeeper.ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            }
        )
        store = ZooKeeperStore(connection_from(settings))
        store.load()
        assert store._session._client._connection._socket.cipher()[0] == "ECDHE-RSA-AES128-GCM-SHA256"
        store.commit([AlterConfig(ALL_BROKERS, (("a", "b"),))])
        store.close()
        stranger = ZooKeeperStore(
            Connection(f"{server.connect}/secure", session_timeout_ms=2_000, tls=TlsOptions(str(papers / "ca.pem")))
        )
        with pytest.raises(NoSession, match="TLS failed with"):
            stranger.load()
        stranger.close()


@pytest.mark.skipif(importlib.util.find_spec("puresasl") is None, reason="needs pure-sasl: pip install 'kazoo[sasl]'")
def test_a_login_and_nodes_that_belong_to_it(tmp_path: Path) -> None:
    (tmp_path / "jaas.conf").write_text(JAAS)
    with ZooKeeperServer(
        tmp_path / "zk",
        extra=["authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"],
        java_options=[f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}"],
    ) as server:
        settings = BrokerSettings(
            {
                "zookeeper.connect": server.connect,
                "zookeeper.set.acl": "true",
                "ottla.zookeeper.sasl.mechanism": "DIGEST-MD5",
                "ottla.zookeeper.sasl.username": "ottla",
                "ottla.zookeeper.sasl.password": "secret",
            }
        )
        store = ZooKeeperStore(connection_from(settings))
        store.load()
        store.commit([SetScramCredential(ScramKey("u", 1), ScramCredential(4096, b"a", b"b", b"c"))])
        store.close()
        stranger = KazooClient(server.connect)
        stranger.start()
        try:
            assert stranger.get("/brokers/ids")[0] is None
            with pytest.raises(NoAuthError):
                stranger.create("/brokers/ids/7", b"")
            with pytest.raises(NoAuthError):
                stranger.get("/config/users/u")
        finally:
            stranger.stop()
            stranger.close()
        wrong = ZooKeeperStore(
            Connection(
                server.connect,
                session_timeout_ms=2_000,
                sasl_mechanism="DIGEST-MD5",
                sasl_username="ottla",
                sasl_password="guessed",
            )
        )
        with pytest.raises(NoSession):
            wrong.load()
        wrong.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("zookeeper.ssl.crl.enable", "true"),
        ("zookeeper.ssl.protocol", "TLSv1.1"),
        ("ottla.zookeeper.sasl.mechanism", "PLAIN"),
        ("ottla.zookeeper.sasl.keytab", "/for/another/mechanism"),
    ],
)
def test_what_is_not_possible_is_refused(name: str, value: str) -> None:
    values = {"zookeeper.connect": "h:1", "zookeeper.ssl.client.enable": "true", name: value}
    with pytest.raises(InvalidSetting):
        connection_from(BrokerSettings(values))


def test_secrets_are_not_printed() -> None:
    connection = Connection("h:1/a/b", sasl_mechanism="DIGEST-MD5", sasl_username="u", sasl_password="hidden")
    assert "hidden" not in repr(connection)
    assert (connection.servers, connection.chroot) == ("h:1", "/a/b")
