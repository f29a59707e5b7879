"""An image of the cluster as a tree of directories and texts, as Apache's kafka-metadata-shell shows it.

    /image/topics/byName/pairs/0        PartitionRegistration(replicas=[2, 3], ...)
    /local/version                      this program's

1. A node is a text, or a directory: names, each with a function that makes the node. So only what is shown is made,
   and a cluster of a hundred thousand partitions is no trouble.
2. Texts are those that Java's toString makes. The keys of users are in them, as in Apache's: who may read a snapshot
   has them anyway.
3. A quota of a default entity has a name without the parts that are default, as in Apache's shell, which then finds
   nothing under that name. It is an empty directory here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeAlias

from ottla import __version__
from ottla.cli.kafka.java_numbers import java_double
from ottla.cli.kafka.release_levels import release_of_level
from ottla.cluster.delegation_tokens import KIND
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.loader import Position
from ottla.cluster.model import (
    METADATA_VERSION,
    MIGRATING_DIRECTORY,
    AclBinding,
    Broker,
    ControllerNode,
    DelegationToken,
    Endpoint,
    FeatureRange,
    Partition,
    QuotaEntity,
    ScramCredential,
    Topic,
)
from ottla.cluster.token_text import read_token
from ottla.values import uuid_to_text

Node: TypeAlias = "str | Mapping[str, Callable[[], Node]]"
Directory: TypeAlias = Mapping[str, Callable[[], Node]]

MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
QUOTA_PARTS: Final = (("client-id", "clientId"), ("ip", "ip"), ("user", "user"))


def root_node(image: ClusterImage, position: Position) -> Directory:
    """`position` is that of the last record of what was read."""
    return {"image": partial(_image, image, position), "local": _local}


def _local() -> Directory:
    return {"version": lambda: __version__, "commitId": lambda: "unknown"}


def _image(image: ClusterImage, position: Position) -> Directory:
    return {
        "provenance": partial(_provenance, position),
        "features": partial(_features, image),
        "cluster": partial(_cluster, image),
        "topics": partial(_topics, image),
        "configs": partial(_configs, image),
        "clientQuotas": partial(_quotas, image),
        "producerIds": lambda: {"nextProducerId": lambda: str(image.next_producer_id or -1)},
        "acls": lambda: {"byId": partial(_acls, image)},
        "scram": partial(_scram, image),
        "delegationToken": partial(_tokens, image),
    }


def _provenance(position: Position) -> str:
    seconds, milliseconds = divmod(position.timestamp_ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{milliseconds:03}".rstrip("0").rstrip(".")
    return f"offset {position.offset}, epoch {position.epoch}, time {moment}{fraction}Z[UTC]"


def _features(image: ClusterImage) -> Directory:
    nodes: dict[str, Callable[[], Node]] = {
        f"finalized_{name}": partial(str, level) for name, level in image.features.items() if name != METADATA_VERSION
    }
    release = release_of_level(image.feature(METADATA_VERSION))
    return {**nodes, "metadataVersion": lambda: f"Optional[{release}]" if release else "Optional.empty"}


def _cluster(image: ClusterImage) -> Directory:
    return {
        "brokers": lambda: {str(broker.id): partial(_broker_text, broker) for broker in image.brokers.values()},
        "controllers": lambda: {
            str(controller.id): partial(_controller_text, controller) for controller in image.controllers.values()
        },
    }


def _topics(image: ClusterImage) -> Directory:
    topics = image.topics_by_name.values
    return {
        "byName": lambda: {topic.name: partial(_topic, topic) for topic in topics()},
        "byId": lambda: {uuid_to_text(topic.id): partial(_topic, topic) for topic in topics()},
    }


def _topic(topic: Topic) -> Directory:
    partitions = {str(index): partial(_partition_text, state) for index, state in enumerate(topic.partitions)}
    return {**partitions, "name": lambda: topic.name, "id": lambda: uuid_to_text(topic.id)}


def _configs(image: ClusterImage) -> Directory:
    return {
        f"{resource.type.name}:{resource.name}" if resource.name else resource.type.name: partial(_texts, values)
        for resource, values in image.configs.items()
    }


def _texts(values: Mapping[str, str]) -> Directory:
    return {name: partial(str, text) for name, text in values.items()}


def _quotas(image: ClusterImage) -> Directory:
    nodes: dict[str, Callable[[], Node]] = {}
    for entity, values in image.quotas.items():
        if all(name is not None for _, name in entity):
            nodes[_entity_name(entity)] = partial(_texts, {key: java_double(value) for key, value in values.items()})
        else:
            nodes.setdefault(_entity_name(entity), dict)
    return nodes


def _entity_name(entity: QuotaEntity) -> str:
    names = dict(entity)
    parts = [(shown, names[kind]) for kind, shown in QUOTA_PARTS if names.get(kind) is not None]
    return "_".join(f"{shown}({_escaped(name or '')})" for shown, name in parts)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _acls(image: ClusterImage) -> Directory:
    return {uuid_to_text(acl_id): partial(_acl_text, binding) for acl_id, binding in image.acls_by_id.items()}


def _scram(image: ClusterImage) -> Directory:
    return {mechanism: partial(_users, image, number) for mechanism, number in MECHANISMS.items()}


def _users(image: ClusterImage, mechanism: int) -> Directory:
    return {
        key.user: partial(_credential_text, credential)
        for key, credential in image.scram_credentials.items()
        if key.mechanism == mechanism
    }


def _tokens(image: ClusterImage) -> Directory:
    return {token_id: partial(_token_text, read_token(token_id, text)) for token_id, text in image.stored(KIND).items()}


# --- texts, as Java makes them ---------------------------------------------------------------------------------------


def _list(values: Iterable[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _ids(ids: Iterable[bytes]) -> str:
    return _list(uuid_to_text(each) for each in ids)


def _partition_text(state: Partition) -> str:
    directories = state.directories or (MIGRATING_DIRECTORY,) * len(state.replicas)
    return (
        f"PartitionRegistration(replicas={_list(state.replicas)}, directories={_ids(directories)}, "
        f"isr={_list(state.isr)}, removingReplicas={_list(state.removing)}, addingReplicas={_list(state.adding)}, "
        f"elr={_list(state.elr)}, lastKnownElr={_list(state.last_known_elr)}, leader={state.leader}, "
        f"leaderRecoveryState={'RECOVERING' if state.recovering else 'RECOVERED'}, leaderEpoch={state.leader_epoch}, "
        f"partitionEpoch={state.partition_epoch})"
    )


def _broker_text(broker: Broker) -> str:
    rack = "Optional.empty" if broker.rack is None else f"Optional[{broker.rack}]"
    cordoned = "null" if broker.cordoned_directories is None else _ids(broker.cordoned_directories)
    return (
        f"BrokerRegistration(id={broker.id}, epoch={broker.epoch}, "
        f"incarnationId={uuid_to_text(broker.incarnation_id)}, listeners={_endpoints(broker.endpoints)}, "
        f"supportedFeatures={_ranges(broker.features)}, rack={rack}, fenced={_truth(broker.fenced)}, "
        f"inControlledShutdown={_truth(broker.in_controlled_shutdown)}, isMigratingZkBroker=false, "
        f"directories={_ids(sorted(broker.directories, key=_java_order))}, "
        f"cordonedDirectories={cordoned})"
    )


def _controller_text(controller: ControllerNode) -> str:
    return (
        f"ControllerRegistration(id={controller.id}, incarnationId={uuid_to_text(controller.incarnation_id)}, "
        f"zkMigrationReady={_truth(controller.zk_migration_ready)}, listeners={_endpoints(controller.endpoints)}, "
        f"supportedFeatures={_ranges(controller.features)})"
    )


def _truth(value: bool) -> str:
    return str(value).lower()


def _java_order(directory_id: bytes) -> tuple[int, int]:
    """How Java sorts a Uuid: as two signed numbers."""
    return (
        int.from_bytes(directory_id[:8], "big", signed=True),
        int.from_bytes(directory_id[8:], "big", signed=True),
    )


def _endpoints(endpoints: Iterable[Endpoint]) -> str:
    return _list(
        f"Endpoint(listenerName='{endpoint.listener}', securityProtocol={endpoint.security_protocol}, "
        f"host='{endpoint.host}', port={endpoint.port})"
        for endpoint in sorted(endpoints, key=lambda endpoint: endpoint.listener)
    )


def _ranges(features: Iterable[FeatureRange]) -> str:
    texts = (f"{feature.name}: {_levels(feature)}" for feature in sorted(features))
    return f"{{{', '.join(texts)}}}"


def _levels(feature: FeatureRange) -> str:
    low, high = feature.min_level, feature.max_level
    return f"{low}" if low == high else f"{low}-{high}"


def _acl_text(binding: AclBinding) -> str:
    pattern, entry = binding
    return (
        f"StandardAcl[resourceType={pattern.resource_type.name}, resourceName={pattern.name}, "
        f"patternType={pattern.pattern_type.name}, principal={entry.principal}, host={entry.host}, "
        f"operation={entry.operation.name}, permissionType={entry.permission.name}]"
    )


def _credential_text(credential: ScramCredential) -> str:
    return (
        f"ScramCredentialData(salt={credential.salt.hex()}, storedKey={credential.stored_key.hex()}, "
        f"serverKey={credential.server_key.hex()}, iterations={credential.iterations})"
    )


def _token_text(token: DelegationToken) -> str:
    return (
        f"DelegationTokenDatatokenId={token.id}(owner={token.owner}(tokenRequester={token.requester}"
        f"(renewers={' '.join(token.renewers)}, issueTimestamp={token.issue_ms}, maxTimestamp={token.max_ms}), "
        f"expiryTimestamp={token.expiry_ms}"
    )
