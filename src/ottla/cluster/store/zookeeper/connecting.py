"""From zookeeper.* settings to what kazoo wants.

    zookeeper.connect                host:port,host:port/chroot
    zookeeper.session.timeout.ms     how long ZooKeeper waits for a sign of life
    zookeeper.ssl.*                  TLS with PEM files; a JKS or PKCS#12 store must be turned into PEM first
    zookeeper.sasl.*                 DIGEST-MD5 with a name and a password, or GSSAPI with the ticket cache

Java takes the SASL login from a JAAS file; its Client section has the same username and password.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ottla.errors import InvalidSetting


@dataclass(frozen=True)
class Connection:
    """Where an ensemble is, and how it is spoken to. Secrets are not in the repr."""

    hosts: str
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int | None = None
    in_flight_limit: int = 10
    set_acl: bool = False
    tls: bool = False
    ca_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    sasl_service: str = "zookeeper"

    @property
    def servers(self) -> str:
        return self.hosts.partition("/")[0]

    @property
    def chroot(self) -> str:
        """The path below which the cluster is; empty when it is the root."""
        path = self.hosts.partition("/")[2].strip("/")
        return f"/{path}" if path else ""

    @property
    def connect_timeout_ms(self) -> int:
        return self.connection_timeout_ms or self.session_timeout_ms

    @property
    def patience_ms(self) -> int:
        """How long a question waits for a connection: within it the session has ended, or goes on."""
        return 2 * self.session_timeout_ms

    def for_kazoo(self) -> dict[str, Any]:
        """The arguments of KazooClient."""
        return {
            "hosts": self.servers,
            "timeout": self.session_timeout_ms / 1000,
            # Without a limit, because a broker waits for its ensemble; quickly, because others wait for the broker.
            "connection_retry": {"max_tries": -1, "delay": 0.1, "backoff": 1.5, "max_delay": 1.0},
            "default_acl": None,
            **self._tls(),
            **self._sasl(),
        }

    def _tls(self) -> dict[str, Any]:
        if not self.tls:
            return {}
        for path in (self.ca_location, self.certificate_location, self.key_location):
            _refuse_java_store(path)
        return {
            "use_ssl": True,
            "verify_certs": True,
            "check_hostname": self.check_hostname,
            "ca": self.ca_location,
            "certfile": self.certificate_location,
            "keyfile": self.key_location or self.certificate_location,
            "keyfile_password": self.key_password,
        }

    def _sasl(self) -> dict[str, Any]:
        if self.sasl_mechanism is None:
            return {}
        options: dict[str, Any] = {"mechanism": self.sasl_mechanism, "service": self.sasl_service}
        if self.sasl_username is not None:
            options |= {"username": self.sasl_username, "password": self.sasl_password}
        return {"sasl_options": options}


def _refuse_java_store(path: str | None) -> None:
    if path is not None and path.lower().endswith((".jks", ".p12", ".pfx")):
        raise InvalidSetting(
            f"{path} is a Java key store, but Python's TLS reads PEM. Turn it into PEM "
            "(openssl pkcs12 -in STORE -out FILE.pem -nodes) and give that file with type PEM"
        )


def connection_from(settings: Any) -> Connection:
    """What the broker's settings (broker/settings/cluster.py) say."""
    if not settings.zookeeper_connect:
        raise InvalidSetting("zookeeper.connect is not set")

    def secret(value: Any) -> str | None:
        return None if value is None else value.value

    return Connection(
        hosts=settings.zookeeper_connect,
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connection_timeout_ms=settings.zookeeper_connection_timeout_ms,
        in_flight_limit=settings.zookeeper_max_in_flight_requests,
        set_acl=settings.zookeeper_set_acl,
        tls=settings.zookeeper_ssl_client_enable,
        ca_location=settings.zookeeper_ssl_truststore_location,
        certificate_location=settings.zookeeper_ssl_keystore_location,
        key_password=secret(settings.zookeeper_ssl_keystore_password),
        check_hostname=bool(settings.zookeeper_ssl_endpoint_identification_algorithm),
    )
