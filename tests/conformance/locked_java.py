"""Settings as Java's programs read them, for users of a locked broker (locked_broker.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.conformance.locked_broker import (
    MODULE,
    SUPER_USER,
    TOKEN_LIFE_S,
    USERS,
    Access,
    jaas_text,
    password_of,
    token_of,
)
from tests.conformance.token_provider import token_provider

MODULES: Final = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Java asks nobody for tokens whom this property of the machine does not name."""


@contextlib.contextmanager
def tokens_for_java() -> Iterator[str]:
    """A provider of tokens, whose clients are the users; its address."""
    secrets = {user: password_of(user) for user in (USERS["OAUTHBEARER"], SUPER_USER)}
    with token_provider(secrets, token_of, TOKEN_LIFE_S) as url:
        yield url


def java_settings(access: Access, provider_url: str) -> dict[str, str]:
    """The settings of a client."""
    settings = {
        "bootstrap.servers": access.servers,
        "security.protocol": access.protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(access.ca),
    }
    if access.store is not None:
        return settings | {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(access.store)}
    if access.login == "GSSAPI":
        return settings | _kerberos_settings(access)
    names = ("username", "password")
    if access.login == "OAUTHBEARER":
        names = ("clientId", "clientSecret")
        settings["sasl.oauthbearer.token.endpoint.url"] = provider_url
        settings["sasl.login.callback.handler.class"] = f"{MODULE}.oauthbearer.OAuthBearerLoginCallbackHandler"
    who = f'{names[0]}="{access.user}" {names[1]}="{jaas_text(access.password)}"'
    jaas = f"{MODULE}.{MODULES[access.login]} required {who};"
    return settings | {"sasl.mechanism": access.login, "sasl.jaas.config": jaas}


def _kerberos_settings(access: Access) -> dict[str, str]:
    ticket = "useTicketCache=true" if access.keytab is None else f'useKeyTab=true keyTab="{access.keytab}"'
    jaas = f'com.sun.security.auth.module.Krb5LoginModule required {ticket} principal="{access.user}";'
    return {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka", "sasl.jaas.config": jaas}


def java_file(access: Access, provider_url: str, directory: Path) -> Path:
    """The settings as client.properties, where a backslash is written twice."""
    lines = [f"{name}={value}".replace("\\", "\\\\") for name, value in java_settings(access, provider_url).items()]
    file = directory / "client.properties"
    file.write_text("\n".join(lines), "iso-8859-1")
    return file
