"""The server's half of OAUTHBEARER (RFC 7628): is this token good, and whose is it.

    client first   n,[a=user],^Aauth=Bearer token^A[name=value^A...]^A           ^A is the byte 1
    server         nothing, or {"status":"invalid_token"}; then the client says ^A and hears the error

1. What a token must be is decided by a function that comes in (signed_tokens.py, unsecured_tokens.py).
2. Who asks to act for somebody else than the token's user is refused.
3. Extensions have names and values of the right form, and mean nothing here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ottla.light_tuples import NamedTuple
from ottla.net.sasl.server import Identity, LoginRefused

SIZE_LIMIT_BYTES: Final = 65_536
_NAME: Final = r"(?:[^\0=,\x01]|=2C|=3D)+"
_PAIR: Final = r"[A-Za-z]+=[\x20-\x7e\r\n\t]*\x01"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:{_PAIR})+)\x01")
_BEARER: Final = re.compile(r"bearer +(?P<token>[-A-Za-z0-9._~+/]+=*) *", re.IGNORECASE)
_END: Final = b"\x01"
_OTHER_USER: Final = (
    "Authentication failed: Client requested an authorization id that is different from the token's principal name"
)


class TokenRefused(Exception):
    """A token is not good; the text is for the log, `status` and `scope` are for the client."""

    def __init__(self, reason: str, *, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope

    def as_json(self) -> str:
        answer_text = {"status": self.status} | ({"scope": self.scope} if self.scope else {})
        return json.dumps(answer_text, separators=(",", ":"))


CheckToken: TypeAlias = Callable[[str], Identity]
"""Whose token it is; TokenRefused when it is not good."""


class FirstMessage(NamedTuple):
    """What a client says first."""

    token: str
    extensions: Mapping[str, str]
    authorization: str = ""

    def __repr__(self) -> str:
        return "FirstMessage([hidden])"


def read_first(message: bytes) -> FirstMessage:
    """Its parts; LoginRefused when it has another form."""
    if len(message) > SIZE_LIMIT_BYTES:
        raise LoginRefused("a message of OAUTHBEARER that is too long")
    found = _FIRST.fullmatch(str(message, "utf-8", "replace"))
    if found is None:
        raise LoginRefused("the message is not one of OAUTHBEARER")
    pairs = [pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair]
    values = dict(pairs)
    bearer = _BEARER.fullmatch(values.pop("auth", ""))
    if bearer is None or len(values) + 1 != len(pairs):
        raise LoginRefused("the message of OAUTHBEARER has no bearer token, or something twice")
    authorization = (found["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
    return FirstMessage(bearer["token"], values, authorization)


class OAuthBearerServer:
    """One login."""

    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self._refused: TokenRefused | None = None
        self.identity: Identity | None = None

    def answered(self, message: bytes) -> bytes:
        if self._refused is not None:
            raise LoginRefused(f"the token is refused: {self._refused}", answer_text=self._refused.as_json())
        if self.identity is not None or message == _END:
            raise LoginRefused("a message of OAUTHBEARER at the wrong time")
        first = read_first(message)
        try:
            identity = self._check(first.token)
        except TokenRefused as refused:
            self._refused = refused
            return refused.as_json().encode()
        if first.authorization not in ("", identity.name):
            raise LoginRefused("a client cannot log in for somebody else", answer_text=_OTHER_USER)
        self.identity = identity
        return b""
