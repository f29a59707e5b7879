"""What a heartbeat asks for, and what follows.

    FENCED ─── wants to serve, caught up ──► UNFENCED ─── wants to stop, leads ──► CONTROLLED_SHUTDOWN ─► SHUTDOWN_NOW
       ▲  └──── wants to stop ──► SHUTDOWN_NOW ◄── wants to stop, leads nothing ──┘
       └───────────── wants to be fenced, or is silent ──────────────┘

1. A controlled shutdown moves what the broker leads. It is over when the broker leads nothing and every active broker
   has applied that: nobody asks it any more then.
2. A directory that failed is named in every heartbeat; it counts once. So do those that get no new replicas.
3. Most heartbeats change nothing, and are answered without a decision (`answer_unchanged`).
"""

from __future__ import annotations

import enum

from ottla.cluster.changes import Change, RegisterBroker, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.levels import CORDONED_SINCE, DIRECTORIES_SINCE
from ottla.cluster.model import METADATA_VERSION, Broker
from ottla.cluster.quorum_controller.fencing import directories_lost, fenced, has_leaderships, stopping, unfenced
from ottla.cluster.quorum_controller.registrations import registered_broker
from ottla.cluster.quorum_controller.rules import ControllerRules
from ottla.cluster.quorum_controller.sessions import BrokerSessions, Session
from ottla.errors import NONE
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class ControlState(enum.Enum):
    """How a broker stands to the controller."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "may stop"

    @property
    def is_fenced(self) -> bool:
        return self in (ControlState.FENCED, ControlState.SHUTDOWN_NOW)


class HeartbeatDecided(NamedTuple):
    """What follows from a heartbeat."""

    changes: tuple[Change, ...]
    response: BrokerHeartbeatResponse
    state: ControlState


def heartbeat(
    image: ClusterImage, sessions: BrokerSessions, request: BrokerHeartbeatRequest, rules: ControllerRules
) -> HeartbeatDecided:
    """Decide about a heartbeat of the registered incarnation; StaleBrokerEpoch for any other."""
    broker = registered_broker(image, request.broker_id, request.broker_epoch)
    session = sessions.of(image, broker.id)
    is_caught_up = request.current_metadata_offset >= session.registered_offset
    now = _state(broker, session)
    then = _next_state(image, sessions, broker, now, request, is_caught_up=is_caught_up)
    changes = _moved(image, broker, then, rules) if then is not now else []
    changes += _reported_directories(apply_all(image, changes), request, rules)
    response = BrokerHeartbeatResponse(
        error_code=NONE,
        is_caught_up=is_caught_up,
        is_fenced=then.is_fenced,
        should_shut_down=then is ControlState.SHUTDOWN_NOW,
    )
    return HeartbeatDecided(tuple(changes), response, then)


def answer_unchanged(
    image: ClusterImage, sessions: BrokerSessions, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse | None:
    """The answer to a heartbeat that asks for nothing new; None when it must be decided."""
    broker = registered_broker(image, request.broker_id, request.broker_epoch)
    session = sessions.of(image, broker.id)
    if request.want_shut_down or session.is_stopping or _reports_directories(image, broker, request):
        return None
    is_caught_up = request.current_metadata_offset >= session.registered_offset
    if broker.fenced if not request.want_fence and is_caught_up else not broker.fenced and request.want_fence:
        return None
    return BrokerHeartbeatResponse(
        error_code=NONE, is_caught_up=is_caught_up, is_fenced=broker.fenced, should_shut_down=False
    )


def _state(broker: Broker, session: Session) -> ControlState:
    if broker.fenced:
        return ControlState.FENCED
    return ControlState.CONTROLLED_SHUTDOWN if session.is_stopping else ControlState.UNFENCED


def _next_state(
    image: ClusterImage,
    sessions: BrokerSessions,
    broker: Broker,
    now: ControlState,
    request: BrokerHeartbeatRequest,
    *,
    is_caught_up: bool,
) -> ControlState:
    match now:
        case ControlState.FENCED if request.want_shut_down:
            return ControlState.SHUTDOWN_NOW
        case ControlState.FENCED:
            return ControlState.UNFENCED if is_caught_up and not request.want_fence else now
        case ControlState.UNFENCED if request.want_fence:
            return ControlState.SHUTDOWN_NOW if request.want_shut_down else ControlState.FENCED
        case ControlState.UNFENCED if not request.want_shut_down:
            return now
        case _ if has_leaderships(image, broker.id):
            return ControlState.CONTROLLED_SHUTDOWN
        case ControlState.UNFENCED:
            return ControlState.SHUTDOWN_NOW
    moved_at, lowest = sessions.of(image, broker.id).shutdown_offset, sessions.lowest_active_offset(image)
    have_all_seen_it = lowest is None or moved_at is None or moved_at <= lowest
    return ControlState.SHUTDOWN_NOW if have_all_seen_it else now


def _moved(image: ClusterImage, broker: Broker, then: ControlState, rules: ControllerRules) -> list[Change]:
    match then:
        case ControlState.UNFENCED:
            return unfenced(image, broker, rules)
        case ControlState.CONTROLLED_SHUTDOWN:
            return stopping(image, broker, rules)
    return [] if broker.fenced else fenced(image, broker, rules)


def _reports_directories(image: ClusterImage, broker: Broker, request: BrokerHeartbeatRequest) -> bool:
    level = image.feature(METADATA_VERSION)
    if level >= DIRECTORIES_SINCE and any(each in broker.directories for each in request.offline_log_dirs):
        return True
    return level >= CORDONED_SINCE and _cordoned(broker, request) != broker.cordoned_directories


def _cordoned(broker: Broker, request: BrokerHeartbeatRequest) -> tuple[bytes, ...] | None:
    reported = request.cordoned_log_dirs
    return broker.cordoned_directories if reported is None else tuple(reported)


def _reported_directories(image: ClusterImage, request: BrokerHeartbeatRequest, rules: ControllerRules) -> list[Change]:
    broker = image.brokers[request.broker_id]
    if not _reports_directories(image, broker, request):
        return []
    changes: list[Change] = []
    if image.feature(METADATA_VERSION) >= DIRECTORIES_SINCE:
        moved, after = directories_lost(image, broker, request.offline_log_dirs, rules)
        changes += moved
        if after != broker:
            changes.append(RegisterBroker(after))
            broker = after
    if image.feature(METADATA_VERSION) >= CORDONED_SINCE:
        after = replace(broker, cordoned_directories=_cordoned(broker, request))
        if after != broker:
            changes.append(RegisterBroker(after))
    return changes
