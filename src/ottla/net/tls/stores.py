"""Key and trust stores in whatever form they are: PEM, PKCS#12 or JKS, in files or as texts of settings.

1. The form is seen by the first bytes. A type that was set must agree, but for JKS and PKCS12, which Java exchanges
   freely as well.
2. Of a key store the first key is used, with its certificate and the chain above it. Of a trust store every certificate
   counts, of a key entry in a JKS the first of its chain, as in Java.
3. Errors are InvalidSetting: which setting and file, what is wrong, what to do. No key and no password is in them.
4. A file is read once and up to FILE_LIMIT_BYTES.
5. A password for a key that has no lock is refused in a key store, as by Kafka: who gives it believes that the key is
   locked. With librdkafka's names for files (ssl.key.location) it is left unused, as librdkafka does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass, field
from ottla.net.tls.jks import MAGIC, JksError, JksStore, read_jks, unlock_key
from ottla.net.tls.options import TlsOptions
from ottla.net.tls.pem import Pem, as_pem, is_locked, read_pem

FILE_LIMIT_BYTES: Final = 16 * 1024 * 1024
KINDS: Final = ("PEM", "PKCS12", "JKS")
_JCEKS: Final = b"\xce\xce\xce\xce"


@dataclass(frozen=True)
class Identity:
    """A certificate with its chain (DER, the own one first) and its key (PEM, perhaps locked)."""

    name: str
    chain: tuple[bytes, ...] = field(repr=False)
    key: str = field(repr=False)
    key_password: str | None = field(default=None, repr=False)

    @property
    def pem(self) -> str:
        return self.key + "".join(as_pem("CERTIFICATE", each) for each in self.chain)


def read_identity(options: TlsOptions) -> Identity | None:
    """Who the options say we are; None when they say nothing."""
    if options.store_password is not None and options.store_location is None:
        raise InvalidSetting("ssl.keystore.password is given, but there is no ssl.keystore.location that it opens")
    if options.certificate_text is not None or options.key_text is not None:
        return _identity_of_texts(options)
    if options.store_location is not None:
        return _identity_of_store(options, options.store_location)
    if options.certificate_location is not None:
        return _identity_of_files(options, options.certificate_location)
    if options.key_location is not None:
        raise InvalidSetting("ssl.key.location needs the certificate too: give ssl.certificate.location")
    return None


def read_trusted(options: TlsOptions) -> tuple[bytes, ...]:
    """The certificates (DER) that others' must come from; nothing when none are given."""
    if options.ca_password is not None and options.ca_location is None:
        raise InvalidSetting("ssl.truststore.password is given, but there is no ssl.truststore.location that it opens")
    found: list[bytes] = []
    if options.ca_location is not None:
        found += _trusted_of_file(options, options.ca_location)
    if options.ca_text is not None:
        certificates = read_pem(options.ca_text, "ssl.truststore.certificates").certificates
        if not certificates:
            raise InvalidSetting("ssl.truststore.certificates holds no certificate; give PEM text")
        found += certificates
    return tuple(dict.fromkeys(found))


# --- who we are ------------------------------------------------------------------------------------------------------


def _identity_of_texts(options: TlsOptions) -> Identity:
    if options.certificate_text is None or options.key_text is None:
        raise InvalidSetting("ssl.keystore.certificate.chain and ssl.keystore.key belong together; give both")
    if options.store_location is not None:
        raise InvalidSetting("ssl.keystore.location and ssl.keystore.key are both given; give one of them")
    certificates = read_pem(options.certificate_text, "ssl.keystore.certificate.chain")
    keys = read_pem(options.key_text, "ssl.keystore.key")
    _refuse_unused(options.key_password, keys, "ssl.keystore.key")
    return _identity_of_pem("ssl.keystore.key", certificates, keys, options.key_password)


def _identity_of_files(options: TlsOptions, certificate: str) -> Identity:
    name = f"ssl.certificate.location={certificate}"
    pem = _read_pem_file(certificate, "ssl.certificate.location")
    if options.key_location is None:
        return _identity_of_pem(name, pem, pem, options.key_password)
    keys = _read_pem_file(options.key_location, "ssl.key.location")
    return _identity_of_pem(f"ssl.key.location={options.key_location}", pem, keys, options.key_password)


def _identity_of_store(options: TlsOptions, location: str) -> Identity:
    setting = "ssl.keystore.location"
    name = f"{setting}={location}"
    content = _read_file(location, setting)
    kind = _kind(content, options.store_type, name, "ssl.keystore.type")
    if kind == "PEM":
        _refuse_password(options.store_password, name, "ssl.keystore.password", "a locked key's is ssl.key.password")
        pem = read_pem(_as_text(content, name), name)
        _refuse_unused(options.key_password, pem, name)
        return _identity_of_pem(name, pem, pem, options.key_password)
    if options.store_password is None:
        raise InvalidSetting(f"{name} is a {kind} store and needs ssl.keystore.password")
    if kind == "JKS":
        return _identity_of_jks(_open_jks(content, options.store_password, name), options, name)
    return _identity_of_pkcs12(content, options, name)


def _refuse_unused(key_password: str | None, pem: Pem, name: str) -> None:
    if key_password is not None and pem.keys and not is_locked(pem.keys[0]):
        raise InvalidSetting(
            f"the key of {name} is not encrypted, and ssl.key.password is given; encrypt it or leave it out"
        )


def _identity_of_pem(name: str, certificates: Pem, keys: Pem, password: str | None) -> Identity:
    if not certificates.certificates:
        raise InvalidSetting(f"{name}: there is no certificate in PEM form")
    if not keys.keys:
        raise InvalidSetting(f"{name}: there is no key in PEM form")
    key = keys.keys[0]
    if is_locked(key) and password is None:
        raise InvalidSetting(f"the key of {name} is encrypted; give ssl.key.password")
    return Identity(name, certificates.certificates, key, password if is_locked(key) else None)


def _identity_of_jks(store: JksStore, options: TlsOptions, name: str) -> Identity:
    if not store.keys:
        raise InvalidSetting(f"{name} holds no key; it is a trust store")
    entry = store.keys[0]
    password = options.key_password or options.store_password or ""
    try:
        key = unlock_key(entry.locked_key, password)
    except JksError as problem:
        raise InvalidSetting(f"{name}, entry {entry.alias!r}: {problem}; give ssl.key.password") from None
    return Identity(name, entry.chain, as_pem("PRIVATE KEY", key))


def _identity_of_pkcs12(content: bytes, options: TlsOptions, name: str) -> Identity:
    from ottla.net.tls.pkcs12 import read_pkcs12

    if options.key_password not in (None, options.store_password):
        raise InvalidSetting(
            f"{name} is a PKCS12 store, whose key has the password of the store: ssl.key.password must be that of "
            "ssl.keystore.password, or left out"
        )
    store = read_pkcs12(content, options.store_password, name, "ssl.keystore.password")
    if store.key is None or not store.chain:
        raise InvalidSetting(f"{name} holds no key with its certificate; it is a trust store")
    return Identity(name, store.chain, as_pem("PRIVATE KEY", store.key))


# --- whom we trust ---------------------------------------------------------------------------------------------------


def _trusted_of_file(options: TlsOptions, location: str) -> Sequence[bytes]:
    name = f"ssl.truststore.location={location}"
    content = _read_file(location, "ssl.truststore.location")
    kind = _kind(content, options.ca_type, name, "ssl.truststore.type")
    if kind == "PEM":
        _refuse_password(options.ca_password, name, "ssl.truststore.password", "leave it out")
        certificates: Sequence[bytes] = read_pem(_as_text(content, name), name).certificates
    elif kind == "JKS":
        store = _open_jks(content, options.ca_password, name)
        certificates = [*store.trusted, *(entry.chain[0] for entry in store.keys if entry.chain)]
    else:
        from ottla.net.tls.pkcs12 import read_pkcs12

        certificates = read_pkcs12(content, options.ca_password, name, "ssl.truststore.password").all
    if not certificates:
        raise InvalidSetting(f"{name} holds no certificate; put those in that others' must come from")
    return certificates


# --- files -----------------------------------------------------------------------------------------------------------


def _read_file(location: str, setting: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            content = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise InvalidSetting(f"{setting}={location} cannot be read: {error.strerror}") from None
    if len(content) > FILE_LIMIT_BYTES:
        raise InvalidSetting(f"{setting}={location} is larger than {FILE_LIMIT_BYTES} bytes; that is no store")
    if not content:
        raise InvalidSetting(f"{setting}={location} is empty")
    return content


def _read_pem_file(location: str, setting: str) -> Pem:
    name = f"{setting}={location}"
    content = _read_file(location, setting)
    if _kind(content, None, name, setting) != "PEM":
        raise InvalidSetting(f"{name} is not PEM; give a PKCS#12 or JKS store as ssl.keystore.location")
    return read_pem(_as_text(content, name), name)


def _kind(content: bytes, wanted: str | None, name: str, setting: str) -> str:
    """PEM, PKCS12 or JKS."""
    if wanted is not None and wanted.upper() not in KINDS:
        raise InvalidSetting(f"{setting}={wanted}; there is {', '.join(KINDS)}")
    if content.startswith(_JCEKS):
        raise InvalidSetting(
            f"{name} is a JCEKS store, which cannot be read; turn it into PKCS12: "
            "keytool -importkeystore -srckeystore OLD -srcstoretype JCEKS -destkeystore NEW.p12 -deststoretype PKCS12"
        )
    found = "JKS" if content.startswith(MAGIC) else "PKCS12" if content[:1] == b"\x30" else "PEM"
    if wanted is not None and (wanted.upper() == "PEM") != (found == "PEM"):
        words = "PEM" if found == "PEM" else f"a {found} store"
        raise InvalidSetting(f"{name} is {words}, but {setting} is {wanted}; set it to {found}")
    return found


def _open_jks(content: bytes, password: str | None, name: str) -> JksStore:
    try:
        return read_jks(content, password)
    except JksError as problem:
        raise InvalidSetting(f"{name} cannot be opened: {problem}") from None


def _as_text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidSetting(f"{name} is neither PEM nor a PKCS#12 or JKS store") from None


def _refuse_password(password: str | None, name: str, setting: str, hint: str) -> None:
    if password is not None:
        raise InvalidSetting(f"{setting} is given, but {name} is a PEM file, which has none; {hint}")
