"""Where things are in ZooKeeper: Kafka 3.9's paths, relative to the chroot of zookeeper.connect.

Names of users, clients, addresses and groups stand in paths percent-encoded, as Java's URLEncoder would, with %20 for a
space and %2A for an asterisk. Topic names need none of that. The default entity is `<default>`, which no encoded name
can be.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
PRODUCER_IDS: Final = "/latest_producer_id_block"

CONFIG: Final = "/config"
KAFKAS_CONFIG_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")
CONFIG_TYPES: Final = (*KAFKAS_CONFIG_TYPES, "groups", "client-metrics")
"""The last two have the names that Kafka 3.9 has for them, which keeps none in ZooKeeper; made when first needed."""
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE: Final = CONFIG_CHANGES + "/config_change_"

DELETIONS: Final = "/admin/delete_topics"
REASSIGNMENT: Final = "/admin/reassign_partitions"
ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT: Final = LOG_DIR_EVENTS + "/log_dir_event_"

ACL: Final = "/kafka-acl"
ACL_CHANGES: Final = "/kafka-acl-changes"
ACL_EXTENDED: Final = "/kafka-acl-extended"
ACL_EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
ACL_TYPES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
TOKENS: Final = "/delegation_token/tokens"
TOKEN_CHANGES: Final = "/delegation_token/token_changes"

MADE_AT_START: Final = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETIONS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_IDS,
    LOG_DIR_EVENTS,
    ACL_CHANGES,
    ACL_EXTENDED_CHANGES,
    TOKENS,
    TOKEN_CHANGES,
    *(f"{CONFIG}/{kind}" for kind in KAFKAS_CONFIG_TYPES),
)
"""What Kafka makes when it starts and it is not there, with an authorizer; children of absent nodes have no watch."""

ONLY_FOR_BROKERS: Final = ("/config/users", "/delegation_token")
"""What others may not even read when zookeeper.set.acl is on, because there are credentials in it."""

DEFAULT: Final = "<default>"


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}"


def state(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}/state"


def deletion(name: str) -> str:
    return f"{DELETIONS}/{name}"


def entity(entity_path: str) -> str:
    """The node of "topics/t", "users/u/clients/c" and so on."""
    return f"{CONFIG}/{entity_path}"


def parents(path: str) -> list[str]:
    """What must be there before a node can be made, topmost first."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def uncertain_parents(path: str) -> list[str]:
    """Those of them that are not there from the start."""
    return [parent for parent in parents(path) if parent not in _FROM_THE_START]


_FROM_THE_START: Final = frozenset(each for path in MADE_AT_START for each in (path, *parents(path)))


def encoded(name: str) -> str:
    """As Java's URLEncoder would; but ZooKeeper has no nodes that are called "." or ".."."""
    text = quote(name, safe="").replace("~", "%7E")
    return text.replace(".", "%2E") if name in (".", "..") else text


def decoded(text: str) -> str:
    return unquote(text)


def sequence_number(name: str) -> int:
    """The number that ZooKeeper put behind the name of a sequential node."""
    return int(name[-10:])
