"""Registrations of brokers and controllers as records, and what changed in one as a record.

A record that changes a registration (17) can fence, unfence, begin a controlled shutdown, and say which directories are
there and which get no new replicas. Everything else, and the end of a controlled shutdown, is a new registration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from ottla.cluster.changes import IllegalChange
from ottla.cluster.metadata_log.levels import (
    CONTROLLED_SHUTDOWN_SINCE,
    CORDONED_SINCE,
    DIRECTORIES_SINCE,
    register_broker_version,
)
from ottla.cluster.model import Broker, ControllerNode, Endpoint, FeatureRange
from ottla.light_dataclasses import replace
from ottla.protocol.metadata_log.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By Kafka's numbers."""
FENCED: Final = {1: True, -1: False}


class _WrittenEndpoint(Protocol):
    name: str
    host: str
    port: int
    security_protocol: int


class _WrittenFeature(Protocol):
    name: str
    min_supported_version: int
    max_supported_version: int


E = TypeVar("E", BrokerEndpoint, ControllerEndpoint)
F = TypeVar("F", BrokerFeature, ControllerFeature)


# --- reading ---------------------------------------------------------------------------------------------------------


def broker_of(record: RegisterBrokerRecord) -> Broker:
    """Whether it migrates from ZooKeeper is not kept: Kafka 4 has no such brokers."""
    cordoned = record.cordoned_log_dirs
    return Broker(
        id=record.broker_id,
        endpoints=_endpoints(record.end_points),
        epoch=record.broker_epoch,
        rack=record.rack,
        features=_features(record.features),
        directories=tuple(record.log_dirs),
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        incarnation_id=record.incarnation_id,
        cordoned_directories=None if cordoned is None else tuple(cordoned),
    )


def changed_broker(broker: Broker, record: BrokerRegistrationChangeRecord) -> Broker:
    """The registration after the change; IllegalChange when it is about an earlier one."""
    if record.broker_epoch != broker.epoch:
        raise IllegalChange(f"broker {broker.id} has epoch {broker.epoch}, and a change is about {record.broker_epoch}")
    if record.fenced:
        if record.fenced not in FENCED:
            raise IllegalChange(f"{record.fenced} says neither that broker {broker.id} is fenced nor that it is not")
        broker = replace(broker, fenced=FENCED[record.fenced])
    if record.in_controlled_shutdown:
        broker = replace(broker, in_controlled_shutdown=True)
    if record.log_dirs:
        broker = replace(broker, directories=tuple(record.log_dirs))
    if record.cordoned_log_dirs is not None:
        broker = replace(broker, cordoned_directories=tuple(record.cordoned_log_dirs))
    return broker


def controller_of(record: RegisterControllerRecord) -> ControllerNode:
    return ControllerNode(
        id=record.controller_id,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints(record.end_points),
        features=_features(record.features),
        zk_migration_ready=record.zk_migration_ready,
    )


def _endpoints(written: Iterable[_WrittenEndpoint]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(endpoint.name, endpoint.host, endpoint.port, _security_protocol(endpoint.security_protocol))
        for endpoint in written
    )


def _security_protocol(number: int) -> str:
    if not 0 <= number < len(SECURITY_PROTOCOLS):
        raise IllegalChange(f"{number} is no security protocol; the last one known is {len(SECURITY_PROTOCOLS) - 1}")
    return SECURITY_PROTOCOLS[number]


def _features(written: Iterable[_WrittenFeature]) -> tuple[FeatureRange, ...]:
    """In order: Java writes them in the order of a hash map, another one in every process."""
    ranges = (
        FeatureRange(feature.name, feature.min_supported_version, feature.max_supported_version) for feature in written
    )
    return tuple(sorted(ranges))


# --- writing ---------------------------------------------------------------------------------------------------------


def broker_record(broker: Broker, metadata_version: int) -> tuple[RegisterBrokerRecord, int]:
    """The whole registration; what the level does not know is left out."""
    has_cordoned = metadata_version >= CORDONED_SINCE and broker.cordoned_directories is not None
    record = RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=_written_endpoints(BrokerEndpoint, broker.endpoints),
        features=_written_features(BrokerFeature, broker.features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown and metadata_version >= CONTROLLED_SHUTDOWN_SINCE,
        log_dirs=list(broker.directories) if metadata_version >= DIRECTORIES_SINCE else [],
        cordoned_log_dirs=list(broker.cordoned_directories or ()) if has_cordoned else None,
    )
    return record, register_broker_version(metadata_version)


def broker_change_record(before: Broker, after: Broker) -> tuple[BrokerRegistrationChangeRecord, int] | None:
    """What makes `after` of `before` at the lowest version that can, as Kafka writes it; None when it must register
    anew."""
    record = BrokerRegistrationChangeRecord(broker_id=after.id, broker_epoch=after.epoch)
    version = 0
    if after.fenced != before.fenced:
        record.fenced = 1 if after.fenced else -1
    if after.in_controlled_shutdown and not before.in_controlled_shutdown:
        record.in_controlled_shutdown, version = 1, 1
    if after.directories != before.directories:
        record.log_dirs, version = list(after.directories), 2
    if after.cordoned_directories != before.cordoned_directories and after.cordoned_directories is not None:
        record.cordoned_log_dirs, version = list(after.cordoned_directories), 3
    is_the_same = before.epoch == after.epoch and changed_broker(before, record) == after
    return (record, version) if is_the_same else None


def controller_record(controller: ControllerNode) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=_written_endpoints(ControllerEndpoint, controller.endpoints),
        features=_written_features(ControllerFeature, controller.features),
    )


def _written_endpoints(kind: type[E], endpoints: Iterable[Endpoint]) -> list[E]:
    return [
        kind(
            name=endpoint.listener,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
        )
        for endpoint in endpoints
    ]


def _written_features(kind: type[F], features: Iterable[FeatureRange]) -> list[F]:
    return [
        kind(
            name=feature.name,
            min_supported_version=feature.min_level,
            max_supported_version=feature.max_level,
        )
        for feature in features
    ]
