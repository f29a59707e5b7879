"""A broker registers with the active controller, or is forgotten; a controller registers.

1. A registration is refused by the first of these that holds: another cluster (INCONSISTENT_CLUSTER_ID), another
   incarnation with a live session (DUPLICATE_BROKER_REGISTRATION; not when that one stops), a broker of ZooKeeper
   (BROKER_ID_NOT_REGISTERED), directories that cannot be its own (INVALID_REGISTRATION), a feature whose finalized
   level it does not understand (UNSUPPORTED_VERSION).
2. Its epoch is the offset at which the records of its registration begin. The same incarnation again only amends what
   it said of itself: epoch and fencing stay.
3. Another incarnation may have less than the one before had acknowledged. With eligible leader replicas it is trusted
   only when it says that it stopped in order (its last epoch is the registered one). Without them it just leaves every
   in-sync set, as if it had been fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ottla.cluster.changes import Change, RegisterBroker, RegisterController
from ottla.cluster.features import ELR_VERSION, KRAFT_VERSION
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.broker_records import SECURITY_PROTOCOLS
from ottla.cluster.metadata_log.levels import DIRECTORIES_SINCE, MINIMUM
from ottla.cluster.model import METADATA_VERSION, Broker, ControllerNode, Endpoint, FeatureRange
from ottla.cluster.quorum_controller.fencing import distrusted, without_broker
from ottla.cluster.quorum_controller.rules import ControllerRules
from ottla.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    InvalidRequest,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.controller_registration import ControllerRegistrationRequest
from ottla.values import uuid_to_text

RESERVED_DIRECTORIES = 100
"""Ids below that stand for no directory."""
CONTROLLERS_REGISTER_SINCE = 15
"""3.7-IV0."""


class Registered(NamedTuple):
    """What follows from a registration."""

    changes: tuple[Change, ...]
    epoch: int
    is_amended: bool


class _Listener(Protocol):
    name: str
    host: str
    port: int
    security_protocol: int


class _Feature(Protocol):
    name: str
    min_supported_version: int
    max_supported_version: int


def registered_broker(image: ClusterImage, broker_id: int, broker_epoch: int) -> Broker:
    """The broker, when it is still who it was; else StaleBrokerEpoch."""
    broker: Broker | None = image.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpoch(f"no broker {broker_id} is registered")
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpoch(f"expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}")
    return broker


def register_broker(
    image: ClusterImage,
    request: BrokerRegistrationRequest,
    rules: ControllerRules,
    *,
    next_offset: int,
    has_live_session: Callable[[int], bool],
) -> Registered:
    """Take up a broker, or refuse it."""
    if request.cluster_id != image.cluster_id:
        raise InconsistentClusterId(f"expected cluster id {image.cluster_id}, but got {request.cluster_id}")
    known: Broker | None = image.brokers.get(request.broker_id)
    is_amended = known is not None and known.incarnation_id == request.incarnation_id
    if known is not None and not is_amended and not known.in_controlled_shutdown and has_live_session(known.id):
        raise DuplicateBrokerRegistration(
            f"another broker is registered with id {known.id}. If it is this one before a restart, that ends soon"
        )
    if request.is_migrating_zk_broker:
        raise BrokerIdNotRegistered("brokers that come from ZooKeeper are not registered here")
    has_directories = image.feature(METADATA_VERSION) >= DIRECTORIES_SINCE
    if has_directories:
        _check_directories(image, request)
    features = _checked_features(image, request)
    broker = Broker(
        id=request.broker_id,
        endpoints=_endpoints(request.listeners),
        epoch=known.epoch if known is not None and is_amended else next_offset,
        rack=request.rack,
        features=features,
        directories=tuple(request.log_dirs) if has_directories else (),
        fenced=known.fenced if known is not None and is_amended else True,
        in_controlled_shutdown=known is not None and is_amended and known.in_controlled_shutdown,
        incarnation_id=request.incarnation_id,
        cordoned_directories=known.cordoned_directories if known is not None and is_amended else None,
    )
    before: list[Change] = [] if is_amended else _without_earlier(image, known, request, rules)
    return Registered((*before, RegisterBroker(broker)), broker.epoch, is_amended)


def _without_earlier(
    image: ClusterImage, known: Broker | None, request: BrokerRegistrationRequest, rules: ControllerRules
) -> list[Change]:
    stopped_in_order = known is not None and request.previous_broker_epoch == known.epoch
    if image.feature(ELR_VERSION) and not stopped_in_order:
        return list(distrusted(image, request.broker_id, rules))
    return list(without_broker(image, request.broker_id, rules))


def _check_directories(image: ClusterImage, request: BrokerRegistrationRequest) -> None:
    if not request.log_dirs:
        raise InvalidRegistration("no directories are named")
    if any(int.from_bytes(each) < RESERVED_DIRECTORIES for each in request.log_dirs):
        raise InvalidRegistration("a reserved directory id is named")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise InvalidRegistration("a directory id is named twice")
    for broker in image.brokers.values():
        if broker.id == request.broker_id:
            continue
        if shared := set(broker.directories) & set(request.log_dirs):
            raise InvalidRegistration(f"broker {broker.id} is registered with directory {uuid_to_text(shared.pop())}")


def _checked_features(image: ClusterImage, request: BrokerRegistrationRequest) -> tuple[FeatureRange, ...]:
    finalized = _finalized(image)
    offered = {each.name: each for each in _features(request.features)}
    if METADATA_VERSION not in offered:
        offered[METADATA_VERSION] = FeatureRange(METADATA_VERSION, MINIMUM, MINIMUM)
    for name in {**offered, **finalized}:
        known, level = offered.get(name, FeatureRange(name, 0, 0)), finalized.get(name, 0)
        if not known.min_level <= level <= known.max_level:
            raise UnsupportedVersion(
                f"broker {request.broker_id} understands {name} {known.min_level} to {known.max_level}, and its "
                f"finalized level is {level}"
            )
    return tuple(sorted(offered.values()))


def _finalized(image: ClusterImage) -> Mapping[str, int]:
    levels = dict(image.features.items())
    if image.kraft_version:
        levels[KRAFT_VERSION] = image.kraft_version
    return levels


def register_controller(image: ClusterImage, request: ControllerRegistrationRequest) -> RegisterController | None:
    """Take up a controller; None when it says what is known already."""
    if image.feature(METADATA_VERSION) < CONTROLLERS_REGISTER_SINCE:
        raise UnsupportedVersion("this metadata.version is too old for controllers that register")
    node = ControllerNode(
        id=request.controller_id,
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request.listeners),
        features=tuple(sorted(_features(request.features))),
    )
    return None if image.controllers.get(node.id) == node else RegisterController(node)


def _endpoints(listeners: Iterable[_Listener]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, each.host, each.port, _protocol(each.security_protocol)) for each in listeners)


def _protocol(number: int) -> str:
    if not 0 <= number < len(SECURITY_PROTOCOLS):
        raise InvalidRequest(f"{number} is no security protocol")
    return SECURITY_PROTOCOLS[number]


def _features(features: Iterable[_Feature]) -> list[FeatureRange]:
    return [FeatureRange(each.name, each.min_supported_version, each.max_supported_version) for each in features]
