"""`ottla broker start --secure`: a broker behind a lock in one command, on one machine.

1. Made once, in the data directory: an authority and a server certificate (secure_certificates.py), a user `admin` with
   a random password, `client.properties`, with which every Kafka tool and client gets in, and the secret of delegation
   tokens. The next start uses them.
2. Where the settings name certificates (ssl.keystore.location), those are used and none are made; where they name whom
   clients trust (ssl.truststore.location), client.properties has that.
3. Every listener is SASL_SSL with SCRAM, access rules are on and nobody but admin has any, metrics over HTTP want the
   same login. A setting that contradicts this ends the start: what is called secure is.
4. The password is printed once, when the broker serves for the first time, and only on a terminal: a log that a
   supervisor keeps is read by others. A start that fails before that leaves a line in client.properties, and the next
   one prints it. It is in client.properties, which only its owner can read; who removes that file gets a new password
   at the next start.
5. The data directories are for their owner alone (0700), and so is every file that is made from then on: the metadata
   has the keys of all users, the logs have everybody's records.
6. A data directory that was secured does not open without a lock by mistake: that takes --insecure.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.client_files import escaped_value, properties_text, scram_login, write_secret
from ottla.cli.output import Failure
from ottla.cli.passwords import generated_password
from ottla.cli.secure_certificates import ensure_certificates, hosts_of
from ottla.cli.secured_files import AUTHORITY, CLIENT, SERVER
from ottla.light_dataclasses import dataclass, field

if TYPE_CHECKING:
    from ottla.broker.security.first_users import FirstUser
    from ottla.broker.settings import BrokerSettings

NOT_SHOWN: Final = "# no broker has served with this password yet; the first one that does shows it\n"
TOKEN_KEY: Final = "token.key"
ADMIN: Final = "admin"
PROTOCOL: Final = "SASL_SSL"
DEFAULT_LISTENER: Final = f"{PROTOCOL}://127.0.0.1:9092"
MECHANISM: Final = "SCRAM-SHA-512"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True)
class Secured:
    """What a secured data directory has; `is_new` until a broker has served with this password."""

    directory: Path
    password: str = field(repr=False)
    is_new: bool

    @property
    def client_file(self) -> Path:
        return self.directory / CLIENT

    @property
    def users(self) -> list[FirstUser]:
        """Who must be able to log in."""
        from ottla.broker.security.first_users import FirstUser

        return [FirstUser(ADMIN, self.password, replace=self.is_new)] if self.password else []

    def completed(self, settings: BrokerSettings) -> BrokerSettings:
        """The settings with the secret that delegation tokens are made with."""
        if settings.delegation_token_secret_key is not None:
            return settings
        key = (self.directory / TOKEN_KEY).read_text("utf-8").strip()
        return settings.replaced({"delegation.token.secret.key": key})

    def served_at(self, bootstrap_servers: str, *, is_terminal: bool) -> list[str]:
        """The broker serves: client.properties says where, and these lines say what to do."""
        self._write_servers(bootstrap_servers)
        try_it = f"ottla topic list --command-config {self.client_file}"
        if not self.is_new:
            return [f"ottla: locked; for example: {try_it}"]
        shown = f"password {self.password}  (shown this once; {self.client_file} has it)"
        return [
            "ottla: locked with TLS, logins and access rules; made for it, once:",
            f"ottla:   user {ADMIN}, {shown if is_terminal else f'its password is in {self.client_file}'}",
            f"ottla:   for example: {try_it}",
        ]

    def _write_servers(self, bootstrap_servers: str) -> None:
        """Only that line, and the one that says that nobody did so: the rest may have been changed by its owner."""
        lines = self.client_file.read_text("iso-8859-1").splitlines(keepends=True)
        wanted = f"bootstrap.servers={escaped_value(bootstrap_servers)}\n"
        if wanted not in lines or NOT_SHOWN in lines:
            others = [line for line in lines if not line.startswith("bootstrap.servers=") and line != NOT_SHOWN]
            write_secret(self.client_file, "".join([*others, wanted]), replace=True)


def directory_of(settings: BrokerSettings) -> Path:
    """Where everything is kept: clients read the full path in client.properties."""
    return settings.data_directories[0].absolute()


def secure(settings: BrokerSettings, now: datetime.datetime, node: str | None = None) -> Secured:
    """Make in the first data directory what is not there yet; `node` is what the certificate of a node is called by
    (quorum/secured_node.py)."""
    for path in settings.data_directories:
        _make_private(path.absolute())
    directory = directory_of(settings)
    if not _has_certificate(settings, except_for=directory / SERVER):
        ensure_certificates(directory, hosts_of([*settings.endpoints, *settings.advertised_endpoints]), now, node)
    if not (directory / TOKEN_KEY).exists():
        write_secret(directory / TOKEN_KEY, generated_password())
    file = directory / CLIENT
    if file.exists():
        password = _password_in(file)
        return Secured(directory, password, is_new=bool(password) and NOT_SHOWN in file.read_text("iso-8859-1"))
    password = generated_password()
    text = properties_text(_client_settings(settings, password), "how clients reach this broker as admin")
    write_secret(file, text + NOT_SHOWN)
    return Secured(directory, password, is_new=True)


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
    except OSError as error:
        raise Failure(
            f"cannot make {directory} for this user alone: {error.strerror}. Choose another directory with --data."
        ) from None


def _client_settings(settings: BrokerSettings, password: str) -> dict[str, str]:
    found = {
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": scram_login(ADMIN, password),
    }
    if settings.ssl_truststore_location is not None:
        found["ssl.truststore.type"] = settings.ssl_truststore_type
        found["ssl.truststore.location"] = str(Path(settings.ssl_truststore_location).absolute())
    return found


def _password_in(file: Path) -> str:
    """The password of admin; empty where the file is about somebody else."""
    from ottla.errors import OttlaError
    from ottla.net.sasl.jaas import parse_jaas
    from ottla.properties import read_properties

    try:
        login = parse_jaas(read_properties(file).get("sasl.jaas.config", "")).options
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror}") from None
    except OttlaError:
        return ""
    return login.get("password", "") if login.get("username") == ADMIN else ""


# --- settings --------------------------------------------------------------------------------------------------------


def settings_of(settings: BrokerSettings) -> dict[str, str]:
    """What the broker must be told; `settings` are those it would have otherwise."""
    directory = directory_of(settings)
    admins = f"User:{ADMIN}"
    others = [each for each in settings.super_users.split(";") if each.strip() and each.strip() != admins]
    mine = {
        "sasl.enabled.mechanisms": f"{MECHANISM},SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "authorizer.class.name": AUTHORIZER,
        "super.users": ";".join([admins, *others]),
        "allow.everyone.if.no.acl.found": "false",
        "ottla.admin.login": "true",
    }
    if not _has_certificate(settings):
        mine |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / SERVER),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / AUTHORITY),
        }
    if settings.inter_broker_listener_name is None:
        mine["security.inter.broker.protocol"] = PROTOCOL
    return mine


def _has_certificate(settings: BrokerSettings, except_for: Path | None = None) -> bool:
    """Whether the settings name a certificate, for all listeners or for one."""
    names = [
        name for name in settings.configured_names() if name.endswith(("ssl.keystore.location", "ssl.keystore.key"))
    ]
    return bool(names) and settings.ssl_keystore_location != str(except_for)


def refuse_contradictions(settings: BrokerSettings) -> None:
    """What is called secure is, or does not start."""
    open_ones = [str(each) for each in settings.endpoints if each.protocol != PROTOCOL]
    for problem, is_there in {
        f"the listener {', '.join(open_ones)} is not {PROTOCOL}": open_ones,
        "ottla.allow.insecure.listeners is set": settings.ottla_allow_insecure_listeners,
        "allow.everyone.if.no.acl.found is set": settings.allow_everyone_if_no_acl_found,
        "ottla.admin.login is off": settings.admin_address is not None and not settings.ottla_admin_login,
    }.items():
        if is_there:
            raise _contradiction(problem)


def _contradiction(problem: str) -> Failure:
    return Failure(f"--secure and the settings contradict each other: {problem}. Leave out the one or the other.")


def layered(*layers: Mapping[str, str]) -> BrokerSettings:
    """The settings of all layers, the last one the strongest but for what --secure needs, which nothing weaker than
    --set (the last) changes."""
    from ottla.broker.settings import BrokerSettings

    if any(layer.get("zookeeper.connect") for layer in layers):
        raise Failure("--secure is for a broker of its own; a member of a cluster gets its settings from you.")
    first = {} if any("listeners" in layer for layer in layers) else {"listeners": DEFAULT_LISTENER}
    *weaker, strongest = layers
    if not strongest.get("authorizer.class.name", AUTHORIZER):
        raise _contradiction("there is no authorizer")
    secured = {"authorizer.class.name": AUTHORIZER}
    before = BrokerSettings.layered(first, *weaker, secured, strongest)
    settings = BrokerSettings.layered(first, *weaker, settings_of(before), strongest)
    refuse_contradictions(settings)
    return settings
