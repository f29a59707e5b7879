"""Records of the metadata log as sentences, for people who look at what a cluster has decided.

    sentence(record, image)          "orders-0 is led by broker 2 in sync with 2, 3"

1. Topics are named by the image of now; one that is gone is named by its id.
2. No sentence has a secret: settings are told with their values only where they belong to a topic, and of users and
   tokens only who they are.
3. A record without a sentence of its own is told by its name, so none is ever left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER, ResourceType
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.protocol.metadata_log import access, brokers, control, settings, topics, transactions
from ottla.protocol.schema import Message
from ottla.values import uuid_to_text

Sentence = Callable[[Any, ClusterImage], str]

FENCING: Final = {1: "fenced", -1: "unfenced"}
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
RESOURCES: Final[Mapping[int, str]] = {
    ResourceType.TOPIC: "topic {}",
    ResourceType.BROKER: "broker {}",
    ResourceType.CLIENT_METRICS: "client metrics {}",
    ResourceType.GROUP: "group {}",
}


def sentence(record: Message, image: ClusterImage) -> str:
    """What a record says."""
    said_by = _SENTENCES.get(type(record))
    return _by_name(record) if said_by is None else said_by(record, image)


def _by_name(record: Message) -> str:
    words = re.sub(r"(?:Record|Message)$", "", type(record).__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words).capitalize()


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "nobody"


def _topic(topic_id: bytes, image: ClusterImage) -> str:
    return image.topic_name(topic_id) or f"topic {uuid_to_text(topic_id)} (gone)"


# --- topics ----------------------------------------------------------------------------------------------------------


def _partition(record: topics.PartitionRecord, image: ClusterImage) -> str:
    name = f"{_topic(record.topic_id, image)}-{record.partition_id}"
    return f"{name} is made on {_listed(record.replicas)}, {_led(record.leader)}"


def _led(leader: int) -> str:
    return "without a leader" if leader == NO_LEADER else f"led by broker {leader}"


def _partition_change(record: topics.PartitionChangeRecord, image: ClusterImage) -> str:
    name = f"{_topic(record.topic_id, image)}-{record.partition_id}"
    return f"{name}: {'; '.join(_changed(record)) or 'nothing changes'}"


def _changed(record: topics.PartitionChangeRecord) -> Iterator[str]:
    if record.leader != topics.NO_LEADER_CHANGE:
        yield "there is no leader" if record.leader == NO_LEADER else f"broker {record.leader} leads in a new epoch"
    if record.isr is not None:
        yield f"in sync are {_listed(record.isr)}" if record.isr else "nobody is in sync"
    if record.replicas is not None:
        yield f"replicas are on {_listed(record.replicas)}"
    if record.adding_replicas is not None or record.removing_replicas is not None:
        yield _moving(record.adding_replicas or (), record.removing_replicas or ())
    if record.directories is not None:
        yield "replicas lie in other directories"
    if record.eligible_leader_replicas is not None:
        yield f"eligible as leaders besides are {_listed(record.eligible_leader_replicas)}"
    if record.leader_recovery_state != topics.NO_RECOVERY_CHANGE:
        yield "the leader recovers" if record.leader_recovery_state else "the leader has recovered"


def _moving(adding: Iterable[int], removing: Iterable[int]) -> str:
    words = [f"{what} {_listed(which)}" for what, which in (("adding", adding), ("removing", removing)) if which]
    return f"a reassignment is {' and '.join(words)}" if words else "no reassignment is under way"


# --- brokers ---------------------------------------------------------------------------------------------------------


def _registered(record: brokers.RegisterBrokerRecord, image: ClusterImage) -> str:
    where = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in record.end_points)
    state = "fenced" if record.fenced else "unfenced"
    return f"Broker {record.broker_id} registers with epoch {record.broker_epoch}, {state}, at {where}"


def _registration_changed(record: brokers.BrokerRegistrationChangeRecord, image: ClusterImage) -> str:
    changes = [FENCING[record.fenced]] if record.fenced in FENCING else []
    changes += ["in controlled shutdown"] if record.in_controlled_shutdown else []
    changes += [f"left with {len(record.log_dirs)} log directories"] if record.log_dirs else []
    if record.cordoned_log_dirs is not None:
        changes.append(f"{len(record.cordoned_log_dirs)} of its log directories are cordoned")
    return f"Broker {record.broker_id}: {', '.join(changes) or 'nothing changes'}"


# --- settings, users, rules ------------------------------------------------------------------------------------------


def _config(record: settings.ConfigRecord, image: ClusterImage) -> str:
    whose = RESOURCES.get(record.resource_type, "resource {}").format(record.resource_name)
    if record.resource_type == ResourceType.BROKER and not record.resource_name:
        whose = "all brokers"
    if record.value is None:
        return f"{record.name} of {whose} is the default again"
    value = f"set to {record.value}" if record.resource_type == ResourceType.TOPIC else "set"
    return f"{record.name} of {whose} is {value}"


def _quota(record: settings.ClientQuotaRecord, image: ClusterImage) -> str:
    who = ", ".join(f"{each.entity_type} {each.entity_name or 'by default'}" for each in record.entity)
    return f"{record.key} of {who} is {'no longer limited' if record.remove else f'limited to {record.value:g}'}"


def _rule(record: access.AccessControlEntryRecord, image: ClusterImage) -> str:
    may = "may" if record.permission_type == AclPermission.ALLOW else "may not"
    pattern = "beginning with " if record.pattern_type == PatternType.PREFIXED else ""
    operation, resource = _word(AclOperation, record.operation), _word(AclResource, record.resource_type)
    where = "" if record.host == "*" else f" from {record.host}"
    return f"{record.principal} {may} {operation} {resource} {pattern}{record.resource_name}{where}"


def _word(kind: type[Any], value: int) -> str:
    try:
        return str(kind(value).name).lower().replace("_", " ")
    except ValueError:
        return str(value)


def _token(record: access.DelegationTokenRecord, image: ClusterImage) -> str:
    return f"Delegation token {record.token_id} of {record.owner} is made or renewed"


# --- the quorum ------------------------------------------------------------------------------------------------------


def _voters(record: control.VotersRecord, image: ClusterImage) -> str:
    return f"Controllers with a vote are {_listed(each.voter_id for each in record.voters)}"


_SENTENCES: Final[Mapping[type, Sentence]] = {
    topics.TopicRecord: lambda record, image: f"Topic {record.name} is created",
    topics.RemoveTopicRecord: lambda record, image: f"{_topic(record.topic_id, image)} is deleted",
    topics.PartitionRecord: _partition,
    topics.PartitionChangeRecord: _partition_change,
    topics.ClearElrRecord: lambda record, image: (
        f"Nobody outside the in-sync sets of {record.topic_name or 'all topics'} is eligible as leader any more"
    ),
    brokers.RegisterBrokerRecord: _registered,
    brokers.UnregisterBrokerRecord: lambda record, image: f"Broker {record.broker_id} is unregistered",
    brokers.FenceBrokerRecord: lambda record, image: f"Broker {record.id} is fenced",
    brokers.UnfenceBrokerRecord: lambda record, image: f"Broker {record.id} is unfenced",
    brokers.BrokerRegistrationChangeRecord: _registration_changed,
    brokers.RegisterControllerRecord: lambda record, image: f"Controller {record.controller_id} registers",
    settings.ConfigRecord: _config,
    settings.FeatureLevelRecord: lambda record, image: f"{record.name} is finalized at level {record.feature_level}",
    settings.ClientQuotaRecord: _quota,
    settings.ProducerIdsRecord: lambda record, image: (
        f"Broker {record.broker_id} gets producer ids up to {record.next_producer_id - 1}"
    ),
    access.AccessControlEntryRecord: _rule,
    access.RemoveAccessControlEntryRecord: lambda record, image: f"Access rule {uuid_to_text(record.id)} is removed",
    access.UserScramCredentialRecord: lambda record, image: (
        f"User {record.name} gets a password for {MECHANISMS.get(record.mechanism, record.mechanism)}"
    ),
    access.RemoveUserScramCredentialRecord: lambda record, image: (
        f"User {record.name} has no password for {MECHANISMS.get(record.mechanism, record.mechanism)} any more"
    ),
    access.DelegationTokenRecord: _token,
    access.RemoveDelegationTokenRecord: lambda record, image: f"Delegation token {record.token_id} ends",
    transactions.BeginTransactionRecord: lambda record, image: (
        f"A change of many records begins: {record.name or 'without a name'}"
    ),
    transactions.EndTransactionRecord: lambda record, image: "The change of many records holds",
    transactions.AbortTransactionRecord: lambda record, image: (
        f"The change of many records is given up: {record.reason or 'no reason is given'}"
    ),
    transactions.NoOpRecord: lambda record, image: "Nothing: the controller shows that it lives",
    control.LeaderChangeMessage: lambda record, image: f"Controller {record.leader_id} leads the metadata log",
    control.KRaftVersionRecord: lambda record, image: f"kraft.version is {record.k_raft_version}",
    control.VotersRecord: _voters,
}
