"""The certificates of a broker that secures itself: an authority of its own, and a server certificate from it.

    ca.pem          the authority's certificate: what clients trust
    ca-key.pem      its key, which signs the next server certificate
    server.pem      the broker's key and certificate

1. Made once. The next start uses what is there; the server certificate is made anew, by the same authority, when it
   lacks a name or is about to end: clients go on with the ca.pem they have.
2. Keys are readable by their owner only.
3. A new certificate has the names of the old one too, so that two ways to start do not replace each other's for ever.
"""

from __future__ import annotations

import datetime
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.client_files import write_secret
from ottla.cli.output import Failure
from ottla.cli.secured_files import AUTHORITY, AUTHORITY_KEY, SERVER

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from ottla.broker.settings.endpoints import Endpoint
    from ottla.net.tls.authority import Authority

RENEWED_BEFORE: Final = datetime.timedelta(days=30)
ALWAYS: Final = ("localhost", "127.0.0.1", "::1")


def ensure_certificates(directory: Path, hosts: Sequence[str], now: datetime.datetime, name: str | None = None) -> None:
    """Make what is missing or about to end; the certificate is called by the name, or by the first host."""
    authority = _authority(directory, now)
    names = _names_if_good(directory / SERVER, authority, now)
    if names is None or not set(hosts) <= set(names):
        wanted = list(dict.fromkeys([*hosts, *(names or ())]))
        issued = authority.issue(name or wanted[0], hosts=wanted, now=now)
        write_secret(directory / SERVER, issued.pem, replace=True)


def _authority(directory: Path, now: datetime.datetime) -> Authority:
    from ottla.net.tls.authority import Authority, Issued

    certificate, key = directory / AUTHORITY, directory / AUTHORITY_KEY
    if certificate.exists() and key.exists():
        return _read_authority(certificate, key)
    if certificate.exists():
        raise Failure(
            f"{key} is not there, and without it no certificate can be made that clients with {certificate} trust. "
            f"Bring it back, or remove {certificate} to begin anew: clients then need the new one"
        )
    made = Authority.make(f"Ottla CA of {socket.gethostname()}", now=now)
    write_secret(key, Issued(made.certificate, made.key).key_pem(), replace=True)
    write_secret(certificate, made.pem)
    certificate.chmod(0o644)  # it is no secret, and clients of other users need it
    return made


def read_authority(directory: Path) -> Authority:
    """The authority that was made there; a Failure where it was not."""
    return _read_authority(directory / AUTHORITY, directory / AUTHORITY_KEY)


def _read_authority(certificate: Path, key: Path) -> Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from ottla.net.tls.authority import Authority

    try:
        read_key = load_pem_private_key(key.read_bytes(), password=None)
        read_certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise Failure(f"{certificate} and {key} cannot be used: {_reason(error)}") from None
    if not isinstance(read_key, EllipticCurvePrivateKey) or read_key.public_key() != read_certificate.public_key():
        raise Failure(f"{key} is not the key of {certificate}; they were not made by ottla broker start --secure")
    return Authority(read_certificate, read_key)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "they are not PEM without a password"


def _names_if_good(path: Path, authority: Authority, now: datetime.datetime) -> list[str] | None:
    """The names of the server's certificate; None where there is none that will do."""
    from cryptography import x509

    if not path.exists():
        return None
    try:
        certificate = x509.load_pem_x509_certificates(path.read_bytes())[0]
        certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, IndexError, OSError, _wrong_signature()):
        return None
    return _names(certificate) if certificate.not_valid_after_utc - now > RENEWED_BEFORE else None


def _wrong_signature() -> type[Exception]:
    from cryptography.exceptions import InvalidSignature

    return InvalidSignature


def _names(certificate: Certificate) -> list[str]:
    from cryptography import x509

    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]


def hosts_of(endpoints: Iterable[Endpoint]) -> list[str]:
    """By which names and addresses clients may know this broker: those it says, and those of the machine."""
    listened = list(endpoints)
    named = [each.host for each in listened if each.host and not each.is_any_interface]
    machine = [socket.gethostname(), socket.getfqdn()]
    if any(not each.host or each.is_any_interface for each in listened):
        machine += _addresses(socket.gethostname())
    return list(dict.fromkeys(each for each in [*ALWAYS, *named, *machine] if each))


def _addresses(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found))
