"""ClusterImage: all that is true about a cluster after a certain change, as one frozen value.

1. An image never changes. Whoever holds one can read it for as long as it likes, from any thread, and sees one
   consistent moment; what comes after is another image.
2. Two images that follow each other share nearly everything (shared_map.py), so a change of one topic among 10,000
   costs some ten microseconds and not a copy of everything.
3. `change_number` counts the changes since the beginning; equal numbers of one cluster mean equal images. It is also
   the epoch of the finalized features, which clients want to grow.
4. Access rules have ids where the truth is a metadata log, which removes them by id; elsewhere `acl_ids` is empty.
5. Where the truth is a metadata log, `kraft_version` is the level of its quorum, which control records say and no
   change of the image: 1 where the log tells the voters, 0 where settings do.
6. Look-ups are by name and by id and cost one dictionary access. The image is also the `ClusterView` of the
   coordinators: topic_id, topic_name, partition_count, topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from ottla.cluster.model import (
    AclBinding,
    AclEntry,
    AclPattern,
    Broker,
    ConfigResource,
    ControllerNode,
    Partition,
    QuotaEntity,
    ResourceType,
    ScramCredential,
    ScramKey,
    StoredKey,
    Topic,
)
from ottla.cluster.shared_map import SharedMap
from ottla.light_dataclasses import dataclass, field
from ottla.values import TopicPartition

NO_CONTROLLER: Final = -1
_NO_TEXTS: Final[Mapping[str, str]] = MappingProxyType({})


def _entity_order(entity: QuotaEntity) -> list[tuple[str, bool, str]]:
    return [(kind, name is not None, name or "") for kind, name in entity]


def _quotas() -> SharedMap[QuotaEntity, Mapping[str, float]]:
    return SharedMap(order=_entity_order)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """See above; maps are read with the methods below wherever there is one."""

    cluster_id: str
    change_number: int = 0
    controller_id: int = NO_CONTROLLER
    controller_epoch: int = 0
    kraft_version: int = 0
    next_producer_id: int = 0
    brokers: SharedMap[int, Broker] = field(default_factory=SharedMap)
    controllers: SharedMap[int, ControllerNode] = field(default_factory=SharedMap)
    topics_by_name: SharedMap[str, Topic] = field(default_factory=SharedMap)
    names_by_id: SharedMap[bytes, str] = field(default_factory=SharedMap)
    colliding_names: SharedMap[str, tuple[str, ...]] = field(default_factory=SharedMap)
    configs: SharedMap[ConfigResource, Mapping[str, str]] = field(default_factory=SharedMap)
    features: SharedMap[str, int] = field(default_factory=SharedMap)
    quotas: SharedMap[QuotaEntity, Mapping[str, float]] = field(default_factory=_quotas)
    scram_credentials: SharedMap[ScramKey, ScramCredential] = field(default_factory=SharedMap)
    acls: SharedMap[AclPattern, tuple[AclEntry, ...]] = field(default_factory=SharedMap)
    acl_ids: SharedMap[AclBinding, bytes] = field(default_factory=SharedMap)
    acls_by_id: SharedMap[bytes, AclBinding] = field(default_factory=SharedMap)
    stored_values: SharedMap[StoredKey, str] = field(default_factory=SharedMap, repr=False)

    # --- topics ---

    def topic(self, name: str) -> Topic | None:
        found: Topic | None = self.topics_by_name.get(name)
        return found

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.topics_by_name[name]

    def partition(self, name: str, index: int) -> Partition | None:
        topic = self.topic(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def topic_id(self, name: str) -> bytes | None:
        topic = self.topic(name)
        return None if topic is None else topic.id

    def topic_name(self, topic_id: bytes) -> str | None:
        name: str | None = self.names_by_id.get(topic_id)
        return name

    def partition_count(self, name: str) -> int | None:
        topic = self.topic(name)
        return None if topic is None else len(topic.partitions)

    def topics(self) -> Iterable[str]:
        """The names of all topics, in order."""
        return iter(self.topics_by_name)

    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """Every partition, by topic name and index."""
        for name, topic in self.topics_by_name.items():
            for index, partition in enumerate(topic.partitions):
                yield TopicPartition(name, index), partition

    # --- brokers ---

    def is_active(self, broker_id: int) -> bool:
        """Is the broker there and usable."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def is_alive(self, broker_id: int) -> bool:
        """Is the broker there and not fenced; it may be about to stop."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def active_brokers(self) -> list[Broker]:
        return [broker for broker in self.brokers.values() if broker.is_active]

    # --- settings and what else is kept ---

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """What was set for a resource while running; empty when nothing was."""
        found: Mapping[str, str] = self.configs.get(resource, _NO_TEXTS)
        return found

    def topic_config(self, name: str) -> Mapping[str, str]:
        return self.config(ConfigResource(ResourceType.TOPIC, name))

    def feature(self, name: str) -> int:
        """The finalized level of a feature; 0 when it is off."""
        level: int = self.features.get(name, 0)
        return level

    def acl_bindings(self) -> Iterator[AclBinding]:
        """Every access rule, in order."""
        for pattern, entries in self.acls.items():
            for entry in entries:
                yield AclBinding(pattern, entry)

    def stored(self, kind: str) -> dict[str, str]:
        """All values kept under a kind, by their key."""
        return {key: text for (of, key), text in self.stored_values.items() if of == kind}
