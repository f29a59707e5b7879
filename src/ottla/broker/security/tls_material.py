"""What a TLS listener shows and trusts at one moment: contexts made of its stores, and what to compare new ones with.

1. Everything is read and checked when it is made; a listener never has half of it.
2. A listener that other brokers use needs a certificate that its own trust store accepts, otherwise brokers would
   refuse each other: the two contexts shake hands in memory before anybody sees them.
3. While the broker runs, a new certificate must have the same subject and keep all names of the old one, unless
   ssl.allow.dn.changes or ssl.allow.san.changes allows it (KIP-1119): a wrong file would lock everybody out.
4. `stamps` says which state of the files this is.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TypeAlias

from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass, field, replace
from ottla.net.tls import TlsOptions, client_context, server_context
from ottla.net.tls.stores import read_identity
from ottla.net.tls.words import handshake_failure

Stamps: TypeAlias = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class TlsMaterial:
    """See the module. `client` is for this broker's connections to others, by a listener that brokers use."""

    options: TlsOptions
    stamps: Stamps
    certificate: bytes = field(repr=False)
    server: ssl.SSLContext = field(repr=False)
    client: ssl.SSLContext | None = field(default=None, repr=False)


def make_material(options: TlsOptions, *, is_for_brokers: bool) -> TlsMaterial:
    """InvalidSetting says what is wrong with the stores."""
    stamps = stamps_of(options)
    server = server_context(options)
    identity = read_identity(options)
    assert identity is not None, "a server's context has one"
    client = None
    if is_for_brokers:
        client = client_context(options)
        _check_brokers_accept_each_other(options)
    return TlsMaterial(options, stamps, identity.chain[0], server, client)


def stamps_of(options: TlsOptions) -> Stamps:
    """The files of the options as they are now; a missing one has no stamp."""
    found = []
    for name in options.files:
        try:
            state = Path(name).stat()
        except OSError:
            continue
        found.append((name, state.st_mtime_ns, state.st_size, state.st_ino))
    return tuple(found)


def check_replacement(old: TlsMaterial, new: TlsMaterial, *, allow_dn: bool, allow_san: bool) -> None:
    """InvalidSetting when the new certificate is not one for the same server."""
    if old.certificate == new.certificate:
        return
    from cryptography import x509

    before, after = (x509.load_der_x509_certificate(each.certificate) for each in (old, new))
    if not allow_dn and before.subject != after.subject:
        raise InvalidSetting(
            f"the new certificate is for {after.subject.rfc4514_string()}, the old one is for "
            f"{before.subject.rfc4514_string()}; ssl.allow.dn.changes=true allows that"
        )
    missing = sorted(map(str, _names(before) - _names(after)))
    if not allow_san and missing:
        raise InvalidSetting(
            f"the new certificate lacks names that the old one has: {', '.join(missing)}; "
            "ssl.allow.san.changes=true allows that"
        )


def _names(certificate: object) -> set[object]:
    from cryptography import x509

    assert isinstance(certificate, x509.Certificate)
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {each.value for each in found.value}


def _check_brokers_accept_each_other(options: TlsOptions) -> None:
    """Shake hands in memory, with a certificate from both sides; names are checked when brokers connect."""
    server = server_context(replace(options, client_auth="required") if options.has_trust else options)
    client = client_context(replace(options, check_hostname=False))
    try:
        _shake_hands(server, client)
    except ssl.SSLError as error:
        raise InvalidSetting(
            f"other brokers would refuse this certificate: {handshake_failure(error)}. The trust store must hold "
            "what the broker's own certificate comes from, and the certificate must be good for servers and clients"
        ) from None


def _shake_hands(server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server)
    waiting = [client, server]
    while waiting:
        side = waiting.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)
