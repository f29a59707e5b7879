"""The rule sets under which every request is sent: each belongs to a user of the same name.

    none                no rule at all
    all                 everything is allowed
    only-TOPIC-READ     this operation on the NAMES of this kind, and nothing else
    but-TOPIC-READ      everything, but this operation on the NAMES of this kind is denied, and rights on the cluster
                        that would stand for it (STAND_INS) are not given

Together they tell what a request needs: an operation that suffices answers under its `only`, one that is necessary
fails under its `but`. Other resources of the same kind (`shut`, `hidden`, `spared`) are never in a rule of their own,
so a request that names both shows what is refused entry by entry.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.access import AclOperation as Operation
from ottla.protocol.access import AclResource as Resource

OPEN, SHUT = "open", "shut"  # exist
GHOST, HIDDEN = "ghost", "hidden"  # do not
VICTIM, SPARED = "victim", "spared"  # topics that exist until they are deleted
MODERN, MODERN_SHUT = "modern", "modern-shut"  # groups of the new protocol
FLOWING = "flowing"  # a group of Kafka Streams, whose changelog cannot be created
STEADY = "steady"  # a transactional id with an open transaction
OWNER = "owner"  # a user who has a token
CLUSTER_NAME = "kafka-cluster"

NAMES = {
    Resource.TOPIC: (OPEN, GHOST, VICTIM),
    Resource.GROUP: (OPEN, GHOST, MODERN, FLOWING),
    Resource.CLUSTER: (CLUSTER_NAME,),
    Resource.TRANSACTIONAL_ID: (OPEN, GHOST, STEADY),
    Resource.DELEGATION_TOKEN: (OPEN,),
    Resource.USER: (f"User:{OWNER}",),
}
STAND_INS = ("CREATE", "DELETE", "CLUSTER_ACTION", "DESCRIBE")  # on the cluster suffice for topics or groups
EVERY_NAME = {Resource.CLUSTER: CLUSTER_NAME}  # there is no other
OPERATIONS = {
    Resource.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    Resource.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    Resource.CLUSTER: "CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
    Resource.TRANSACTIONAL_ID: "WRITE DESCRIBE TWO_PHASE_COMMIT",
    Resource.DELEGATION_TOKEN: "DESCRIBE",
    Resource.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
}


class Rule(NamedTuple):
    user: str
    is_allowed: bool
    resource: Resource
    name: str
    operation: Operation


def rule_sets() -> dict[str, list[Rule]]:
    """The rules of every user."""
    sets: dict[str, list[Rule]] = {"none": [], "all": _everything("all")}
    for resource, operation in _pairs():
        only, but = f"only-{resource.name}-{operation.name}", f"but-{resource.name}-{operation.name}"
        sets[only] = [Rule(only, True, resource, name, operation) for name in NAMES[resource]]
        denied = [Rule(but, False, resource, name, operation) for name in NAMES[resource]]
        sets[but] = denied + (_everything(but) if resource is Resource.CLUSTER else _nearly_everything(but))
    return sets


def _pairs() -> list[tuple[Resource, Operation]]:
    return [(resource, Operation[name]) for resource, names in OPERATIONS.items() for name in names.split()]


def _everything(user: str) -> list[Rule]:
    return [Rule(user, True, resource, EVERY_NAME.get(resource, "*"), Operation.ALL) for resource in NAMES]


def _nearly_everything(user: str) -> list[Rule]:
    """What administrators of clusters may: everything, but nothing on the cluster that stands for rights on topics."""
    elsewhere = [rule for rule in _everything(user) if rule.resource is not Resource.CLUSTER]
    on_cluster = [each for resource, each in _pairs() if resource is Resource.CLUSTER and each.name not in STAND_INS]
    return elsewhere + [Rule(user, True, Resource.CLUSTER, CLUSTER_NAME, each) for each in on_cluster]
