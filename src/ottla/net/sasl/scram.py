"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677): both sides prove that they know the password, nobody tells it.

    client first   n,,n=user,r=client-nonce[,tokenauth=true]
    server first   r=client-nonce+server-nonce,s=salt,i=iterations
    client final   c=biws,r=nonce,p=proof
    server final   v=signature                                        or e=error

1. The client checks the server too: a signature that is wrong ends the login, because whoever made it does not know
   the password and may be anybody.
2. Iterations are between 4096 (Kafka's least) and ITERATIONS_AT_MOST: fewer would make guessing cheap for whoever
   records the exchange, more would let a server keep us busy.
3. Names and passwords are UTF-8 without normalisation, as in Kafka; "=" and "," in names are escaped.

The server's half is scram_server.py.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from ottla.errors import AuthenticationFailed, InvalidSetting
from ottla.light_dataclasses import dataclass, field

ITERATIONS_AT_LEAST: Final = 4096
ITERATIONS_AT_MOST: Final = 100_000
NONCE_BYTES: Final = 24
SALT_BYTES: Final = 26
"""Of all credentials that are made here, by whatever tool: a salt of another length would tell who made it."""
MESSAGE_LIMIT_BYTES: Final = 65_536
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_CHANNEL: Final = base64.b64encode(b"n,,").decode()


@dataclass(frozen=True)
class ScramKeys:
    """What a server keeps of a password."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def scram_keys(mechanism: str, password: str, *, salt: bytes, iterations: int) -> ScramKeys:
    """The keys that are kept of a password."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramKeys(salt, iterations, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name))


class ScramClient:
    """The client's half; made anew for every login, with a nonce nobody can guess."""

    def __init__(
        self, mechanism: str, username: str, password: str, *, random_bytes: Callable[[int], bytes], token: bool = False
    ) -> None:
        if not username or not password:
            raise InvalidSetting(f"{mechanism} needs a user and a password")
        self.name: Final = mechanism
        self._hash = HASHES[mechanism]
        self._username = username
        self._password = password
        self._nonce = base64.b64encode(random_bytes(NONCE_BYTES)).decode()
        self._extensions = ",tokenauth=true" if token else ""
        self._signature: bytes | None = None

    def __repr__(self) -> str:
        return f"ScramClient({self.name!r}, {self._username!r}, [hidden])"

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def answered(self, challenge: bytes) -> bytes | None:
        fields = _fields(challenge)
        if "e" in fields:
            raise AuthenticationFailed(f"the broker refused the login: {fields['e'][:200]}")
        if self._signature is None:
            return self._final(challenge, fields)
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._signature):
            raise AuthenticationFailed("the broker could not prove that it knows the password; it may be a stranger")
        return None

    @property
    def _bare(self) -> str:
        return f"n={_escaped(self._username)},r={self._nonce}{self._extensions}"

    def _final(self, challenge: bytes, fields: dict[str, str]) -> bytes:
        nonce, salt, iterations = fields.get("r", ""), _decoded(fields.get("s", "")), _iterations(fields.get("i", ""))
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not salt:
            raise AuthenticationFailed("the broker answered SCRAM with something else than its nonce and salt")
        keys_of = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        client_key = hmac.digest(keys_of, b"Client Key", self._hash)
        final = f"c={_CHANNEL},r={nonce}"
        spoken = f"{self._bare},{challenge.decode()},{final}".encode()
        proof = xor(client_key, hmac.digest(hashlib.new(self._hash, client_key).digest(), spoken, self._hash))
        self._signature = hmac.digest(hmac.digest(keys_of, b"Server Key", self._hash), spoken, self._hash)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()


# --- the words of the exchange ---------------------------------------------------------------------------------------


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_LIMIT_BYTES:
        raise AuthenticationFailed("a SCRAM message that is too long")
    try:
        return str(message, "utf-8")
    except UnicodeDecodeError:
        raise AuthenticationFailed("a SCRAM message that is not text") from None


def _fields(message: bytes) -> dict[str, str]:
    pairs = [part.partition("=") for part in _text(message).split(",")]
    return {name: value for name, equals, value in pairs if equals}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise AuthenticationFailed("a SCRAM message with bytes that are not base64") from None


def _iterations(text: str) -> int:
    count = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
    if not ITERATIONS_AT_LEAST <= count <= ITERATIONS_AT_MOST:
        permitted = f"between {ITERATIONS_AT_LEAST} and {ITERATIONS_AT_MOST}"
        raise AuthenticationFailed(f"the broker wants {text[:20]!r} iterations of SCRAM, {permitted} are safe")
    return count


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
