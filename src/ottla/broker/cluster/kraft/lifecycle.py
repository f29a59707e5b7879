"""How a broker lives under the controllers of a metadata log: registered, caught up, unfenced, asked to stop.

    STARTING ── caught up ──► RECOVERY ── unfenced ──► RUNNING ── begin_shutdown() ──► PENDING_CONTROLLED_SHUTDOWN
        └──────────────────────────┴────────────────────┴─────────► SHUTTING_DOWN ◄────── may stop ──┘

    while lifecycle.wake_ms() is not None:
        if (request := lifecycle.request(now_ms)) is not None: ...send it to the active controller...
        events = lifecycle.answered(response or None, now_ms)      # None: nobody answered
        events = lifecycle.passed(now_ms)                          # when nothing was sent

1. First it registers. The epoch that it gets is the offset of its registration in the log, and it is caught up when it
   has applied the log up to there. Until then it beats fast, then every broker.heartbeat.interval.ms.
2. It wants to be fenced until the owner says `ready`: partitions open, coordinators loaded. UNFENCED lets clients in.
3. What does not answer, or answers an error, is tried again after a pause that doubles up to the session's time-out (in
   Kafka also while the session of an earlier life ends; here that is looked at twice a second). A
   first registration must succeed within initial.broker.registration.timeout.ms. What no repetition mends (another
   cluster, a missing feature, directories that are another broker's) ends the start at once, with a sentence.
4. An epoch that is stale (the controllers forgot us) is thrown away, and we register again with the same incarnation.
5. A failed directory is named in the next heartbeat and in every one after it. A broker that cannot have it accepted
   within log.dir.failure.timeout.ms stops: others must not believe that it still has what was there.
6. A controlled shutdown ends when the controller says so, or when the broker has waited for long enough: five minutes
   for a controller that answers. Where none has answered for SILENT_CONTROLLERS_MS there is nobody who could give our
   leaderships to others, or he has found another way to hear of us: the rest of a cluster that is stopped as a whole
   is such a place.
7. One request is on its way at a time. What has to be said meanwhile is said by the next, which leaves at once.

Neither sockets nor clocks: times are milliseconds of whatever clock the owner has, and chance only spreads pauses.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from copy import copy
from random import Random
from typing import Final, TypeAlias

from ottla.errors import (
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    NotController,
    StaleBrokerEpoch,
    UnsupportedVersion,
    broker_error,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

Request: TypeAlias = BrokerRegistrationRequest | BrokerHeartbeatRequest
Response: TypeAlias = BrokerRegistrationResponse | BrokerHeartbeatResponse

NO_EPOCH: Final = -1
CATCHING_UP_MS: Final = 10.0
FIRST_SHUTDOWN_BEAT_MS: Final = 50.0  # a shutdown that is quick should not wait for a whole interval
RETRY_MS: Final = 100.0
RETRY_SPREAD: Final = 0.02
LATE_SESSION_MS: Final = 500.0
"""How often a registration is tried again at least while the session of an earlier life of this broker lasts."""
SHUTDOWN_LIMIT_MS: Final = 300_000.0
SILENT_CONTROLLERS_MS: Final = 6_000.0
"""Longer than it takes until another controller leads, shorter than the patience of whoever stops us."""

HOPELESS: Final = {
    InconsistentClusterId.code: "the controllers are those of another cluster; check "
    "controller.quorum.bootstrap.servers, and cluster.id in meta.properties",
    UnsupportedVersion.code: "the cluster has finalized a feature, or a level of one, that this broker does not know; "
    "run a newer version of it, or see with kafka-features describe what is finalized",
    InvalidRegistration.code: "its log directories have no id, the same id twice, or that of another broker's; check "
    "directory.id in their meta.properties",
}
"""Refusals of a first registration that no repetition mends."""


class BrokerState(enum.IntEnum):
    """With the numbers of Kafka's metric."""

    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


MOVES: Final[Mapping[BrokerState, frozenset[BrokerState]]] = {
    BrokerState.STARTING: frozenset({BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN}),
    BrokerState.RECOVERY: frozenset({BrokerState.RUNNING, BrokerState.SHUTTING_DOWN}),
    BrokerState.RUNNING: frozenset({BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN}),
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: frozenset({BrokerState.SHUTTING_DOWN}),
    BrokerState.SHUTTING_DOWN: frozenset(),
}


class Event(enum.Enum):
    """What the owner must hear of."""

    REGISTERED = "it has an epoch"
    CAUGHT_UP = "it knows the cluster up to its own registration: make replicas, load coordinators, then say `ready`"
    UNFENCED = "clients and other brokers may count on it"
    FENCED = "they may not; nothing else changes"
    CONTROLLER_MOVED = "whoever answered is not the active controller: find it"
    MAY_STOP = "everything is handed over"
    MUST_STOP = "`failure` says why"


class LifecycleSettings(NamedTuple):
    heartbeat_interval_ms: float
    session_timeout_ms: float
    registration_timeout_ms: float
    directory_failure_timeout_ms: float


class BrokerLifecycle:
    """See above. `registration` is what the broker says of itself at its start, with the ids of all its directories."""

    def __init__(
        self, registration: BrokerRegistrationRequest, settings: LifecycleSettings, random: Random, now_ms: float
    ) -> None:
        self.state = BrokerState.STARTING
        self.epoch = NO_EPOCH
        self.is_fenced = True
        self.failure: str | None = None
        self._registration = registration
        self._settings = settings
        self._random = random
        self._applied_offset = -1
        self._is_ready = False
        self._offline: dict[bytes, float | None] = {}  # until when it must be accepted; None: it is
        self._cordoned: list[bytes] = []
        self._in_flight: Request | None = None
        self._has_news = False  # since the request that is on its way
        self._due_ms = now_ms
        self._failures = 0
        self._refusal = "no controller answered"
        self._registered_by_ms: float | None = now_ms + settings.registration_timeout_ms  # None: it was, once
        self._stopped_by_ms: float | None = None
        self._unheard_by_ms: float | None = None  # a controller must have answered by then while it stops
        self._is_waiting_for_controller = False

    # -- what happens to the broker ----------------------------------------------------------------------------------

    def applied(self, offset: int) -> None:
        """The offset of the last record of the log that the broker's image has."""
        self._applied_offset = offset

    def ready(self, now_ms: float) -> None:
        """It can serve: it need not be fenced any more."""
        self._is_ready = True
        self._beat_soon(now_ms)

    def directories_failed(self, ids: Collection[bytes], now_ms: float) -> None:
        until_ms = now_ms + self._settings.directory_failure_timeout_ms
        new = {directory: until_ms for directory in sorted(ids) if directory not in self._offline}
        self._offline |= new
        if new:
            self._beat_soon(now_ms)

    def directories_cordoned(self, ids: Collection[bytes], now_ms: float) -> None:
        """All those that get no new replicas."""
        self._cordoned = sorted(ids)
        self._beat_soon(now_ms)

    def begin_shutdown(self, now_ms: float) -> list[Event]:
        """Stop in order; who never ran has nothing to hand over."""
        if self.state is BrokerState.RUNNING:
            self._move(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            self._stopped_by_ms = now_ms + SHUTDOWN_LIMIT_MS
            self._unheard_by_ms = now_ms + SILENT_CONTROLLERS_MS
            self._beat_soon(now_ms)
            return []
        return self._may_stop() if self.state < BrokerState.PENDING_CONTROLLED_SHUTDOWN else []

    def _beat_soon(self, now_ms: float) -> None:
        self._has_news = self._in_flight is not None
        if self.epoch != NO_EPOCH:  # a registration that was refused keeps its pause
            self._due_ms = min(self._due_ms, now_ms)

    # -- what it says ------------------------------------------------------------------------------------------------

    def wake_ms(self) -> float | None:
        """When something is to be done, if nothing happens before; None: never again."""
        if self.state is BrokerState.SHUTTING_DOWN:
            return None
        due = [] if self._in_flight is not None else [self._due_ms]
        return min([*due, *self._limits()], default=float("inf"))

    def _limits(self) -> list[float]:
        limits = [self._registered_by_ms, self._stopped_by_ms, self._unheard_by_ms, *self._offline.values()]
        return [limit for limit in limits if limit is not None]

    def request(self, now_ms: float) -> Request | None:
        """What is to be sent now; None when nothing is due, or something is on its way."""
        if self.state is BrokerState.SHUTTING_DOWN or self._in_flight is not None or now_ms < self._due_ms:
            return None
        self._has_news = False
        self._in_flight = self._registering() if self.epoch == NO_EPOCH else self._heartbeat()
        return self._in_flight

    def _registering(self) -> BrokerRegistrationRequest:
        request = copy(self._registration)
        request.log_dirs = sorted(set(self._registration.log_dirs) - self._offline.keys())
        return request

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._applied_offset,
            want_fence=not self._is_ready,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=list(self._offline),
            # A controller takes them only of a broker that is unfenced; null says nothing about them.
            cordoned_log_dirs=None if self.is_fenced else list(self._cordoned),
        )

    # -- what it hears -----------------------------------------------------------------------------------------------

    def answered(self, response: Response | None, now_ms: float) -> list[Event]:
        """The answer to the request that is on its way; None when there is none."""
        request, self._in_flight = self._in_flight, None
        if request is None or self.state is BrokerState.SHUTTING_DOWN:
            return []
        events: list[Event] = []
        if response is None or response.error_code:
            self._try_again(0 if response is None else response.error_code, now_ms, events)
        elif isinstance(response, BrokerRegistrationResponse):
            self._registered(response, now_ms, events)
        elif isinstance(request, BrokerHeartbeatRequest):
            self._beaten(request, response, now_ms, events)
        return events + self.passed(now_ms)

    def passed(self, now_ms: float) -> list[Event]:
        """What has lasted too long by now."""
        if self.state is BrokerState.SHUTTING_DOWN:
            return []
        if self._registered_by_ms is not None and now_ms >= self._registered_by_ms:
            return self._fail(f"it could not register with the controllers in time: {self._refusal}")
        if any(limit is not None and now_ms >= limit for limit in self._offline.values()):
            return self._fail(
                "it could not tell the controller of a failed log directory within log.dir.failure.timeout.ms"
            )
        if self._stopped_by_ms is not None and now_ms >= self._stopped_by_ms:
            return self._fail("the controller has not taken over what it leads; it stops all the same")
        if self._unheard_by_ms is not None and now_ms >= self._unheard_by_ms:
            return self._fail("no controller answers that could give what it leads to others; it stops all the same")
        return []

    def _registered(self, response: BrokerRegistrationResponse, now_ms: float, events: list[Event]) -> None:
        self.epoch = response.broker_epoch
        self._registered_by_ms = None
        self._failures = 0
        self._due_ms = now_ms
        events.append(Event.REGISTERED)

    def _beaten(
        self, request: BrokerHeartbeatRequest, response: BrokerHeartbeatResponse, now_ms: float, events: list[Event]
    ) -> None:
        self._failures = 0
        if self._unheard_by_ms is not None:
            self._unheard_by_ms = now_ms + SILENT_CONTROLLERS_MS
        for directory in request.offline_log_dirs:
            self._offline[directory] = None
        self._due_ms = now_ms + (self._settings.heartbeat_interval_ms if response.is_caught_up else CATCHING_UP_MS)
        if self.state is BrokerState.STARTING and response.is_caught_up:
            self._move(BrokerState.RECOVERY)
            events.append(Event.CAUGHT_UP)
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._ask_whether_to_stop(request, response, now_ms, events)
        else:
            # An answer that still says how it was before says nothing about what we asked for.
            self._set_fenced(response.is_fenced or request.want_fence, events)
        if self._has_news:
            self._due_ms = now_ms

    def _set_fenced(self, is_fenced: bool, events: list[Event]) -> None:
        if is_fenced is self.is_fenced or (not is_fenced and self.state is BrokerState.STARTING):
            return
        self.is_fenced = is_fenced
        if self.state is BrokerState.RECOVERY:
            self._move(BrokerState.RUNNING)
        events.append(Event.FENCED if is_fenced else Event.UNFENCED)

    def _ask_whether_to_stop(
        self, request: BrokerHeartbeatRequest, response: BrokerHeartbeatResponse, now_ms: float, events: list[Event]
    ) -> None:
        if response.should_shut_down:
            events += self._may_stop()
        elif request.want_shut_down and not self._is_waiting_for_controller:
            self._is_waiting_for_controller = True
            self._due_ms = now_ms + min(FIRST_SHUTDOWN_BEAT_MS, self._settings.heartbeat_interval_ms)

    def _try_again(self, error_code: int, now_ms: float, events: list[Event]) -> None:
        if error_code:
            self._refusal = _sentence(error_code)
        if error_code in HOPELESS and self._registered_by_ms is not None:
            events += self._fail(f"it cannot register: {self._refusal}")
            return
        longest_ms = LATE_SESSION_MS if error_code == DuplicateBrokerRegistration.code else float("inf")
        pause_ms = min(RETRY_MS * 2**self._failures, self._settings.session_timeout_ms, longest_ms)
        self._failures = min(self._failures + 1, 30)
        self._due_ms = now_ms + pause_ms * self._random.uniform(1 - RETRY_SPREAD, 1 + RETRY_SPREAD)
        if error_code == NotController.code:
            events.append(Event.CONTROLLER_MOVED)
        elif error_code == StaleBrokerEpoch.code:
            self._forget_registration(events)

    def _forget_registration(self, events: list[Event]) -> None:
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            events += self._may_stop()  # nobody counts on it any more
            return
        self.epoch = NO_EPOCH
        self._set_fenced(True, events)

    def _may_stop(self) -> list[Event]:
        self._move(BrokerState.SHUTTING_DOWN)
        return [Event.MAY_STOP]

    def _fail(self, reason: str) -> list[Event]:
        self.failure = f"broker {self._registration.broker_id} stops: {reason}"
        self._move(BrokerState.SHUTTING_DOWN)
        return [Event.MUST_STOP]

    def _move(self, state: BrokerState) -> None:
        assert state in MOVES[self.state], f"{self.state.name} does not become {state.name}"
        self.state = state


def _sentence(error_code: int) -> str:
    if error_code in HOPELESS:
        return HOPELESS[error_code]
    if error_code == DuplicateBrokerRegistration.code:
        return "another process is registered with this node.id; if it was this broker, its session ends by itself"
    return str(broker_error(error_code))
