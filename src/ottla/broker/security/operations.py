"""What can be done with each kind of resource, as clients may be told it: sets in bit fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.protocol.access import AclOperation, AclResource

O = AclOperation  # noqa: E741 - local shorthand for the table below
R = AclResource

OPERATIONS: Final[Mapping[AclResource, tuple[AclOperation, ...]]] = {
    R.TOPIC: (O.READ, O.WRITE, O.CREATE, O.DELETE, O.ALTER, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    R.GROUP: (O.READ, O.DELETE, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    R.CLUSTER: (
        *(O.CREATE, O.ALTER, O.DESCRIBE, O.CLUSTER_ACTION),
        *(O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS, O.IDEMPOTENT_WRITE),
    ),
    R.TRANSACTIONAL_ID: (O.WRITE, O.DESCRIBE, O.TWO_PHASE_COMMIT),
    R.DELEGATION_TOKEN: (O.DESCRIBE,),
    R.USER: (O.CREATE_TOKENS, O.DESCRIBE_TOKENS),
}


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


ALL_OPERATIONS: Final[Mapping[AclResource, int]] = {of: bits(*operations) for of, operations in OPERATIONS.items()}
TOPIC_OPERATIONS: Final = ALL_OPERATIONS[R.TOPIC]
GROUP_OPERATIONS: Final = ALL_OPERATIONS[R.GROUP]
CLUSTER_OPERATIONS: Final = ALL_OPERATIONS[R.CLUSTER]
