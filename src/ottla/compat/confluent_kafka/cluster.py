"""What list_topics() gives: brokers, topics and partitions, in confluent-kafka's classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.admin.settings import AdminSettings
from ottla.compat.confluent_kafka.errors import KafkaError, error_of, exception_of
from ottla.errors import OttlaError


class BrokerMetadata:
    """A broker."""

    def __init__(self, broker_id: int, host: str, port: int) -> None:
        self.id = broker_id
        self.host = host
        self.port = port

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {self.host}:{self.port})"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.id}"


class PartitionMetadata:
    """A partition."""

    def __init__(self, partition_id: int, leader: int, replicas: list[int], isrs: list[int]) -> None:
        self.id = partition_id
        self.leader = leader
        self.replicas = replicas
        self.isrs = isrs
        self.error: KafkaError | None = None

    def __repr__(self) -> str:
        return f"PartitionMetadata({self.id})"


class TopicMetadata:
    """A topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.partitions: dict[int, PartitionMetadata] = {}
        self.error: KafkaError | None = None

    def __repr__(self) -> str:
        return f"TopicMetadata({self.topic}, {len(self.partitions)} partitions)"

    def __str__(self) -> str:
        return self.topic


class ClusterMetadata:
    """The cluster."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, BrokerMetadata] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.orig_broker_id = -1
        self.orig_broker_name: str | None = None

    def __repr__(self) -> str:
        return f"ClusterMetadata({self.cluster_id})"


def admin_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a producer's or consumer's settings that an admin client has."""
    known = {each.name for each in AdminSettings.declared()} | {
        getattr(alias, "name", alias) for each in AdminSettings.declared() for alias in each.aliases
    }
    return {name: value for name, value in settings.items() if name in known}


def list_topics(settings: Mapping[str, Any], topic: str | None, timeout: float | None) -> ClusterMetadata:
    """Ask the cluster; a topic that is not there has an error in its own place."""
    limit = None if timeout is None or timeout < 0 else timeout
    try:
        with Admin(admin_settings(settings)) as admin:
            return _asked(admin, topic, limit)
    except (OttlaError, TimeoutError) as error:
        raise exception_of(error) from None


def cluster_id(settings: Mapping[str, Any], timeout: float | None) -> str:
    """The id of the cluster."""
    limit = None if timeout is None or timeout < 0 else timeout
    try:
        with Admin(admin_settings(settings)) as admin:
            return str(admin.describe_cluster(timeout=limit).cluster_id)
    except (OttlaError, TimeoutError) as error:
        raise exception_of(error) from None


def _asked(admin: Admin, topic: str | None, limit: float | None) -> ClusterMetadata:
    found = ClusterMetadata()
    cluster = admin.describe_cluster(timeout=limit)
    found.cluster_id = cluster.cluster_id
    found.controller_id = -1 if cluster.controller is None else cluster.controller
    found.brokers = {node.id: BrokerMetadata(node.id, node.host, node.port) for node in cluster.nodes}
    names = [topic] if topic is not None else list(admin.list_topics(include_internal=True, timeout=limit))
    for name in names:
        found.topics[name] = TopicMetadata(name)
    try:
        described = admin.describe_topics(names, timeout=limit) if names else {}
    except OttlaError as error:
        if topic is None:
            raise
        found.topics[topic].error = error_of(error)
        return found
    for name, each in described.items():
        found.topics[name].partitions = {
            part.partition: PartitionMetadata(
                part.partition, -1 if part.leader is None else part.leader, list(part.replicas), list(part.in_sync)
            )
            for part in each.partitions
        }
    return found
