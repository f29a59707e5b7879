"""What callers of the console must be allowed: the needs of the wire's handlers, under the names of this room."""

from __future__ import annotations

from typing import Final

from ottla.broker.security.needs import Need, Refused
from ottla.protocol.access import AclOperation, AclResource

DESCRIBE_CLUSTER: Final = Need(AclOperation.DESCRIBE, AclResource.CLUSTER)
ALTER_CLUSTER: Final = Need(AclOperation.ALTER, AclResource.CLUSTER)
DESCRIBE_TOPIC: Final = Need(AclOperation.DESCRIBE, AclResource.TOPIC)
LIST_TOPIC: Final = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.LEFT_OUT)
READ_TOPIC: Final = Need(AclOperation.READ, AclResource.TOPIC)
WRITE_TOPIC: Final = Need(AclOperation.WRITE, AclResource.TOPIC)
LIST_GROUP: Final = Need(AclOperation.DESCRIBE, AclResource.GROUP, Refused.LEFT_OUT, unless=DESCRIBE_CLUSTER)
DESCRIBE_GROUP: Final = Need(AclOperation.DESCRIBE, AclResource.GROUP)
READ_GROUP: Final = Need(AclOperation.READ, AclResource.GROUP)
DELETE_GROUP: Final = Need(AclOperation.DELETE, AclResource.GROUP)
LIST_ID: Final = Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, Refused.LEFT_OUT)
DESCRIBE_ID: Final = Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID)
WRITE_ID: Final = Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID)
