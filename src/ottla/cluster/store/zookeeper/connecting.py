"""From zookeeper.* settings to a connection.

    zookeeper.connect                host:port,host:port/chroot
    zookeeper.session.timeout.ms     how long ZooKeeper waits for a sign of life
    zookeeper.ssl.*                  TLS with PEM, PKCS#12 or JKS stores (net/tls/stores.py)
    ottla.zookeeper.sasl.*           DIGEST-MD5 with a name and a password, or GSSAPI with a keytab or the ticket cache
    zookeeper.set.acl                what is written may be changed by those only who log in like this broker

Java takes the SASL login from the section `Client` of a JAAS file; name and password are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass, field
from ottla.net.tls import VERSIONS, TlsOptions

MECHANISMS: Final = ("DIGEST-MD5", "GSSAPI")


@dataclass(frozen=True)
class Connection:
    """Where an ensemble is, and how it is spoken to. Secrets are not in the repr."""

    hosts: str
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int | None = None
    in_flight_limit: int = 10
    set_acl: bool = False
    tls: TlsOptions | None = None
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    sasl_keytab: str | None = None
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
        """The arguments of KazooClient, but for TLS, which is ours."""
        return {
            "hosts": self.servers,
            "timeout": self.session_timeout_ms / 1000,
            # Without a limit, because a broker waits for its ensemble; quickly, because others wait for the broker.
            "connection_retry": {"max_tries": -1, "delay": 0.1, "backoff": 1.5, "max_delay": 1.0},
            **self._sasl(),
        }

    def _sasl(self) -> dict[str, Any]:
        if self.sasl_mechanism is None:
            return {}
        if self.sasl_mechanism == "GSSAPI":
            from ottla.cluster.store.zookeeper.kerberos import sasl_options

            return {"sasl_options": sasl_options(self.sasl_service, self.sasl_username, self.sasl_keytab)}
        options: dict[str, Any] = {"mechanism": self.sasl_mechanism, "service": self.sasl_service}
        if self.sasl_username is not None:
            options |= {"username": self.sasl_username, "password": self.sasl_password}
        return {"sasl_options": options}


def connection_from(settings: Any) -> Connection:
    """What the broker's settings (broker/settings/cluster.py) say."""
    if not settings.zookeeper_connect:
        raise InvalidSetting("zookeeper.connect is not set")
    mechanism = settings.ottla_zookeeper_sasl_mechanism
    if mechanism is not None and mechanism not in MECHANISMS:
        raise InvalidSetting(f"ottla.zookeeper.sasl.mechanism is {mechanism}; there is {' and '.join(MECHANISMS)}")
    _check_login(settings, mechanism)
    return Connection(
        hosts=settings.zookeeper_connect,
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connection_timeout_ms=settings.zookeeper_connection_timeout_ms,
        in_flight_limit=settings.zookeeper_max_in_flight_requests,
        set_acl=settings.zookeeper_set_acl,
        tls=_tls(settings) if settings.zookeeper_ssl_client_enable else None,
        sasl_mechanism=mechanism,
        sasl_username=settings.ottla_zookeeper_sasl_username,
        sasl_password=_secret(settings.ottla_zookeeper_sasl_password),
        sasl_keytab=settings.ottla_zookeeper_sasl_keytab,
        sasl_service=settings.ottla_zookeeper_sasl_service,
    )


def _check_login(settings: Any, mechanism: str | None) -> None:
    """What cannot work, or would be left out of the login, is refused at the start."""
    name, keytab = settings.ottla_zookeeper_sasl_username, settings.ottla_zookeeper_sasl_keytab
    password = settings.ottla_zookeeper_sasl_password
    if mechanism == "GSSAPI":
        from ottla.net.sasl.gssapi_server import kerberos_library

        kerberos_library()
        if password is not None:
            raise InvalidSetting("GSSAPI has no ottla.zookeeper.sasl.password; set ottla.zookeeper.sasl.keytab")
        if keytab is not None and not name:
            raise InvalidSetting("ottla.zookeeper.sasl.keytab needs ottla.zookeeper.sasl.username, whose key it has")
    elif keytab is not None:
        raise InvalidSetting("ottla.zookeeper.sasl.keytab is for ottla.zookeeper.sasl.mechanism=GSSAPI")


def _tls(settings: Any) -> TlsOptions:
    for name in ("crl", "ocsp"):
        if getattr(settings, f"zookeeper_ssl_{name}_enable"):
            raise InvalidSetting(f"zookeeper.ssl.{name}.enable is not possible with Python's TLS; leave it out")
    versions = settings.zookeeper_ssl_enabled_protocols or [settings.zookeeper_ssl_protocol]
    unknown = [version for version in versions if version not in VERSIONS]
    if unknown:
        raise InvalidSetting(f"TLS for ZooKeeper is {' or '.join(VERSIONS)}, not {', '.join(unknown)}")
    store, password = settings.zookeeper_ssl_keystore_location, _secret(settings.zookeeper_ssl_keystore_password)
    # ZooKeeper has one password for a store and for a locked key in a PEM file; only one of them can be meant.
    is_pem = (settings.zookeeper_ssl_keystore_type or Path(store or "").suffix[1:]).upper() == "PEM"
    return TlsOptions(
        ca_location=settings.zookeeper_ssl_truststore_location,
        ca_type=settings.zookeeper_ssl_truststore_type,
        ca_password=_secret(settings.zookeeper_ssl_truststore_password),
        store_location=store,
        store_type=settings.zookeeper_ssl_keystore_type,
        store_password=None if is_pem else password,
        key_password=password if is_pem else None,
        check_hostname=(settings.zookeeper_ssl_endpoint_identification_algorithm or "").upper() == "HTTPS",
        versions=versions,
        ciphers=settings.zookeeper_ssl_cipher_suites or (),
    )


def _secret(value: Any) -> str | None:
    return None if value is None else value.value
