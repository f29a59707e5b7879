"""The values of `ottla apply`: what a file wants, what a cluster has, and the changes between the two.

1. A section that a file does not have is None in Desired: it is nobody's business then, and nothing in it changes.
2. A secret is never a value here: only where it is found (SecretSource). A setting whose value the cluster does not
   show is HIDDEN.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla.client.admin.access import AclBinding
from ottla.client.admin.configs import ConfigResource
from ottla.client.admin.credentials import ScramMechanism
from ottla.client.admin.quotas import EntityKey
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple


class Hidden(enum.Enum):
    """The value of a setting that is there and is not shown."""

    HIDDEN = "(hidden)"


HIDDEN: Final = Hidden.HIDDEN


class SecretSource(NamedTuple):
    """Where a secret is found: a variable of the environment, or the first line of a file."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"from {self.kind} {self.name}"


Setting: TypeAlias = "str | SecretSource"


# --- what a file wants -----------------------------------------------------------------------------------------------


class WantedTopic(NamedTuple):
    """Numbers that are None are the cluster's to choose, and are not compared."""

    partitions: int | None = None
    replication: int | None = None
    settings: Mapping[str, str] = {}


class WantedUser(NamedTuple):
    """Iterations that are None are the default for a new password, and are not compared."""

    password: SecretSource
    mechanisms: tuple[ScramMechanism, ...] = (ScramMechanism.SCRAM_SHA_512,)
    iterations: int | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """Everything that a file says."""

    topics: Mapping[str, WantedTopic] | None = None
    settings: Mapping[ConfigResource, Mapping[str, Setting]] | None = None
    users: Mapping[str, WantedUser] | None = None
    rules: frozenset[AclBinding] | None = None
    quotas: Mapping[EntityKey, Mapping[str, float]] | None = None


# --- what a cluster has ----------------------------------------------------------------------------------------------


class PresentTopic(NamedTuple):
    """`replicas` are the numbers of copies that its partitions have: more than one while something is amiss.
    The settings are those that were set for this topic."""

    partitions: int
    replicas: frozenset[int]
    settings: Mapping[str, str | Hidden | None] = {}
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class Current:
    """What the cluster has of the sections that are wanted. Of settings only those that were set while it ran."""

    topics: Mapping[str, PresentTopic] = field(default_factory=dict)
    settings: Mapping[ConfigResource, Mapping[str, str | Hidden | None]] = field(default_factory=dict)
    users: Mapping[str, Mapping[ScramMechanism, int]] = field(default_factory=dict)
    rules: frozenset[AclBinding] = frozenset()
    quotas: Mapping[EntityKey, Mapping[str, float]] = field(default_factory=dict)


# --- changes ---------------------------------------------------------------------------------------------------------


class CreateTopic(NamedTuple):
    name: str
    topic: WantedTopic


class GrowTopic(NamedTuple):
    name: str
    before: int
    after: int


class SetConfig(NamedTuple):
    """`after` None takes the setting back to its default."""

    resource: ConfigResource
    name: str
    before: str | Hidden | None
    after: Setting | None


class SetPassword(NamedTuple):
    user: str
    mechanism: ScramMechanism
    iterations: int | None
    password: SecretSource
    is_new: bool


class AddRule(NamedTuple):
    rule: AclBinding


class SetQuota(NamedTuple):
    """`after` None takes the quota away."""

    entity: EntityKey
    name: str
    before: float | None
    after: float | None


class RemoveRule(NamedTuple):
    rule: AclBinding


class DeletePassword(NamedTuple):
    user: str
    mechanism: ScramMechanism


class DeleteTopic(NamedTuple):
    name: str


Change: TypeAlias = (
    "CreateTopic | GrowTopic | SetConfig | SetPassword | AddRule | SetQuota | RemoveRule | DeletePassword | DeleteTopic"
)


def deletes(change: Change) -> bool:
    """Whether something goes away by it."""
    if isinstance(change, SetConfig | SetQuota):
        return change.after is None
    return isinstance(change, RemoveRule | DeletePassword | DeleteTopic)


class Plan(NamedTuple):
    """The changes in the order in which they are made, and what cannot be made, as sentences.
    When there is a sentence, nothing is changed."""

    changes: tuple[Change, ...] = ()
    refused: tuple[str, ...] = ()
