"""What a principal may do, as the brokers list it: sets of operations, sent as bits."""

from __future__ import annotations

import enum
from typing import Final

NOT_ASKED: Final = -(1 << 31)


class AclOperation(enum.IntEnum):
    """What can be allowed or denied."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """The operations a bit field stands for; None when they were not asked for."""
    if bits == NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if operation > AclOperation.ANY and bits >> operation & 1)
