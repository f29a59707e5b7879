"""Java's own key store format (JKS), read: keys with their certificate chains, and trusted certificates.

    file   magic FEEDFEED, version, count, entries, SHA-1 over password + "Mighty Aphrodite" + all before
    entry  1: alias, date, locked key, chain     2: alias, date, certificate

1. A key is locked with a password by XOR with a chain of SHA-1 hashes. That is weak, and Java's choice; here it is only
   undone.
2. Every length is compared with the bytes that are there before it is used.
3. Without a password the digest is not checked, as Java does with trust stores.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.net.tls.der import DerError, children, read_value

MAGIC: Final = b"\xfe\xed\xfe\xed"
_SALT: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_KEY, _TRUSTED = 1, 2


class JksError(ValueError):
    """What is wrong with a store, in words without secrets."""


class KeyEntry(NamedTuple):
    alias: str
    locked_key: bytes
    chain: tuple[bytes, ...]


class JksStore(NamedTuple):
    """Certificates are DER."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self._content):
            raise JksError("it is cut off")
        content = self._content[self.position : end]
        self.position = end
        return content

    def number(self) -> int:
        found: int = struct.unpack(">i", self.take(4))[0]
        return found

    def text(self) -> str:
        (length,) = struct.unpack(">H", self.take(2))
        return self.take(length).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self.take(self.number())


def read_jks(content: bytes, password: str | None) -> JksStore:
    """The entries of a store; JksError when it is damaged or the password is wrong."""
    reader = _Reader(content)
    if reader.take(4) != MAGIC:
        raise JksError("it is no JKS store")
    version, count = reader.number(), reader.number()
    if version not in (1, 2):
        raise JksError(f"it has version {version}; 1 and 2 are known")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(count):
        _read_entry(reader, version, keys, trusted)
    _check_digest(content, reader, password)
    return JksStore(tuple(keys), tuple(trusted))


def _read_entry(reader: _Reader, version: int, keys: list[KeyEntry], trusted: list[bytes]) -> None:
    kind, alias = reader.number(), reader.text()
    reader.take(8)  # when it was made
    if kind == _KEY:
        locked = reader.block()
        chain = tuple(_certificate(reader, version) for _ in range(reader.number()))
        keys.append(KeyEntry(alias, locked, chain))
    elif kind == _TRUSTED:
        trusted.append(_certificate(reader, version))
    else:
        raise JksError(f"it has an entry of the unknown kind {kind}")


def _certificate(reader: _Reader, version: int) -> bytes:
    form = reader.text() if version == 2 else "X.509"
    if form != "X.509":
        raise JksError(f"it has a certificate of the form {form[:20]!r}; X.509 is known")
    return reader.block()


def _check_digest(content: bytes, reader: _Reader, password: str | None) -> None:
    end = reader.position
    digest = reader.take(_DIGEST_BYTES)
    if password is None:
        return
    made = hashlib.sha1(_password_bytes(password) + _SALT + content[:end]).digest()
    if not hmac.compare_digest(made, digest):
        raise JksError("the password is wrong, or it is damaged")


def unlock_key(locked: bytes, password: str) -> bytes:
    """The key of an entry as PKCS#8; JksError when the password is wrong."""
    try:
        _, info, _ = read_value(locked, 0)
        parts = children(info)
        sealed = parts[1][1]
    except (DerError, IndexError):
        raise JksError("the key is damaged") from None
    if len(sealed) < 2 * _DIGEST_BYTES:
        raise JksError("the key is damaged")
    salt, body, check = sealed[:_DIGEST_BYTES], sealed[_DIGEST_BYTES:-_DIGEST_BYTES], sealed[-_DIGEST_BYTES:]
    secret = _password_bytes(password)
    key = _unmask(body, secret, salt)
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise JksError("the password of the key is wrong")
    return key


def _unmask(body: bytes, secret: bytes, salt: bytes) -> bytes:
    mask, block = b"", salt
    while len(mask) < len(body):
        block = hashlib.sha1(secret + block).digest()
        mask += block
    return bytes(one ^ other for one, other in zip(body, mask, strict=False))


def _password_bytes(password: str) -> bytes:
    return password.encode("utf-16-be")
