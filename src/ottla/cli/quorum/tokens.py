"""What the line for the next machine carries beside an address: `ottla broker start --join HOST:PORT --token ...`.

    1.CLUSTER-ID.CHECKSUM                                 without logins
    2.CLUSTER-ID.AUTHORITY.TICKET.SECRET.CHECKSUM         of a secured cluster

1. It names the cluster, so that nobody joins another one that answers at that address.
2. The first kind is no secret: whoever reaches a cluster without logins can do everything there anyway. The second has
   the certificate of the cluster's authority (DER as URL-safe base64) and a ticket that is good once (tickets.py).
3. A line that was cut or mistyped is told from one for another cluster by the checksum.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from ottla.cli.output import Failure
from ottla.cli.quorum.tickets import Ticket
from ottla.light_dataclasses import dataclass, field

PLAIN: Final = "1"
SECURED: Final = "2"
_PARTS: Final = {PLAIN: 2, SECURED: 5}
HOW_TO_GET_ONE: Final = (
    "the start of the first node (ottla broker start --new-cluster), or `ottla cluster invite`, prints the whole line"
)


@dataclass(frozen=True, slots=True)
class JoinToken:
    """For one cluster; of a secured one with its authority, and a ticket."""

    cluster_id: str
    authority: bytes = field(default=b"", repr=False)
    ticket: Ticket | None = None

    @property
    def text(self) -> str:
        parts = [PLAIN, self.cluster_id]
        if self.ticket is not None:
            authority = urlsafe_b64encode(self.authority).decode().rstrip("=")
            parts = [SECURED, self.cluster_id, authority, self.ticket.name, self.ticket.secret]
        body = ".".join(parts)
        return f"{body}.{_checksum(body)}"

    @classmethod
    def parse(cls, text: str) -> JoinToken:
        body, _, checksum = text.strip().rpartition(".")
        version, *parts = body.split(".")
        if version.isdecimal() and version not in _PARTS:
            raise Failure(f"--token is of version {version}, which this Ottla does not know; install a newer one")
        if checksum != _checksum(body) or len(parts) + 1 != _PARTS.get(version) or not all(parts):
            shown = text if version == PLAIN else "of a secured cluster"
            raise Failure(f"--token {shown} is incomplete or mistyped; {HOW_TO_GET_ONE}")
        if version == PLAIN:
            return cls(parts[0])
        cluster_id, authority, ticket, secret = parts
        try:
            der = urlsafe_b64decode(authority + "=" * (-len(authority) % 4))
        except binascii.Error:
            raise Failure(f"--token is incomplete or mistyped; {HOW_TO_GET_ONE}") from None
        return cls(cluster_id, der, Ticket(ticket, secret))

    @property
    def authority_pem(self) -> str:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        return x509.load_der_x509_certificate(self.authority).public_bytes(Encoding.PEM).decode()

    def check(self, cluster_id: str, where: str) -> None:
        if cluster_id != self.cluster_id:
            raise Failure(
                f"the cluster at {where} is {cluster_id}, and the token is for {self.cluster_id}. "
                f"Check the address after --join; {HOW_TO_GET_ONE}"
            )


def open_line(cluster_id: str, address: str, *, is_open: bool) -> str:
    """What is typed on the next machine of a cluster without logins; `is_open` where others reach its ports, too."""
    insecure = " --insecure" if is_open else ""
    return f"ottla broker start --join {address} --token {JoinToken(cluster_id).text}{insecure}"


def is_secured_token(text: str | None) -> bool:
    return text is not None and text.strip().startswith(f"{SECURED}.")


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
