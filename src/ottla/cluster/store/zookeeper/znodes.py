"""What is in the nodes: JSON both ways, written byte for byte as Apache Kafka 3.9 writes it.

1. The order of the members is Kafka's, which is that of Scala's hash maps and has no meaning; readers must not and do
   not care. Where a map has as many members as there are partitions or settings, ours are in order.
2. What is read may be older: brokers of version 1 to 5, topics of 1 to 3, a controller of 1 or 2.
3. The partition epoch is the version of the state node, and the epoch of a broker is the transaction that made its
   node (czxid): both come with the node, not in it.
4. A node that makes no sense is DamagedNode, with its path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from ottla.cluster.model import NO_LEADER, Broker, Endpoint, FeatureRange, Partition, Topic
from ottla.cluster.store.events import NO_STATE
from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple
from ottla.values import ZERO_UUID, uuid_from_text, uuid_to_text

RECOVERING: Final = 1
_PLAINTEXT: Final = "PLAINTEXT"


class Znode(NamedTuple):
    """A node as it was read."""

    data: bytes | None
    version: int = 0
    czxid: int = 0
    owner: int = 0
    created_ms: int = 0


class DamagedNode(OttlaError):
    """A node in ZooKeeper cannot be understood, so nothing is decided on it.
    Look at it with zkCli.sh; it was not written by Apache Kafka 2.2-3.9 or Ottla."""


P = ParamSpec("P")
R = TypeVar("R")


def _reading(what: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A reader whose surprises are DamagedNode."""

    def decorate(read: Callable[P, R]) -> Callable[P, R]:
        @wraps(read)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return read(*args, **kwargs)
            except (ValueError, KeyError, TypeError, AttributeError) as problem:
                raise DamagedNode(f"{what} of {args[0]!r} makes no sense: {problem!r}") from problem

        return checked

    return decorate


# Ours. Apache Kafka passes over names that it does not know; a state that it writes has none of them, and so nobody is
# eligible who was before somebody else changed the in-sync set.
LOST_MEMORY = "ottla_lost_memory"
ELIGIBLE = "ottla_elr"
LAST_ELIGIBLE = "ottla_last_known_elr"


def to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _object(data: bytes | None) -> dict[str, Any]:
    value = json.loads(data or b"")
    if not isinstance(value, dict):
        raise TypeError(f"an object was expected, not {type(value).__name__}")
    return value


# --- brokers ----------------------------------------------------------------------------------------------------------


def broker_json(broker: Broker, *, timestamp_ms: int, jmx_port: int = -1) -> bytes:
    plain = next((each for each in broker.endpoints if each.security_protocol == _PLAINTEXT), None)
    return to_json(
        {
            "features": {
                each.name: {"min_version": each.min_level, "max_version": each.max_level} for each in broker.features
            },
            "listener_security_protocol_map": {each.listener: each.security_protocol for each in broker.endpoints},
            "endpoints": [f"{each.listener}://{_host_text(each.host)}:{each.port}" for each in broker.endpoints],
            **({} if broker.rack is None else {"rack": broker.rack}),
            **({LOST_MEMORY: True} if broker.lost_memory else {}),
            "jmx_port": jmx_port,
            "port": plain.port if plain else -1,
            "host": plain.host if plain else None,
            "version": 5,
            "timestamp": str(timestamp_ms),
        }
    )


def _host_text(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@_reading("the registration")
def read_broker(broker_id: int, node: Znode) -> Broker:
    data = _object(node.data)
    protocols = data.get("listener_security_protocol_map") or {}
    texts = data.get("endpoints") or [f"{_PLAINTEXT}://{data['host']}:{data['port']}"]
    return Broker(
        broker_id,
        tuple(_endpoint(text, protocols) for text in texts),
        epoch=node.czxid,
        rack=data.get("rack"),
        features=tuple(
            FeatureRange(name, int(each.get("min_version", 0)), int(each["max_version"]))
            for name, each in (data.get("features") or {}).items()
        ),
        lost_memory=data.get(LOST_MEMORY) is True,
    )


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(listener, host.removeprefix("[").removesuffix("]"), int(port), protocols.get(listener, listener))


# --- topics and partitions --------------------------------------------------------------------------------------------


def topic_json(topic: Topic) -> bytes:
    def moving(name: str) -> dict[str, list[int]]:
        replicas = ((index, getattr(each, name)) for index, each in enumerate(topic.partitions))
        return {str(index): list(ids) for index, ids in replicas if ids}

    return to_json(
        {
            "partitions": {str(index): list(each.replicas) for index, each in enumerate(topic.partitions)},
            "topic_id": uuid_to_text(topic.id),
            "adding_replicas": moving("adding"),
            "removing_replicas": moving("removing"),
            "version": 3,
        }
    )


class Assignment(NamedTuple):
    """A topic node: its id (zeros when it has none yet), and per partition replicas, adding and removing."""

    id: bytes
    partitions: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...]


@_reading("the assignment")
def read_assignment(name: str, node: Znode) -> Assignment:
    data = _object(node.data)
    replicas = {int(index): tuple(map(int, ids)) for index, ids in data["partitions"].items()}
    if sorted(replicas) != list(range(len(replicas))):
        raise ValueError(f"partitions {sorted(replicas)} are not numbered from 0")
    adding, removing = (data.get(key) or {} for key in ("adding_replicas", "removing_replicas"))
    return Assignment(
        uuid_from_text(data["topic_id"]) if data.get("topic_id") else ZERO_UUID,
        tuple(
            (replicas[index], tuple(adding.get(str(index), ())), tuple(removing.get(str(index), ())))
            for index in range(len(replicas))
        ),
    )


def state_json(partition: Partition, controller_epoch: int) -> bytes:
    return to_json(
        {
            "controller_epoch": controller_epoch,
            "leader": partition.leader,
            "version": 1,
            **({"leader_recovery_state": RECOVERING} if partition.recovering else {}),
            "leader_epoch": partition.leader_epoch,
            "isr": list(partition.isr),
            **({ELIGIBLE: list(partition.elr)} if partition.elr else {}),
            **({LAST_ELIGIBLE: list(partition.last_known_elr)} if partition.last_known_elr else {}),
        }
    )


@_reading("the partition state")
def read_partition(name: str, index: int, assignment: Assignment, state: Znode | None) -> Partition:
    """The partition as both of its nodes say; one that never had a leader has no state node."""
    replicas, adding, removing = assignment.partitions[index]
    if state is None:
        return Partition(replicas, (), NO_LEADER, NO_STATE, NO_STATE, adding, removing)
    data = _object(state.data)
    return Partition(
        replicas,
        tuple(map(int, data["isr"])),
        int(data["leader"]),
        int(data["leader_epoch"]),
        state.version,
        adding,
        removing,
        recovering=data.get("leader_recovery_state", 0) == RECOVERING,
        elr=tuple(map(int, data.get(ELIGIBLE, ()))),
        last_known_elr=tuple(map(int, data.get(LAST_ELIGIBLE, ()))),
    )


def written_by_epoch(state: Znode) -> int:
    """The controller epoch under which a state was written."""
    return int(_object(state.data)["controller_epoch"])


# --- the controller and the cluster -----------------------------------------------------------------------------------


def controller_json(broker_id: int, *, timestamp_ms: int) -> bytes:
    return to_json({"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1})


@_reading("the controller")
def read_controller(node: Znode) -> int:
    return int(_object(node.data)["brokerid"])


@_reading("the controller epoch")
def read_epoch(node: Znode) -> int:
    return int(node.data or b"")


def cluster_id_json(cluster_id: str) -> bytes:
    return to_json({"version": "1", "id": cluster_id})


@_reading("the cluster id")
def read_cluster_id(node: Znode) -> str:
    return str(_object(node.data)["id"])


def producer_ids_json(broker_id: int, first: int, last: int) -> bytes:
    return to_json({"version": 1, "broker": broker_id, "block_start": str(first), "block_end": str(last)})


@_reading("the block of producer ids")
def read_next_producer_id(node: Znode) -> int:
    """The first producer id that nobody has; the node is empty in a new cluster."""
    return int(_object(node.data)["block_end"]) + 1 if node.data else 0


def features_json(levels: Mapping[str, int]) -> bytes:
    return to_json({"features": dict(levels), "version": 2, "status": 1})


@_reading("the features")
def read_features(node: Znode) -> dict[str, int]:
    data = _object(node.data)
    levels = data.get("features") or {} if data.get("status", 1) else {}
    return {name: int(each["max_version_level"] if isinstance(each, dict) else each) for name, each in levels.items()}


# --- notes ------------------------------------------------------------------------------------------------------------


def log_dir_event_json(broker_id: int) -> bytes:
    return to_json({"version": 1, "broker": broker_id, "event": 1})


@_reading("the note about a log directory")
def read_log_dir_event(node: Znode) -> int:
    return int(_object(node.data)["broker"])


@_reading("the note about in-sync sets")
def read_isr_change(node: Znode) -> list[tuple[str, int]]:
    return [(str(each["topic"]), int(each["partition"])) for each in _object(node.data)["partitions"]]


def config_change_json(entity_path: str) -> bytes:
    return to_json({"version": 2, "entity_path": entity_path})


@_reading("the note about settings")
def read_config_change(node: Znode) -> str:
    """The entity path; version 1 had a type and a name instead."""
    data = _object(node.data)
    return str(data["entity_path"]) if "entity_path" in data else f"{data['entity_type']}/{data['entity_name']}"


@_reading("the note about access rules")
def read_note(node: Znode) -> dict[str, Any]:
    return _object(node.data)
