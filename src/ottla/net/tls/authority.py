"""A certificate authority of one's own: makes itself, and certificates for servers and clients.

    authority = Authority.make("Ottla CA")
    server = authority.issue("broker-1", hosts=["localhost", "127.0.0.1"])
    Path("server.pem").write_text(server.pem)          # key and chain in one file: ssl.keystore.location

Keys are ECDSA P-256. A certificate is good from an hour before (clocks differ) for `days`; where a test wants another
time, usage or subject, it says so. The time comes in as an argument.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ottla.clock import SystemClock
from ottla.light_dataclasses import dataclass, field

SERVER: Final = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH
YEARS_DAYS: Final = 3650
ISSUED_DAYS: Final = 825
_EARLIER: Final = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Issued:
    """A certificate with the chain above it, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def certificates_pem(self) -> str:
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in (self.certificate, *self.chain))

    def key_pem(self, password: str | None = None) -> str:
        """The key as PKCS#8, locked when there is a password."""
        lock: KeySerializationEncryption = NoEncryption()
        if password is not None:
            lock = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock).decode()

    @property
    def pem(self) -> str:
        """Key and certificates in one text."""
        return self.key_pem() + self.certificates_pem


@dataclass(frozen=True)
class Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    above: tuple[x509.Certificate, ...] = ()

    @classmethod
    def make(cls, name: str, *, now: datetime.datetime | None = None, days: int = YEARS_DAYS) -> Authority:
        """A new authority that vouches for itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _authority_builder(subject, key, _now(now), days).issuer_name(subject)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def intermediate(self, name: str, *, now: datetime.datetime | None = None, days: int = ISSUED_DAYS) -> Authority:
        """An authority below this one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _authority_builder(subject, key, _now(now), days).issuer_name(self.certificate.subject)
        certificate = builder.sign(self.key, hashes.SHA256())
        return Authority(certificate, key, (certificate, *self.above))

    def issue(
        self,
        name: str | x509.Name,
        *,
        hosts: Sequence[str] = (),
        usages: Sequence[x509.ObjectIdentifier] = (SERVER, CLIENT),
        now: datetime.datetime | None = None,
        days: int = ISSUED_DAYS,
    ) -> Issued:
        """A certificate for a server or a client, with a new key; `hosts` are names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        return Issued(self._certificate(name, key.public_key(), hosts, usages, now, days), key, self.above)

    def sign(
        self, name: str, key: ec.EllipticCurvePublicKey, *, hosts: Sequence[str], now: datetime.datetime | None = None
    ) -> str:
        """A certificate, and the chain above it, for a key that somebody else keeps."""
        certificate = self._certificate(name, key, hosts, (SERVER, CLIENT), now, ISSUED_DAYS)
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in (certificate, *self.above))

    def _certificate(
        self,
        name: str | x509.Name,
        key: ec.EllipticCurvePublicKey,
        hosts: Sequence[str],
        usages: Sequence[x509.ObjectIdentifier],
        now: datetime.datetime | None,
        days: int,
    ) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) if isinstance(name, str) else name
        builder = _builder(subject, key, _now(now), days).issuer_name(self.certificate.subject)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([host_name(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return builder.add_extension(above, critical=False).sign(self.key, hashes.SHA256())


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now - _EARLIER + datetime.timedelta(days=days))
    )


def _authority_builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return builder.add_extension(usage, critical=True)


def host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _now(now: datetime.datetime | None) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(SystemClock().now_ms() // 1000, datetime.UTC) if now is None else now
