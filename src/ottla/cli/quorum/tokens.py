"""What the line for the next machine carries beside an address: `ottla broker start --join HOST:PORT --token ...`.

    1.5L6g3nShT-eMCtK--X86sw.9c1f03aa       version, cluster id, checksum of what is before it

1. It names the cluster, so that nobody joins another one that answers at that address.
2. It is no secret: whoever reaches a cluster without logins can do everything there anyway. Decision 0225 says what a
   secured cluster's carries beside it, as the next version.
3. A line that was cut or mistyped is told from one for another cluster by the checksum.
"""

from __future__ import annotations

import zlib
from typing import Final

from ottla.cli.output import Failure
from ottla.light_dataclasses import dataclass

PLAIN: Final = "1"
HOW_TO_GET_ONE: Final = "the start of the first node (ottla broker start --new-cluster) prints the whole line"


@dataclass(frozen=True, slots=True)
class JoinToken:
    """For one cluster."""

    cluster_id: str

    @property
    def text(self) -> str:
        body = f"{PLAIN}.{self.cluster_id}"
        return f"{body}.{_checksum(body)}"

    @classmethod
    def parse(cls, text: str) -> JoinToken:
        body, _, checksum = text.strip().rpartition(".")
        version, _, cluster_id = body.partition(".")
        if version.isdecimal() and version != PLAIN:
            raise Failure(f"--token is of version {version}, and this Ottla knows version {PLAIN}; install a newer one")
        if version != PLAIN or checksum != _checksum(body) or not cluster_id:
            raise Failure(f"--token {text} is incomplete or mistyped; {HOW_TO_GET_ONE}")
        return cls(cluster_id)

    def check(self, cluster_id: str, where: str) -> None:
        if cluster_id != self.cluster_id:
            raise Failure(
                f"the cluster at {where} is {cluster_id}, and the token is for {self.cluster_id}. "
                f"Check the address after --join; {HOW_TO_GET_ONE}"
            )


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
