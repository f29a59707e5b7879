"""Certificates and stores for tests, made on the spot: nothing to keep, nothing that runs out.

files = TlsFiles(tmp_path)                       # an authority, and what it issued
files.broker_settings("SSL")                     # a broker with a TLS listener
files.client_settings(store="alice")             # a client with a certificate
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509

from ottla.net.tls.authority import CLIENT, SERVER, Authority, Issued

HOSTS = ("localhost", "127.0.0.1")
LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


class TlsFiles:
    """One authority, and PEM files of what it issued, by name."""

    def __init__(self, directory: Path, authority: Authority | None = None) -> None:
        self.directory = directory
        self.authority = authority or Authority.make("Test CA")
        self.ca = directory / "ca.pem"
        self.ca.write_text(self.authority.pem)
        self.server = self.issue("server", hosts=HOSTS)

    def issue(self, name: str, *, subject: x509.Name | None = None, hosts: Sequence[str] = (), **more: object) -> Path:
        """A PEM file with key and certificate; the subject is CN=name unless another is given."""
        issued = self.authority.issue(subject or name, hosts=hosts, **more)  # type: ignore[arg-type]
        return self.write(name, issued)

    def write(self, name: str, issued: Issued) -> Path:
        path = self.directory / f"{name}.pem"
        path.write_text(issued.pem)
        return path

    def broker_settings(self, protocol: str = "SSL", **more: object) -> dict[str, object]:
        """Names in `more` are written with underscores."""
        return {
            "listeners": f"{protocol}://127.0.0.1:0",
            "security.inter.broker.protocol": protocol,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def client_settings(self, store: str | None = None) -> dict[str, object]:
        own = {} if store is None else {"ssl_keystore_location": str(self.directory / f"{store}.pem")}
        return {"security_protocol": "SSL", "ssl_cafile": str(self.ca), **own}


__all__ = ["CLIENT", "HOSTS", "LONG_AGO", "SERVER", "Authority", "TlsFiles"]
