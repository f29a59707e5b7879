"""What somebody wants of TLS, as plain values. Clients, brokers and the connection to ZooKeeper fill it in."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass, field

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True)
class TlsOptions:
    """Texts are PEM; secrets are not in the repr. A store type of None is found out from the first bytes."""

    ca_location: str | None = None
    ca_text: str | None = field(default=None, repr=False)
    ca_type: str | None = None
    ca_password: str | None = field(default=None, repr=False)
    crl_location: str | None = None
    store_location: str | None = None  # certificate and key in one file of any form
    store_type: str | None = None
    store_password: str | None = field(default=None, repr=False)
    certificate_location: str | None = None  # PEM; the key may be in the same file
    key_location: str | None = None
    certificate_text: str | None = field(default=None, repr=False)
    key_text: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    check_certificate: bool = True
    client_auth: str = "none"  # of a server: none, requested or required
    versions: Sequence[str] = ("TLSv1.2", "TLSv1.3")
    ciphers: Sequence[str] = ()

    @property
    def has_identity(self) -> bool:
        """Whether a certificate and a key are given, in whatever form."""
        return any((self.store_location, self.certificate_location, self.certificate_text, self.key_text))

    @property
    def has_trust(self) -> bool:
        """Whether it is given whose certificates count."""
        return self.ca_location is not None or self.ca_text is not None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read; a change of one of them wants a new context."""
        named = (self.ca_location, self.crl_location, self.store_location, self.certificate_location, self.key_location)
        return tuple(dict.fromkeys(each for each in named if each))


def wanted_versions(enabled: Sequence[str], best: str) -> list[str]:
    """The versions to speak: of ssl.enabled.protocols those up to ssl.protocol, and none below TLS 1.2."""
    unknown = [version for version in enabled if version not in VERSIONS]
    if unknown:
        raise InvalidSetting(
            f"ssl.enabled.protocols has {', '.join(unknown)}; there is {' and '.join(VERSIONS)}, older ones are broken"
        )
    limit = max(VERSIONS) if best == "TLS" else best
    if limit not in VERSIONS:
        raise InvalidSetting(f"ssl.protocol={best}; there is {', '.join(VERSIONS)} and TLS, which is the best of them")
    versions = [version for version in enabled if version <= limit]
    if not versions:
        raise InvalidSetting(f"ssl.protocol={limit} is below all of ssl.enabled.protocols")
    return versions
