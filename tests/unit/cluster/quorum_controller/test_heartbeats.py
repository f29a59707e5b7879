"""Brokers are heard of, or not: fenced, unfenced, stopped, and without a directory."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cluster.quorum_controller.conftest import Stage, a_broker, directory_of

from ottla.cluster.changes import RegisterBroker
from ottla.cluster.model import NO_LEADER
from ottla.cluster.quorum_controller.heartbeats import ControlState, HeartbeatDecided, answer_unchanged, heartbeat
from ottla.cluster.quorum_controller.periodic import fence_broker
from ottla.cluster.quorum_controller.sessions import BrokerSessions
from ottla.errors import StaleBrokerEpoch
from ottla.light_dataclasses import replace
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest

SESSION_MS = 9_000


@pytest.fixture
def sessions(stage: Stage) -> BrokerSessions:
    made = BrokerSessions(SESSION_MS)
    made.begin(stage.image, 0)
    return made


def beat(stage: Stage, sessions: BrokerSessions, broker_id: int, **said: Any) -> HeartbeatDecided:
    """A heartbeat is heard and decided, and what follows comes true, as the controller does it."""
    broker = stage.image.brokers[broker_id]
    values: dict[str, Any] = {"broker_epoch": broker.epoch, "want_fence": False, "want_shut_down": False}
    request = BrokerHeartbeatRequest(broker_id=broker_id, **{**values, "current_metadata_offset": 1_000, **said})
    unchanged = answer_unchanged(stage.image, sessions, request)
    decided = heartbeat(stage.image, sessions, request, stage.rules)
    if unchanged is not None:
        assert (unchanged, ()) == (decided.response, decided.changes)
    stage.make(decided.changes)
    session = sessions.of(stage.image, broker_id)
    session.applied_offset = request.current_metadata_offset
    if decided.state is ControlState.CONTROLLED_SHUTDOWN and session.shutdown_offset is None:
        session.shutdown_offset = stage.next_offset
    return decided


def test_a_broker_is_unfenced_when_it_is_caught_up_and_wants_to_serve(stage: Stage, sessions: BrokerSessions) -> None:
    stage.make([RegisterBroker(replace(a_broker(4, fenced=True), epoch=100))])
    sessions.registered(4, 100, is_amended=False)
    assert beat(stage, sessions, 4, current_metadata_offset=99, want_fence=True).response.is_caught_up is False
    assert beat(stage, sessions, 4, current_metadata_offset=99).response.is_fenced
    caught_up = beat(stage, sessions, 4, current_metadata_offset=100, want_fence=True)
    assert (caught_up.response.is_caught_up, caught_up.response.is_fenced) == (True, True)
    assert not beat(stage, sessions, 4, current_metadata_offset=100).response.is_fenced
    assert not stage.image.brokers[4].fenced


def test_partitions_without_a_leader_get_one_that_comes_back(stage: Stage, sessions: BrokerSessions) -> None:
    for broker_id in (2, 3, 1):
        stage.make(fence_broker(stage.image, broker_id, stage.rules))
    assert (stage.partition().leader, stage.partition().isr, stage.partition().elr) == (NO_LEADER, (), (1, 3))
    beat(stage, sessions, 2)
    assert stage.partition().leader == NO_LEADER
    beat(stage, sessions, 3)
    assert (stage.partition().leader, stage.partition().isr, stage.partition().elr) == (3, (3,), (1,))


def test_a_heartbeat_of_another_epoch_is_stale(stage: Stage, sessions: BrokerSessions) -> None:
    with pytest.raises(StaleBrokerEpoch):
        beat(stage, sessions, 1, broker_epoch=3)


def test_a_broker_that_wants_to_be_fenced_is(stage: Stage, sessions: BrokerSessions) -> None:
    assert beat(stage, sessions, 1, want_fence=True).response.is_fenced
    assert stage.partition().leader == 2


def test_a_broker_that_leads_nothing_may_stop_at_once(stage: Stage, sessions: BrokerSessions) -> None:
    decided = beat(stage, sessions, 3, want_shut_down=True)
    assert decided.response.should_shut_down
    assert stage.image.brokers[3].fenced
    assert 3 not in stage.partition().isr


def test_a_controlled_shutdown_ends_when_every_active_broker_has_seen_it(
    stage: Stage, sessions: BrokerSessions
) -> None:
    beat(stage, sessions, 2, current_metadata_offset=99)
    beat(stage, sessions, 3, current_metadata_offset=99)
    begun = beat(stage, sessions, 1, want_shut_down=True)
    assert not begun.response.should_shut_down
    assert stage.image.brokers[1].in_controlled_shutdown
    assert [stage.partition(index).leader for index in (0, 1)] == [2, 2]
    assert stage.partition().isr == (2, 3)
    assert not beat(stage, sessions, 1, want_shut_down=True).response.should_shut_down
    beat(stage, sessions, 2, current_metadata_offset=stage.next_offset)
    assert not beat(stage, sessions, 1, want_shut_down=True).response.should_shut_down
    beat(stage, sessions, 3, current_metadata_offset=stage.next_offset)
    ended = beat(stage, sessions, 1, want_shut_down=True)
    assert (ended.response.should_shut_down, ended.response.is_fenced) == (True, True)
    assert stage.image.brokers[1].fenced


def test_the_only_one_in_sync_may_stop_with_eligible_replicas(stage: Stage, sessions: BrokerSessions) -> None:
    for broker_id in (2, 3):
        stage.make(fence_broker(stage.image, broker_id, stage.rules))
    assert not beat(stage, sessions, 1, want_shut_down=True).response.should_shut_down
    assert (stage.partition().isr, stage.partition().leader) == ((), NO_LEADER)
    assert beat(stage, sessions, 1, want_shut_down=True).response.should_shut_down


def test_a_fenced_broker_may_stop_at_once(stage: Stage, sessions: BrokerSessions) -> None:
    stage.make(fence_broker(stage.image, 3, stage.rules))
    decided = beat(stage, sessions, 3, want_shut_down=True)
    assert (decided.changes, decided.response.should_shut_down) == ((), True)


def test_a_directory_that_failed_takes_its_replicas_out_of_sync(stage: Stage, sessions: BrokerSessions) -> None:
    other = (7777).to_bytes(16)
    broker = replace(stage.image.brokers[1], directories=(directory_of(1), other))
    stage.make([RegisterBroker(broker)])
    decided = beat(stage, sessions, 1, offline_log_dirs=[directory_of(1)])
    assert decided.changes
    assert stage.image.brokers[1].directories == (other,)
    assert (stage.partition().leader, stage.partition().isr) == (2, (2, 3))
    assert not beat(stage, sessions, 1, offline_log_dirs=[directory_of(1)]).changes


def test_a_replica_in_a_failed_directory_does_not_lead_again(stage: Stage, sessions: BrokerSessions) -> None:
    broker = replace(stage.image.brokers[1], directories=((7777).to_bytes(16),))
    stage.make([RegisterBroker(broker)])
    for broker_id in (2, 3):
        stage.make(fence_broker(stage.image, broker_id, stage.rules))
    assert stage.partition().leader == NO_LEADER


def test_cordoned_directories_are_noted_once(stage: Stage, sessions: BrokerSessions) -> None:
    assert beat(stage, sessions, 1, cordoned_log_dirs=[]).changes
    assert stage.image.brokers[1].cordoned_directories == ()
    assert not beat(stage, sessions, 1, cordoned_log_dirs=[]).changes
    beat(stage, sessions, 1, cordoned_log_dirs=[directory_of(1)])
    assert stage.image.brokers[1].cordoned_directories == (directory_of(1),)
    assert not beat(stage, sessions, 1, cordoned_log_dirs=None).changes


def test_a_broker_that_is_silent_for_a_session_is_found_the_longest_silent_first(
    stage: Stage, sessions: BrokerSessions
) -> None:
    sessions.heard(stage.image, 1, 2_000)
    sessions.heard(stage.image, 3, 1_000)
    assert sessions.stalest(stage.image, SESSION_MS) is None
    assert sessions.stalest(stage.image, SESSION_MS + 1) == 2
    assert sessions.stalest(stage.image, SESSION_MS + 3_000) == 2
    stage.make(fence_broker(stage.image, 2, stage.rules))
    assert sessions.stalest(stage.image, SESSION_MS + 3_000) == 3


def test_a_new_controller_gives_everybody_a_whole_session(stage: Stage, sessions: BrokerSessions) -> None:
    sessions.begin(stage.image, 50_000)
    assert sessions.stalest(stage.image, 50_000 + SESSION_MS) is None
    assert sessions.stalest(stage.image, 50_001 + SESSION_MS) == 1
    assert sessions.next_check_ms(stage.image, 50_000) == 50_000 + SESSION_MS


def test_a_session_begins_with_the_first_heartbeat(stage: Stage, sessions: BrokerSessions) -> None:
    sessions.registered(4, 100, is_amended=False)
    assert not sessions.is_live(4, 10)
    stage.make([RegisterBroker(a_broker(4, fenced=True))])
    sessions.heard(stage.image, 4, 10)
    assert sessions.is_live(4, 10 + SESSION_MS)
    assert not sessions.is_live(4, 11 + SESSION_MS)


def test_an_amended_registration_moves_the_mark_of_who_is_caught_up(stage: Stage, sessions: BrokerSessions) -> None:
    sessions.heard(stage.image, 1, 5)
    sessions.registered(1, 500, is_amended=True)
    assert not beat(stage, sessions, 1, current_metadata_offset=499).response.is_caught_up
    assert sessions.is_live(1, 5)
