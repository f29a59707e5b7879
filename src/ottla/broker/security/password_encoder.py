"""Secrets in ZooKeeper, encrypted as Apache Kafka 3.9 encrypts them with password.encoder.secret.

    encoder = PasswordEncoder("secret of the broker's file")
    encoder.encode("keystore password")      # keyFactoryAlgorithm:PBKDF2WithHmacSHA512,salt:...,encryptedPassword:...
    encoder.decode(text)                     # what Kafka or we have encoded

1. The key is made of the secret by PBKDF2 with a salt of its own for every value; the text says how, so a value that
   was encoded otherwise is read, too. AES/CBC and AES/GCM are known; another cipher or key factory is refused.
2. With an old secret (password.encoder.old.secret) what was encoded with it is read, and `is_outdated` says so.
3. No error shows a secret. The number of hashes that a text may ask for has a limit.
4. `cryptography` is loaded by the first value.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Final

from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple

CBC: Final = "AES/CBC/PKCS5Padding"
GCM: Final = "AES/GCM/NoPadding"
CIPHERS: Final = {CBC: 16, GCM: 12}
"""The ciphers, and how long their initialization vectors are."""
HASHES: Final = {f"PBKDF2WithHmacSHA{bits}": f"sha{bits}" for bits in (512, 384, 256, 224, 1)}
DEFAULT_FACTORY: Final = "PBKDF2WithHmacSHA512"
KEY_BITS: Final = (128, 192, 256)
SALT_BYTES: Final = 256
TAG_BITS: Final = 128
BLOCK_BITS: Final = 128
ITERATIONS_LIMIT: Final = 1_000_000


class _Scheme(NamedTuple):
    """How a key is made and used."""

    cipher: str
    key_factory: str
    key_bits: int
    iterations: int

    def check(self) -> None:
        for name, value, known in (
            ("cipher.algorithm", self.cipher, tuple(CIPHERS)),
            ("keyfactory.algorithm", self.key_factory, tuple(HASHES)),
            ("key.length", self.key_bits, KEY_BITS),
        ):
            if value not in known:
                raise InvalidSetting(f"password.encoder.{name}={value}: there is {', '.join(map(str, known))}")
        if not 1 <= self.iterations <= ITERATIONS_LIMIT:
            raise InvalidSetting(f"password.encoder.iterations={self.iterations}: at most {ITERATIONS_LIMIT}")

    def key(self, secret: str, salt: bytes) -> bytes:
        hash_name = HASHES[self.key_factory]
        return hashlib.pbkdf2_hmac(hash_name, secret.encode(), salt, self.iterations, self.key_bits // 8)


class PasswordEncoder:
    """See the module."""

    def __init__(
        self,
        secret: str,
        old_secret: str | None = None,
        *,
        cipher: str = CBC,
        key_factory: str | None = None,
        key_bits: int = 128,
        iterations: int = 4096,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """InvalidSetting when it could not encode."""
        self._scheme = _Scheme(cipher, key_factory or DEFAULT_FACTORY, key_bits, iterations)
        self._scheme.check()
        self._secret = secret
        self._old_secret = old_secret
        self._random_bytes = random_bytes

    def __repr__(self) -> str:
        return f"<PasswordEncoder {self._scheme.cipher}>"

    def encode(self, password: str) -> str:
        scheme, salt = self._scheme, self._random_bytes(SALT_BYTES)
        vector = self._random_bytes(CIPHERS[scheme.cipher])
        encrypted = _encrypted(scheme.cipher, scheme.key(self._secret, salt), vector, password.encode())
        fields = {
            "keyFactoryAlgorithm": scheme.key_factory,
            "cipherAlgorithm": scheme.cipher,
            "keyLength": scheme.key_bits,
            "salt": _base64(salt),
            "iterations": scheme.iterations,
            "initializationVector": _base64(vector),
            **({"authenticationTagLength": TAG_BITS} if scheme.cipher == GCM else {}),
            "encryptedPassword": _base64(encrypted),
            "passwordLength": _java_length(password),
        }
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        """InvalidSetting when it was encoded with neither secret, or is no such text."""
        found = self._decoded(text, self._secret)
        if found is None and self._old_secret is not None:
            found = self._decoded(text, self._old_secret)
        if found is None:
            raise InvalidSetting("it was encoded with another password.encoder.secret")
        return found

    def is_outdated(self, text: str) -> bool:
        """Whether only the old secret decodes it."""
        return self._decoded(text, self._secret) is None

    def _decoded(self, text: str, secret: str) -> str | None:
        fields = dict(_field(part) for part in text.split(","))
        try:
            scheme = _scheme_of(fields)
            salt, vector, encrypted = (
                base64.b64decode(fields[name], validate=True)
                for name in ("salt", "initializationVector", "encryptedPassword")
            )
            length = int(fields["passwordLength"])
        except (KeyError, ValueError, binascii.Error):
            raise InvalidSetting("it is no text of Kafka's password encoder") from None
        scheme.check()
        password = _decrypted(scheme.cipher, scheme.key(secret, salt), vector, encrypted)
        return password if password is not None and _java_length(password) == length else None


def _scheme_of(fields: Mapping[str, str]) -> _Scheme:
    return _Scheme(
        fields["cipherAlgorithm"],
        fields["keyFactoryAlgorithm"],
        int(fields["keyLength"]),
        int(fields["iterations"]),
    )


def _field(part: str) -> tuple[str, str]:
    name, _, value = part.strip().rpartition(":")
    return name, value


def _encrypted(cipher: str, key: bytes, vector: bytes, plain: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.padding import PKCS7

    if cipher == GCM:
        return AESGCM(key).encrypt(vector, plain, None)
    padder = PKCS7(BLOCK_BITS).padder()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    return encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()


def _decrypted(cipher: str, key: bytes, vector: bytes, encrypted: bytes) -> str | None:
    """None when the key is not the one."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.padding import PKCS7

    try:
        if cipher == GCM:
            return AESGCM(key).decrypt(vector, encrypted, None).decode()
        unpadder = PKCS7(BLOCK_BITS).unpadder()
        decryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
        padded = decryptor.update(encrypted) + decryptor.finalize()
        return (unpadder.update(padded) + unpadder.finalize()).decode()
    except (ValueError, InvalidTag):
        return None


def _java_length(text: str) -> int:
    """The length as Java counts it: in units of UTF-16."""
    return len(text.encode("utf-16-be")) // 2


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
