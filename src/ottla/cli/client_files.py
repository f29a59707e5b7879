"""Settings files for clients, in the form that Java's tools, Java's clients and every `ottla` command read.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="...";
    ssl.truststore.type=PEM
    ssl.truststore.location=/var/lib/ottla/ca.pem

1. A file holds a secret: it is made readable by its owner only (mode 0600) before the first byte is in it.
2. It appears under its name when it is complete; one that is there is not replaced unless that was asked for.
3. `client_settings` keeps what a connection needs from the settings of whoever makes the file, without his login.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.cli.output import Failure

SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_KEPT: Final = ("bootstrap.servers", "security.protocol")
_OWN_LOGIN: Final = ("ssl.key", "ssl.certificate", "ssl.password")  # a certificate and its key say who somebody is


def scram_login(user: str, password: str, *, is_token: bool = False) -> str:
    """The line of sasl.jaas.config."""
    token = " tokenauth=true" if is_token else ""
    return f'{SCRAM_MODULE} required username="{_quoted(user)}" password="{_quoted(password)}"{token};'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def client_settings(connection: Mapping[str, object], mechanism: str, login: str) -> dict[str, str]:
    """The settings for somebody else who connects to the same place."""
    kept = {
        name: str(value)
        for name, value in connection.items()
        if name in _KEPT or (name.startswith("ssl.") and not name.startswith(_OWN_LOGIN))
    }
    protocol = kept.get("security.protocol", "PLAINTEXT").upper()
    kept["security.protocol"] = protocol if protocol.startswith("SASL") else f"SASL_{protocol}"
    return {**kept, "sasl.mechanism": mechanism, "sasl.jaas.config": login}


def properties_text(settings: Mapping[str, str], comment: str) -> str:
    """The text of a .properties file; Java's escapes for what is not ASCII."""
    return "".join([f"# {comment}\n", *(f"{name}={escaped_value(value)}\n" for name, value in settings.items())])


def escaped_value(value: str) -> str:
    """A value as Java reads it back from a .properties file."""
    shown = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    units = shown.encode("utf-16-be")
    pairs = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    text = "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for unit in pairs)
    return f"\\{text}" if text.startswith(" ") else text


def write_secret(path: Path, text: str, *, replace: bool = False) -> None:
    """Write a file that only its owner may read; Failure when it is there already."""
    if not replace and path.exists():
        raise Failure(f"{path} is there already; remove it, or choose another name")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise Failure(f"cannot write {path}: {error.strerror}") from None
