"""OAUTHBEARER (RFC 7628): a token from somebody whom the broker trusts.

    client first   n,,^Aauth=Bearer token[^Aname=value...]^A^A             ^A is the byte 1
    server         nothing, or a JSON text with "status" when it refuses; then the client says ^A and hears the error

The token comes in ready; where it comes from is the business of `token_login.py`. `unsecured_token` makes the
kind that Java's client makes when it is told nothing else: a claim without a signature, for tests.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Final

from ottla.errors import AuthenticationFailed, InvalidSetting
from ottla.light_dataclasses import dataclass, field

SHOWN_LIMIT: Final = 500
_SEPARATOR: Final = "\x01"
_TOKEN: Final = re.compile(r"[-A-Za-z0-9._~+/]+=*")
_NAME: Final = re.compile(r"[a-zA-Z]+")
_VALUE: Final = re.compile(r"[\x20-\x7e\r\n\t]+")


@dataclass(frozen=True)
class Token:
    """A token and when it ends, in milliseconds since 1970; None when nobody said."""

    value: str = field(repr=False)
    expires_ms: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


class OAuthBearerClient:
    """The client's half."""

    name: Final = "OAUTHBEARER"

    def __init__(self, token: Token, extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token.value):
            raise AuthenticationFailed("the token has characters that no bearer token has; is it the token itself?")
        self._token = token
        self._extensions = {**(extensions or {}), **token.extensions}
        check_extensions(self._extensions)
        self._refusal: str | None = None

    def __repr__(self) -> str:
        return "OAuthBearerClient([hidden])"

    def first(self) -> bytes:
        pairs = "".join(f"{name}={value}{_SEPARATOR}" for name, value in self._extensions.items())
        return f"n,,{_SEPARATOR}auth=Bearer {self._token.value}{_SEPARATOR}{pairs}{_SEPARATOR}".encode()

    def answered(self, challenge: bytes) -> bytes | None:
        if self._refusal is not None:
            raise AuthenticationFailed(f"the broker does not take the token: {self._refusal}")
        if not challenge:
            return None
        self._refusal = str(challenge[:SHOWN_LIMIT], "utf-8", "replace")
        return _SEPARATOR.encode()


def check_extensions(extensions: Mapping[str, str]) -> None:
    """InvalidSetting names what cannot be an extension; `auth` is the protocol's own."""
    for name, value in extensions.items():
        if name == "auth" or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InvalidSetting(f"the OAUTHBEARER extension {name!r}: a name has letters only, a value plain text")


def unsecured_token(claims: Mapping[str, object]) -> str:
    """A token nobody signed; brokers take it only if they are told to (Java's default, not for production)."""
    parts = ({"alg": "none"}, dict(claims))
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])


def claims_of(token: str) -> dict[str, object]:
    """The claims inside a token that is a JWT, unchecked; empty when it is none. To learn when it ends."""
    try:
        middle = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}
