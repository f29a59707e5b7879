"""PLAIN (RFC 4616): user and password as they are; good only where the connection is encrypted.

authorization id  NUL  user  NUL  password          all UTF-8; the first is empty: we act for ourselves
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.errors import AuthenticationFailed, InvalidSetting

SIZE_LIMIT_BYTES: Final = 65_536


class PlainClient:
    """The client's half."""

    name: Final = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        if not username or not password or "\0" in username + password:
            raise InvalidSetting("PLAIN needs a user and a password, both without the character NUL")
        self._username = username
        self._password = password

    def first(self) -> bytes:
        return f"\0{self._username}\0{self._password}".encode()

    def answered(self, challenge: bytes) -> bytes | None:
        return None  # the broker said no with an error code, or did not

    def __repr__(self) -> str:
        return f"PlainClient({self._username!r}, [hidden])"


class PlainLogin(NamedTuple):
    """What a client said about itself; the password is for comparing only."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"PlainLogin({self.username!r}, [hidden])"


def read_plain(message: bytes) -> PlainLogin:
    """The server's half: what was said. Who acts for somebody else is refused, as Kafka does."""
    try:
        authorization, username, password = str(message[:SIZE_LIMIT_BYTES], "utf-8").split("\0")
    except ValueError:
        raise AuthenticationFailed("a PLAIN login has three parts with NUL between") from None
    if not username or not password:
        raise AuthenticationFailed("a PLAIN login needs a user and a password")
    if authorization not in ("", username):
        raise AuthenticationFailed("a client cannot log in for somebody else")
    return PlainLogin(username, password)
