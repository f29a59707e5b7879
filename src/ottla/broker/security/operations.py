"""What clients may be told that they may do with a resource, as sets in bit fields."""

from ottla.protocol.access import AclOperation


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


O = AclOperation  # noqa: E741 - local shorthand for the three tables below
TOPIC_OPERATIONS = bits(O.READ, O.WRITE, O.CREATE, O.DELETE, O.ALTER, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)
GROUP_OPERATIONS = bits(O.READ, O.DELETE, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)
CLUSTER_OPERATIONS = bits(
    O.CREATE, O.ALTER, O.DESCRIBE, O.CLUSTER_ACTION, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS, O.IDEMPOTENT_WRITE
)
