"""From files and texts to a TLS context for a client.

1. Everything is PEM. What Java people have is often a JKS or PKCS#12 store; it is recognised by its first bytes, and
   the error says how to turn it into PEM.
2. By default the broker's certificate is checked against the trusted ones (or the system's) and against the host name.
   Turning either off must be asked for.
3. Python's TLS reads a client's key from a file only: a key given as text is written to a file that only we may read,
   and removed at once.
4. Errors are InvalidSetting with the file or the setting and what to do; no key and no password is ever in them.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.errors import InvalidSetting

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_JKS: Final = b"\xfe\xed\xfe\xed"
_DER: Final = b"\x30"
_TLS13_SUITES: Final = re.compile(r"TLS_(AES|CHACHA20)_")


@dataclass(frozen=True)
class TlsOptions:
    """What a client wants of TLS. Texts are PEM; secrets are not in the repr."""

    ca_location: str | None = None
    ca_text: str | None = field(default=None, repr=False)
    crl_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    certificate_text: str | None = field(default=None, repr=False)
    key_text: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    check_certificate: bool = True
    versions: Sequence[str] = ("TLSv1.2", "TLSv1.3")
    ciphers: Sequence[str] = ()


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """A context for connections to brokers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.check_hostname and options.check_certificate
    context.verify_mode = ssl.CERT_REQUIRED if options.check_certificate else ssl.CERT_NONE
    wanted = [VERSIONS[version] for version in options.versions]
    context.minimum_version, context.maximum_version = min(wanted), max(wanted)
    _trust(context, options)
    _identify(context, options)
    _choose_ciphers(context, options.ciphers)
    return context


# --- whom we trust ---------------------------------------------------------------------------------------------------


def _trust(context: ssl.SSLContext, options: TlsOptions) -> None:
    if options.ca_location is None and options.ca_text is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if options.ca_location is not None:
        _load_trusted(context, Path(options.ca_location), "ssl.truststore.location")
    if options.ca_text is not None:
        try:
            context.load_verify_locations(cadata=options.ca_text)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidSetting(f"ssl.truststore.certificates is not PEM: {_why(error)}") from None
    if options.crl_location is not None:
        _load_trusted(context, Path(options.crl_location), "ssl.crl.location")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_trusted(context: ssl.SSLContext, path: Path, name: str) -> None:
    if path.is_dir():
        context.load_verify_locations(capath=str(path))
        return
    _check_pem(path, name)
    try:
        context.load_verify_locations(cafile=str(path))
    except ssl.SSLError as error:
        raise InvalidSetting(f"{name}={path} holds no certificate that can be read: {_why(error)}") from None


# --- who we are ------------------------------------------------------------------------------------------------------


def _identify(context: ssl.SSLContext, options: TlsOptions) -> None:
    if options.certificate_text is not None or options.key_text is not None:
        _load_texts(context, options)
    elif options.certificate_location is not None:
        _load_files(context, options.certificate_location, options.key_location, options.key_password)
    elif options.key_location is not None:
        raise InvalidSetting("ssl.key.location needs the certificate too: give ssl.certificate.location")


def _load_texts(context: ssl.SSLContext, options: TlsOptions) -> None:
    if options.certificate_text is None or options.key_text is None:
        raise InvalidSetting("ssl.keystore.certificate.chain and ssl.keystore.key belong together; give both")
    import tempfile  # loads half the standard library, and few have keys as texts

    with tempfile.TemporaryDirectory(prefix="ottla-") as directory:
        path = Path(directory) / "client.pem"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{_lines(options.key_text)}\n{_lines(options.certificate_text)}\n")
        _load_chain(context, path, None, options.key_password, "ssl.keystore.key")


def _load_files(context: ssl.SSLContext, certificate: str, key: str | None, password: str | None) -> None:
    _check_pem(Path(certificate), "ssl.keystore.location or ssl.certificate.location")
    if key is not None:
        _check_pem(Path(key), "ssl.key.location")
    _load_chain(context, Path(certificate), key, password, certificate)


def _load_chain(context: ssl.SSLContext, path: Path, key: str | None, password: str | None, name: str) -> None:
    # Without an answer OpenSSL would ask on the terminal, and a service would hang.
    def answer() -> str:
        if password is None:
            raise InvalidSetting(f"the key of {name} is encrypted; give ssl.key.password")
        return password

    try:
        context.load_cert_chain(path, key, password=answer)
    except ssl.SSLError as error:
        hint = "the key does not belong to the certificate, is not PEM, or ssl.key.password is wrong"
        raise InvalidSetting(f"the certificate and key of {name} cannot be used ({_why(error)}): {hint}") from None


# --- reading ---------------------------------------------------------------------------------------------------------


def _check_pem(path: Path, name: str) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise InvalidSetting(f"{name}={path} cannot be read: {error.strerror}") from None
    if start == _JKS:
        raise InvalidSetting(
            f"{name}={path} is a Java key store (JKS); make PEM of it:"
            f" keytool -importkeystore -srckeystore {path.name} -destkeystore store.p12 -deststoretype PKCS12,"
            " then openssl pkcs12 -in store.p12 -nodes -out store.pem"
        )
    if start[:1] == _DER:
        hint = f"openssl pkcs12 -in {path.name} -nodes -out store.pem"
        raise InvalidSetting(f"{name}={path} is PKCS#12 or DER, not PEM; make PEM of it: {hint}")


def _lines(pem: str) -> str:
    r"""PEM from a .properties file may have come with "\n" written out, or as one line with spaces for line ends."""
    text = pem.replace("\\n", "\n")
    if "\n" in text.strip():
        return text
    return re.sub(r"(-----BEGIN [A-Z0-9 ]+-----)\s*(.*?)\s*(-----END [A-Z0-9 ]+-----)\s*", _broken, text)


def _broken(found: re.Match[str]) -> str:
    begin, body, end = found.groups()
    return "\n".join([begin, *body.split(), end, ""])


def _choose_ciphers(context: ssl.SSLContext, ciphers: Sequence[str]) -> None:
    if not ciphers:
        return
    # Which suites TLS 1.3 may use cannot be told to Python's TLS; they are few and all good.
    names = [openssl_name(cipher) for cipher in ciphers if not _TLS13_SUITES.match(cipher)]
    if not names:
        raise InvalidSetting("ssl.cipher.suites names suites of TLS 1.3 only; they cannot be chosen here, leave it out")
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError as error:
        raise InvalidSetting(f"ssl.cipher.suites: none of {', '.join(names)} is known ({_why(error)})") from None


def openssl_name(cipher: str) -> str:
    """OpenSSL's name of a cipher suite that may be written as Java writes it."""
    if not cipher.startswith("TLS_"):
        return cipher
    name = cipher.removeprefix("TLS_").replace("_WITH_", "_").removeprefix("RSA_")
    name = re.sub(r"AES_(128|256)_CBC_", r"AES\1_", name)
    name = re.sub(r"AES_(128|256)_", r"AES\1_", name)
    return name.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("_", "-")


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
