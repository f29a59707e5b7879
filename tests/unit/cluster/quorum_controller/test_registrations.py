"""Brokers and controllers register: who is refused, and what becomes of the one before."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cluster.quorum_controller.conftest import CLUSTER, Stage, a_broker, directory_of

from ottla.cluster.changes import RegisterBroker, SetFeature
from ottla.cluster.model import NO_LEADER
from ottla.cluster.quorum_controller.registrations import Registered, register_broker, register_controller
from ottla.errors import (
    BrokerError,
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    UnsupportedVersion,
)
from ottla.light_dataclasses import replace
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.protocol.messages.controller_registration import ControllerRegistrationRequest

FEATURES = (("metadata.version", 7, 30), ("eligible.leader.replicas.version", 0, 1))


def a_request(broker_id: int, **changed: Any) -> BrokerRegistrationRequest:
    values: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER,
        "incarnation_id": b"another one    %d" % broker_id,
        "listeners": [Listener(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)],
        "features": [Feature(name=n, min_supported_version=a, max_supported_version=b) for n, a, b in FEATURES],
        "log_dirs": [directory_of(broker_id)],
    }
    return BrokerRegistrationRequest(**{**values, **changed})


def register(stage: Stage, request: BrokerRegistrationRequest, *, is_live: bool = False) -> Registered:
    return register_broker(
        stage.image, request, stage.rules, next_offset=stage.next_offset, has_live_session=lambda _: is_live
    )


def test_a_new_broker_is_fenced_and_its_epoch_is_the_offset(stage: Stage) -> None:
    registered = register(stage, a_request(4))
    stage.make(registered.changes)
    broker = stage.image.brokers[4]
    assert (registered.epoch, broker.epoch, broker.fenced) == (100, 100, True)
    assert broker.directories == (directory_of(4),)


REFUSED: list[tuple[dict[str, Any], type[BrokerError]]] = [
    ({"cluster_id": "another"}, InconsistentClusterId),
    ({"is_migrating_zk_broker": True}, BrokerIdNotRegistered),
    ({"log_dirs": []}, InvalidRegistration),
    ({"log_dirs": [(99).to_bytes(16)]}, InvalidRegistration),
    ({"log_dirs": [directory_of(4), directory_of(4)]}, InvalidRegistration),
    ({"log_dirs": [directory_of(1)]}, InvalidRegistration),
    ({"features": []}, UnsupportedVersion),
    (
        {"features": [Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)]},
        UnsupportedVersion,
    ),
]


@pytest.mark.parametrize(("wrong", "error"), REFUSED)
def test_what_cannot_be_is_refused(stage: Stage, wrong: dict[str, Any], error: type[BrokerError]) -> None:
    with pytest.raises(error):
        register(stage, a_request(4, **wrong))


def test_kraft_version_must_be_understood_where_it_is_finalized(stage: Stage) -> None:
    stage.image = replace(stage.image, kraft_version=1)
    with pytest.raises(UnsupportedVersion, match=r"kraft\.version"):
        register(stage, a_request(4))


def test_another_incarnation_is_refused_while_the_session_of_the_first_lasts(stage: Stage) -> None:
    with pytest.raises(DuplicateBrokerRegistration):
        register(stage, a_request(1), is_live=True)
    assert register(stage, a_request(1), is_live=False).epoch == 100


def test_another_incarnation_is_taken_up_while_the_first_stops(stage: Stage) -> None:
    stage.image = stage.make([RegisterBroker(replace(stage.image.brokers[1], in_controlled_shutdown=True))])
    assert not register(stage, a_request(1), is_live=True).is_amended


def test_the_same_incarnation_amends_and_keeps_epoch_and_fencing(stage: Stage) -> None:
    known = stage.image.brokers[1]
    registered = register(stage, a_request(1, incarnation_id=known.incarnation_id, rack="north"), is_live=True)
    stage.make(registered.changes)
    assert registered.is_amended
    assert registered.epoch == known.epoch
    assert (stage.image.brokers[1].rack, stage.image.brokers[1].fenced) == ("north", False)
    assert stage.partition().leader == 1


def test_who_comes_back_after_a_crash_is_not_trusted(stage: Stage) -> None:
    stage.make(register(stage, a_request(1)).changes)
    assert (stage.partition().isr, stage.partition().elr, stage.partition().leader) == ((2, 3), (), 2)


def test_who_stopped_in_order_stays_eligible(stage: Stage) -> None:
    for broker_id in (2, 3):
        stage.make(register(stage, a_request(broker_id)).changes)
    assert stage.partition().isr == (1,)
    stage.make(register(stage, a_request(1, previous_broker_epoch=stage.image.brokers[1].epoch)).changes)
    assert (stage.partition().isr, stage.partition().elr, stage.partition().leader) == ((), (1,), NO_LEADER)


def test_who_crashed_alone_is_the_last_leader_known(stage: Stage) -> None:
    for broker_id in (2, 3, 1):
        stage.make(register(stage, a_request(broker_id)).changes)
    assert (stage.partition().isr, stage.partition().elr, stage.partition().last_known_elr) == ((), (), (1,))


def test_without_eligible_replicas_whoever_comes_back_has_left_the_in_sync_sets(stage: Stage) -> None:
    stage.make([SetFeature("eligible.leader.replicas.version", 0)])
    stage.make(register(stage, a_request(1, previous_broker_epoch=11)).changes)
    assert (stage.partition().isr, stage.partition().leader) == ((2, 3), 2)


def test_a_controller_registers_once(stage: Stage) -> None:
    request = ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=b"i" * 16,
        zk_migration_ready=False,
        listeners=[],
        features=[Feature(name="kraft.version", min_supported_version=0, max_supported_version=1)],  # type: ignore[list-item]
    )
    change = register_controller(stage.image, request)
    assert change is not None
    stage.make([change])
    assert stage.image.controllers[7].incarnation_id == b"i" * 16
    assert register_controller(stage.image, request) is None


def test_a_broker_that_was_there_before_the_topic_has_no_part_in_it(stage: Stage) -> None:
    stage.make([RegisterBroker(a_broker(4))])
    before = stage.partition()
    stage.make(register(stage, a_request(4)).changes)
    assert stage.partition() is before
