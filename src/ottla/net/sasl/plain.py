"""PLAIN (RFC 4616): user and password as they are; good only where the connection is encrypted.

authorization id  NUL  user  NUL  password          all UTF-8; the first is empty: we act for ourselves

A server compares a keyed hash of the password with the one it keeps, or with a random one for a user that does not
exist: both take the same work, and neither answer nor time says which of the two was wrong.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple
from ottla.net.sasl.server import Identity, LoginRefused

SIZE_LIMIT_BYTES: Final = 65_536
KEY_BYTES: Final = 32
_INVALID: Final = "Authentication failed: Invalid username or password"
_OTHER_USER: Final = "Authentication failed: Client requested an authorization id that is different from username"


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
    """What was said. Who acts for somebody else is refused, as Kafka does."""
    if len(message) > SIZE_LIMIT_BYTES:
        raise LoginRefused(
            "a PLAIN login that is too long", answer_text="Authentication failed: the message is too long"
        )
    try:
        authorization, username, password = str(message, "utf-8").split("\0")
    except ValueError:
        text = "Authentication failed: a PLAIN login has three parts with NUL between"
        raise LoginRefused("a PLAIN login without three parts of text", answer_text=text) from None
    if not username:
        raise LoginRefused("no user name", answer_text="Authentication failed: username not specified")
    if not password:
        raise LoginRefused("no password", answer_text="Authentication failed: password not specified")
    if authorization not in ("", username):
        raise LoginRefused("a client cannot log in for somebody else", answer_text=_OTHER_USER)
    return PlainLogin(username, password)


class PlainUsers:
    """The users of a listener; of their passwords only keyed hashes are kept. `key` is random and not kept."""

    def __init__(self, passwords: Mapping[str, str], *, key: bytes) -> None:
        self._key = key
        self._hashes = {user: self._hash(password) for user, password in passwords.items()}
        self._nobody = hmac.digest(key, key, "sha256")

    def __repr__(self) -> str:
        return f"<PlainUsers, {len(self._hashes)}>"

    def has(self, username: str, password: str) -> bool:
        """Whether this is the password of that user."""
        wanted = self._hashes.get(username, self._nobody)
        return hmac.compare_digest(self._hash(password), wanted) and username in self._hashes

    def _hash(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(), "sha256")


class PlainServer:
    """The server's half."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self.identity: Identity | None = None

    def answered(self, message: bytes) -> bytes:
        login = read_plain(message)
        if not self._users.has(login.username, login.password):
            raise LoginRefused("the user or the password is wrong", answer_text=_INVALID)
        self.identity = Identity(login.username)
        return b""
