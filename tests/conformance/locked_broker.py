"""A broker of ours with both locks on its door: TLS and a login on one listener, TLS with certificates on the other.

    with locked_broker(directory) as broker:
        broker.access("SCRAM-SHA-512")          # everything that a client of that kind needs to get in

1. Each kind of login has its own user, and each user may do one thing only: write and read topics whose names begin
   with the user's name and a dot, in groups and transactions that begin so. Who gets in as somebody else is
   refused there.
2. The topic OTHERS exists, and only the super user may touch it.
3. Passwords have every character that a file of settings or JAAS could stumble over.
4. Tokens are JWTs, signed with a key of which the broker has the public half in a file.
5. Kerberos is there where a realm is (test_locked_kerberos.py), in further settings of the broker.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from tests.unit.net.tls_files import TlsFiles

import ottla
from ottla.client.admin.access import AclBinding, PatternType, ResourceType
from ottla.client.admin.credentials import ScramMechanism, ScramUpsertion
from ottla.client.admin.operations import AclOperation
from ottla.clock import SystemClock
from ottla.testing import KafkaBroker

MODULE: Final = "org.apache.kafka.common.security"
USERS: Final = {
    "PLAIN": "paula",
    "SCRAM-SHA-256": "sara",
    "SCRAM-SHA-512": "sven",
    "OAUTHBEARER": "olga",
    "mTLS": "carla",
}
LOGINS: Final = tuple(USERS)
MECHANISMS: Final = LOGINS[:-1]
SUPER_USER: Final = "admin"
OTHERS: Final = "others"
TOKEN_LIFE_S: Final = 3600
_KEY: Final = ec.generate_private_key(ec.SECP256R1())


def password_of(user: str) -> str:
    return f"{user}: '\"=;\\ pw"


def token_of(user: str, *, life_s: int = TOKEN_LIFE_S) -> str:
    now_s = SystemClock().now_ms() // 1000
    return jwt.encode({"sub": user, "iat": now_s, "exp": now_s + life_s, "aud": "ottla"}, _KEY, "ES256")


@dataclass(frozen=True)
class Access:
    """How one user gets in."""

    login: str
    user: str
    servers: str
    ca: Path
    store: Path | None
    """A PEM file with the user's certificate and its key, for mTLS only."""
    keytab: Path | None = None
    """A file with the user's key, for GSSAPI; without it, the ticket is in the system's cache."""

    @property
    def password(self) -> str:
        return password_of(self.user)

    @property
    def protocol(self) -> str:
        return "SSL" if self.login == "mTLS" else "SASL_SSL"

    def token(self) -> str:
        return token_of(self.user)

    def topic(self, client: str) -> str:
        """The topic that this user has for tests of one client."""
        return f"{self.user}.{client}"

    @property
    def group(self) -> str:
        return f"{self.user}.group"

    def ours(self) -> dict[str, Any]:
        """The settings of a client of ours."""
        base = {"bootstrap_servers": self.servers, "security_protocol": self.protocol, "ssl_cafile": str(self.ca)}
        if self.store is not None:
            return base | {"ssl_keystore_location": str(self.store)}
        base["sasl_mechanism"] = self.login
        if self.keytab is not None:
            return base | {"sasl_kerberos_principal": self.user, "sasl_kerberos_keytab": str(self.keytab)}
        if self.login == "GSSAPI":
            return base
        if self.login == "OAUTHBEARER":
            return base | {"sasl_oauthbearer_token_provider": self.token}
        return base | {"sasl_username": self.user, "sasl_password": self.password}


class LockedBroker:
    """The broker, its files, and how to get in."""

    def __init__(self, broker: KafkaBroker, files: TlsFiles) -> None:
        self.broker = broker
        self.files = files
        self._sasl, self._tls = (f"localhost:{each.rpartition(':')[2]}" for each in broker.bootstrap_servers.split(","))

    def access(self, login: str, user: str | None = None, keytab: Path | None = None) -> Access:
        """For the user of this kind of login, or for another whom the broker knows by it."""
        user = user or USERS[login]
        is_mutual = login == "mTLS"
        store = self.files.directory / f"{user}.pem" if is_mutual else None
        return Access(login, user, self._tls if is_mutual else self._sasl, self.files.ca, store, keytab)

    def admin(self) -> ottla.Admin:
        """A client of the super user."""
        return ottla.Admin(**self.access("PLAIN", SUPER_USER).ours())

    def principals(self) -> set[str]:
        return self.broker.call(lambda server: {each.principal for each in server.listeners.acceptor.connections})

    def make_topics(self, clients: Sequence[str], users: Iterable[str] = USERS.values()) -> None:
        """A topic for each user and each client."""
        with self.admin() as admin:
            names = [f"{user}.{client}" for user in users for client in clients]
            admin.create_topics([ottla.NewTopic(name, 1, 1) for name in names])


@contextlib.contextmanager
def locked_broker(
    directory: Path, more: Mapping[str, object] | None = None, users: Sequence[str] = ()
) -> Iterator[LockedBroker]:
    """A running broker with its users and rules; keys and certificates are made in the directory. `more` are further
    settings, `users` those whom only they let in."""
    files = TlsFiles(directory)
    for user in (USERS["mTLS"], SUPER_USER):
        files.issue(user)
    with KafkaBroker({**_settings(files), **(more or {})}) as broker:
        locked = LockedBroker(broker, files)
        with locked.admin() as admin:
            _make_users(admin)
            admin.create_acls([rule for user in (*USERS.values(), *users) for rule in _rules(user)])
            admin.create_topics([ottla.NewTopic(OTHERS, 1, 1)])
        yield locked


def _settings(files: TlsFiles) -> dict[str, object]:
    keys = files.directory / "jwks.json"
    keys.write_text(json.dumps({"keys": [ECAlgorithm.to_jwk(_KEY.public_key(), as_dict=True)]}))
    users = " ".join(f'user_{user}="{jaas_text(password_of(user))}"' for user in (USERS["PLAIN"], SUPER_USER))
    return {
        **files.broker_settings("SASL_SSL"),
        "listeners": "SASL_SSL://localhost:0,SSL://localhost:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required"
        f' username="{SUPER_USER}" password="{jaas_text(password_of(SUPER_USER))}" {users};',
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "ottla.oauthbearer.allowed.urls": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "ottla",
        "connection.failed.authentication.delay.ms": 1,
        "delegation.token.secret.key": "shared by all brokers",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{SUPER_USER}",
    }


def jaas_text(text: str) -> str:
    """A text as it stands between the quotes of a JAAS line."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _make_users(admin: ottla.Admin) -> None:
    """Passwords for SCRAM, the super user's too."""
    mechanisms = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
    pairs = [(user, mechanisms[login]) for login in mechanisms for user in (USERS[login], SUPER_USER)]
    for user, mechanism in pairs:
        admin.alter_user_scram_credentials([ScramUpsertion(user, password_of(user), mechanism=mechanism)])


def _rules(user: str) -> list[AclBinding]:
    what = [
        (ResourceType.TOPIC, AclOperation.WRITE),
        (ResourceType.TOPIC, AclOperation.READ),
        (ResourceType.GROUP, AclOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
    ]
    prefixed = PatternType.PREFIXED
    return [AclBinding(kind, f"{user}.", f"User:{user}", may, pattern_type=prefixed) for kind, may in what]
