"""Options become a TLS context: for a client, or for a server.

1. TLS 1.2 and 1.3, nothing older. Cipher suites are the library's choice or those that are named (ciphers.py).
2. A client checks the server's certificate against the trusted ones (or the system's) and against the host name.
   Turning either off must be asked for.
3. A server must have a certificate. One that asks clients for theirs must say whose certificates count: Java would
   take every public authority, which lets the whole world in. It resumes no sessions, so that every connection shows
   its certificate.
4. As in Java every certificate in a trust store is an anchor, also one in the middle of a chain.
5. Python's TLS reads keys from files only. Ours come as text: through memory that has a name (Linux), or a file that
   only we may read and that is removed at once.
6. Errors are InvalidSetting with the setting or the file and what to do; no key and no password is ever in them.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.errors import InvalidSetting
from ottla.net.tls.ciphers import choose_ciphers
from ottla.net.tls.options import VERSIONS, TlsOptions
from ottla.net.tls.stores import Identity, read_identity, read_trusted

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """A context for connections to servers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.check_hostname and options.check_certificate
    context.verify_mode = ssl.CERT_REQUIRED if options.check_certificate else ssl.CERT_NONE
    if not options.has_trust:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return _filled(context, options)


def server_context(options: TlsOptions) -> ssl.SSLContext:
    """A context for connections that are accepted."""
    if not options.has_identity:
        raise InvalidSetting(
            "a TLS listener needs a certificate and its key: give ssl.keystore.location, or "
            "ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    if options.client_auth != "none" and not options.has_trust:
        raise InvalidSetting(
            f"ssl.client.auth={options.client_auth}, but nothing says whose certificates count: give "
            "ssl.truststore.location or ssl.truststore.certificates"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _CLIENT_AUTH[options.client_auth]
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
    if options.client_auth != "none":
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return _filled(context, options)


def _filled(context: ssl.SSLContext, options: TlsOptions) -> ssl.SSLContext:
    wanted = [VERSIONS[version] for version in options.versions]
    context.minimum_version, context.maximum_version = min(wanted), max(wanted)
    _trust(context, options)
    identity = read_identity(options)
    if identity is not None:
        _load_identity(context, identity)
    choose_ciphers(context, options.ciphers)
    return context


# --- whom we trust ---------------------------------------------------------------------------------------------------


def _trust(context: ssl.SSLContext, options: TlsOptions) -> None:
    if options.ca_location is not None and Path(options.ca_location).is_dir():
        context.load_verify_locations(capath=options.ca_location)
    else:
        for certificate in read_trusted(options):
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            _load_trusted(context, certificate, options)
    if options.crl_location is not None:
        _load_revoked(context, options.crl_location)


def _load_trusted(context: ssl.SSLContext, certificate: bytes, options: TlsOptions) -> None:
    try:
        context.load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError) as error:
        name = "ssl.truststore.certificates"
        if options.ca_location is not None:
            name = f"ssl.truststore.location={options.ca_location}"
        raise InvalidSetting(f"{name} holds a certificate that cannot be read: {_why(error)}") from None


def _load_revoked(context: ssl.SSLContext, location: str) -> None:
    try:
        context.load_verify_locations(cafile=location)
    except ssl.SSLError as error:
        raise InvalidSetting(f"ssl.crl.location={location} is no PEM list of revocations: {_why(error)}") from None
    except OSError as error:
        raise InvalidSetting(f"ssl.crl.location={location} cannot be read: {error.strerror}") from None
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


# --- who we are ------------------------------------------------------------------------------------------------------


def _load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    with _as_file(identity.pem) as path:
        try:
            # With a password that is a function OpenSSL never asks on the terminal, where a service would hang.
            context.load_cert_chain(path, password=lambda: identity.key_password or "")
        except ssl.SSLError as error:
            raise InvalidSetting(
                f"the certificate and key of {identity.name} cannot be used ({_why(error)}): {_hint(error, identity)}"
            ) from None


def _hint(error: ssl.SSLError, identity: Identity) -> str:
    if "MISMATCH" in str(error.reason):
        return "the key does not belong to the certificate"
    if identity.key_password is not None:
        return "ssl.key.password is wrong, or the key is damaged"
    return "the certificate or the key is damaged, or too weak for this machine"


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """The path of a file with this text, which exists as long as the block."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("ottla-tls", os.MFD_CLOEXEC)
        with os.fdopen(number, "wb") as file:
            file.write(text.encode())
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    import tempfile  # loads half the standard library

    with tempfile.TemporaryDirectory(prefix="ottla-") as directory:
        path = Path(directory) / "identity.pem"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode())
        yield str(path)


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
