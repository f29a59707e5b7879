"""The server's half of SCRAM (RFC 5802, 7677): it never learns the password and never has to know it.

    client first   n,,n=user,r=client-nonce[,tokenauth=true]
    server first   r=client-nonce+server-nonce,s=salt,i=iterations
    client final   c=biws,r=nonce,p=proof
    server final   v=signature                                        or e=error

1. Messages have exactly the form of the RFC, or the login is over: fields in their order, none twice, none unknown.
2. The nonce of the last message is the one of this login (CVE-2024-56128), as Kafka 4 wants it; librdkafka before
   2.6.1 repeats its own half and is refused by both, which our log explains. The channel field repeats the beginning of
   the first message, and who logs in is who proved it: an authorization id must be the user (CVE-2017-12610).
3. Channel binding is not offered. A client that could do it and saw that we cannot says "y", which is fine; one that
   insists on it ("p=...") is refused, as the RFC wants.
4. An unknown user and a wrong password look the same, in what is said and in the work that is done: the unknown user
   gets a decoy, whose salt is always the same for the same name, and the check is done with its keys. The decoy looks
   like the credentials of real users (Decoys.shape), so that the salt itself gives nothing away.
5. `credential_of(user, mechanism, is_token)` finds what is kept. With a delegation token the user is the token's id,
   and `Credential.name` is its owner.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.net.sasl.scram import HASHES, ITERATIONS_AT_LEAST, MESSAGE_LIMIT_BYTES, NONCE_BYTES, ScramKeys, xor
from ottla.net.sasl.server import Identity, LoginRefused

_NAME: Final = r"(?:[^\0=,]|=2C|=3D)+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^\0,]+)*"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9+/]+={0,2}"
_FIRST: Final = re.compile(
    rf"(?P<header>(?P<channel>n|y|p=[A-Za-z0-9.-]+),(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>(?P<mandatory>m=[^,]*,)?n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL: Final = re.compile(
    rf"(?P<spoken>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_REPEATED_NONCE: Final = (
    "the nonce has the client's half twice; librdkafka (confluent-kafka, kcat) does so before 2.6.1, and Kafka 4"
    " refuses it, too: upgrade it"
)
_BASE36: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Credential:
    """What is kept of a user or token, and who has logged in when it is proved."""

    keys: ScramKeys
    name: str
    expires_ms: float | None = None


CredentialOf: TypeAlias = Callable[[str, str, bool], Credential | None]
"""(user or token id, mechanism, whether it is a token) to what is kept."""


class Shape(NamedTuple):
    """What can be seen of a credential before its password is proved."""

    iterations: int = ITERATIONS_AT_LEAST
    salt_bytes: int = 16
    is_text: bool = False  # Java's salts are digits and small letters

    @classmethod
    def of(cls, salt: bytes, iterations: int) -> Shape:
        return cls(iterations, len(salt), all(byte in _BASE36 for byte in salt))


class Decoys:
    """Credentials for users that do not exist. The secret must be the same on all brokers, and stay the same."""

    def __init__(self, secret: bytes, shapes: Iterable[Shape] = ()) -> None:
        self._secret = secret
        self._shape = _commonest(shapes)

    def keys_of(self, user: str, mechanism: str) -> ScramKeys:
        name = HASHES[mechanism]
        seed = hmac.digest(self._secret, f"{mechanism} {user}".encode(), name)
        stream = hashlib.shake_256(seed).digest(self._shape.salt_bytes)
        salt = bytes(_BASE36[byte % len(_BASE36)] for byte in stream) if self._shape.is_text else stream
        stored_key = hmac.digest(self._secret, seed, name)
        return ScramKeys(salt, self._shape.iterations, stored_key, seed)


class ScramServer:
    """One login."""

    def __init__(
        self, mechanism: str, credential_of: CredentialOf, *, decoys: Decoys, random_bytes: Callable[[int], bytes]
    ) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._credential_of = credential_of
        self._decoys = decoys
        self._random_bytes = random_bytes
        self._credential: Credential | None = None
        self._keys: ScramKeys | None = None
        self._is_token = False
        self._header = ""
        self._spoken = ""
        self._nonce = ""
        self.username = ""
        self.identity: Identity | None = None

    def __repr__(self) -> str:
        return f"ScramServer({self._mechanism!r}, {self.username!r})"

    def answered(self, message: bytes) -> bytes:
        if self.identity is not None:
            raise LoginRefused("a SCRAM message after the end of the login")
        return self._final(message, self._keys) if self._keys is not None else self._first(message)

    def _first(self, message: bytes) -> bytes:
        found = _matched(_FIRST, message)
        if found["channel"].startswith("p"):
            raise _refused("it wants channel binding, which is not offered", "channel-binding-not-supported")
        if found["mandatory"]:
            raise _refused("it wants an extension that is not known", "extensions-not-supported")
        self.username = _unescaped(found["user"])
        if found["authorization"] not in (None, found["user"]):
            raise _refused("a client cannot log in for somebody else", "other-error")
        self._header = found["header"]
        self._is_token = "tokenauth=true" in found["extensions"].lower().split(",")
        self._nonce = found["nonce"] + base64.b64encode(self._random_bytes(NONCE_BYTES)).decode()
        self._credential = self._credential_of(self.username, self._mechanism, self._is_token)
        decoy = self._decoys.keys_of(self.username, self._mechanism)  # made for everybody: it takes time
        keys = self._keys = decoy if self._credential is None else self._credential.keys
        if keys.iterations < ITERATIONS_AT_LEAST:
            raise _refused(f"the credential of {self.username!r} has too few iterations", "other-error")
        answer = f"r={self._nonce},s={base64.b64encode(keys.salt).decode()},i={keys.iterations}"
        self._spoken = f"{found['bare']},{answer}"
        return answer.encode()

    def _final(self, message: bytes, keys: ScramKeys) -> bytes:
        found = _matched(_FINAL, message)
        if not hmac.compare_digest(found["nonce"], self._nonce):
            is_repeated = found["nonce"].endswith(self._nonce)
            raise _refused(_REPEATED_NONCE if is_repeated else "the nonce is not the one of this login", "other-error")
        if found["channel"] != base64.b64encode(self._header.encode()).decode():
            raise _refused("the channel field does not repeat the first message", "channel-bindings-dont-match")
        spoken = f"{self._spoken},{found['spoken']}".encode()
        is_proved = self._proves(keys, _decoded(found["proof"]), spoken)
        signature = hmac.digest(keys.server_key, spoken, self._hash)
        if not is_proved or self._credential is None:
            raise _refused(f"user {self.username!r} or the password is wrong", "invalid-proof")
        self.identity = Identity(self._credential.name, self._is_token, self._credential.expires_ms)
        return b"v=" + base64.b64encode(signature)

    def _proves(self, keys: ScramKeys, proof: bytes, spoken: bytes) -> bool:
        signature = hmac.digest(keys.stored_key, spoken, self._hash)
        padded = proof[: len(signature)].ljust(len(signature), b"\0")
        client_key = xor(padded, signature)
        is_same = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), keys.stored_key)
        return is_same and len(proof) == len(signature)


def _commonest(shapes: Iterable[Shape]) -> Shape:
    counts = Counter(shapes)
    return max(counts, key=lambda shape: (counts[shape], shape)) if counts else Shape()


def _matched(form: re.Pattern[str], message: bytes) -> re.Match[str]:
    if len(message) > MESSAGE_LIMIT_BYTES:
        raise _refused("a SCRAM message that is too long", "invalid-encoding")
    try:
        found = form.fullmatch(str(message, "utf-8"))
    except UnicodeDecodeError:
        raise _refused("a SCRAM message that is not text", "invalid-encoding") from None
    if found is None:
        raise _refused("a message that is not one of SCRAM", "invalid-encoding")
    return found


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _refused("a proof that is not base64", "invalid-encoding") from None


def _refused(reason: str, error: str) -> LoginRefused:
    return LoginRefused(reason, last_bytes=f"e={error}".encode())
