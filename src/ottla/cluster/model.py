"""The things a cluster is made of, as frozen values.

1. Nothing here changes; the image (image.py) holds them, a change (changes.py) puts another one in the place of one.
2. Ids of topics and directories are 16 raw bytes, as on the wire.
3. A field that comes later must have a default: what an older version wrote does not have it.
4. Secrets are in no repr: keys of credentials, and the text of stored values, which may be one.

What ZooKeeper mode needs has its place already: broker epochs (czxid), listeners per broker, leader and partition
epochs (zkVersion of the state node), adding and removing replicas, recovering leaders.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, TypeAlias

from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.values import ZERO_UUID

NO_LEADER: Final = -1
METADATA_VERSION: Final = "metadata.version"
"""The feature whose level says what is written down, and how."""

# Ids that are no directory's, as in Kafka (KIP-858).
MIGRATING_DIRECTORY: Final = ZERO_UUID
"""The directory of a replica whose broker has never named its directories."""
UNASSIGNED_DIRECTORY: Final = (1).to_bytes(16)
"""The directory of a replica that its broker will put into one of several, and has not said into which."""
LOST_DIRECTORY: Final = (2).to_bytes(16)
"""A directory that failed; which one of them is not known."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients of one listener reach a broker."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class FeatureRange(NamedTuple):
    """Which levels of a feature a broker understands."""

    name: str
    min_level: int
    max_level: int


def level_range(features: Iterable[FeatureRange], name: str) -> FeatureRange:
    """What a node that understands those understands of one; nothing above level 0 when it never heard of it."""
    return next((feature for feature in features if feature.name == name), FeatureRange(name, 0, 0))


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that registered. Fenced: known, but not to be used. `lost_memory`: it may have less than what it had
    acknowledged, because its machine went down (broker/cluster/memory_loss.py). `incarnation_id` is another one with
    every start. `cordoned_directories` get no new replicas; None where nobody has ever said."""

    id: int
    endpoints: tuple[Endpoint, ...]
    epoch: int = -1
    rack: str | None = None
    features: tuple[FeatureRange, ...] = ()
    directories: tuple[bytes, ...] = ()
    fenced: bool = False
    in_controlled_shutdown: bool = False
    lost_memory: bool = False
    incarnation_id: bytes = ZERO_UUID
    cordoned_directories: tuple[bytes, ...] | None = None

    @property
    def is_active(self) -> bool:
        """May it lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((each for each in self.endpoints if each.listener == listener), None)


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """A controller of the quorum that registered; one that may give orders, not the one that does."""

    id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] = ()
    zk_migration_ready: bool = False


@dataclass(frozen=True, slots=True)
class Partition:
    """Who has a partition, who leads it and who is in sync. `directories` go with `replicas`, one for one."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    recovering: bool = False

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its partitions; the index of a partition is its place."""

    name: str
    id: bytes
    partitions: tuple[Partition, ...]

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


class ResourceType(IntEnum):
    """What settings can belong to, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Whose settings; the broker named "" stands for all brokers."""

    type: ResourceType
    name: str


ALL_BROKERS: Final = ConfigResource(ResourceType.BROKER, "")

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Whom a quota is for: pairs of type (user, client-id, ip) and name, sorted by type; None is the default entity."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker keeps of a password: enough to check it, not to know it."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


class ScramKey(NamedTuple):
    """Whose credential, for which mechanism (1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512)."""

    user: str
    mechanism: int


class AclPattern(NamedTuple):
    """Which resources a rule is about: the one of this name, or (PREFIXED) all whose names begin with it. The literal
    name "*" stands for all of them."""

    resource_type: AclResource
    pattern_type: PatternType
    name: str


class AclEntry(NamedTuple):
    """Who may, or (DENY) may not, do what, from which host; "User:*" is everybody and the host "*" every host."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


class AclBinding(NamedTuple):
    """An access rule."""

    pattern: AclPattern
    entry: AclEntry


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token that somebody may log in with for its owner. Principals are texts as User:alice, times milliseconds.

    What is its password, its HMAC, stands nowhere: brokers make it of the id and of their secret key."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def is_for(self, principal: str) -> bool:
        """Whether the principal is its owner or may renew it."""
        return principal == self.owner or principal in self.renewers

    def is_expired(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expiry_ms < now_ms


class StoredKey(NamedTuple):
    """The name of a value that the image only keeps: its kind ("delegation-token") and its key."""

    kind: str
    key: str
