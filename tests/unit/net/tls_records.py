"""A client's side of the record layer of TLS 1.3 (RFC 8446, section 5): what Python's ssl does not let a test send.

records = Records(secret, "sha384")      # the secret from a key log
records.data(b"...") + records.change_of_keys(asks=True) + records.goodbye()
"""

from __future__ import annotations

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

ALERT, HANDSHAKE, DATA = 21, 22, 23


class Records:
    """Encrypts with the keys that follow from a traffic secret."""

    def __init__(self, secret: bytes, algorithm: hashes.HashAlgorithm, key_bytes: int) -> None:
        self._algorithm = algorithm
        self._key_bytes = key_bytes
        self._use(secret)

    def data(self, plain: bytes, padding: int = 0) -> bytes:
        return self._record(DATA, plain, padding)

    def change_of_keys(self, *, asks: bool) -> bytes:
        """KeyUpdate; one that `asks` is answered by the other side with its own."""
        message = self._record(HANDSHAKE, bytes((24, 0, 0, 1, asks)))
        self._use(self._expand(b"traffic upd", len(self._secret)))
        return message

    def goodbye(self) -> bytes:
        return self._record(ALERT, bytes((1, 0)))

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._aead = AESGCM(self._expand(b"key", self._key_bytes))
        self._iv = self._expand(b"iv", 12)

    def _expand(self, label: bytes, size: int) -> bytes:
        label = b"tls13 " + label
        info = size.to_bytes(2, "big") + bytes((len(label),)) + label + b"\0"
        return HKDFExpand(self._algorithm, size, info).derive(self._secret)

    def _record(self, kind: int, content: bytes, padding: int = 0) -> bytes:
        inner = content + bytes((kind,)) + bytes(padding)
        header = bytes((DATA, 3, 3)) + (len(inner) + 16).to_bytes(2, "big")
        nonce = bytes(a ^ b for a, b in zip(self._iv, self._number.to_bytes(12, "big"), strict=True))
        self._number += 1
        return header + self._aead.encrypt(nonce, inner, header)


def records_of(key_log: str, cipher: str) -> Records:
    """Those of the connection whose secrets a key log has."""
    (secret,) = (line.split()[2] for line in key_log.splitlines() if line.startswith("CLIENT_TRAFFIC_SECRET_0 "))
    algorithm = hashes.SHA384() if cipher.endswith("SHA384") else hashes.SHA256()
    return Records(bytes.fromhex(secret), algorithm, 32 if "256_GCM" in cipher else 16)
