"""What a principal may do, as the brokers list it: sets of operations, sent as bits."""

from __future__ import annotations

from typing import Final

from ottla.protocol.access import AclOperation

__all__ = ["NOT_ASKED", "AclOperation", "operations_of"]

NOT_ASKED: Final = -(1 << 31)


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """The operations a bit field stands for; None when they were not asked for."""
    if bits == NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if operation > AclOperation.ANY and bits >> operation & 1)
