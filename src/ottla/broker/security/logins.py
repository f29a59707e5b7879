"""Carries out what a login (login.py) decides: on the way of a request it stands before the dispatcher.

    frame ─► ConnectionLogin ─► dispatcher          a request of somebody who is known, or ApiVersions
                  └─► an answer of its own          handshake and steps of the login, or its refusal

1. A failed login is answered and closed after connection.failed.authentication.delay.ms and up to half as much again
   by chance; only its own connection waits.
2. A login that is not complete after LOGIN_LIMIT_MS ends. So does another login on the same connection.
3. When settings change, the next login goes by the new ones. A change that cannot work is refused and changes nothing.
4. Logins are counted by listener, under the names of Kafka's socket-server-metrics.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from ottla.broker.network.processor import Answer, Answering, CloseConnection, Connection, Dispatcher, RunAnswers
from ottla.broker.observe import metric_table
from ottla.broker.observe.log_limit import LineLimit
from ottla.broker.observe.metric_table import LOOP
from ottla.broker.security.login import PASS, Login, Now, Refuse, Reply
from ottla.broker.security.login_rules import ListenerRules
from ottla.clock import Clock, Timer
from ottla.metrics import Counter, Registry
from ottla.net.sasl.server import ServerMechanism

log = logging.getLogger(__name__)
log.addFilter(LineLimit())

LOGIN_LIMIT_MS: Final = 10_000
JITTER: Final = 0.5
_KEY_BYTES: Final = 2


class LoginMetrics:
    """How logins end at one listener."""

    def __init__(self, registry: Registry, listener: str) -> None:
        def counter(name: str) -> Counter:
            return metric_table.counter(registry, f"kafka_server_socket_server_metrics_{name}_total").of(listener, LOOP)

        self.successful = counter("successful_authentication")
        self.failed = counter("failed_authentication")
        self.successful_again = counter("successful_reauthentication")
        self.failed_again = counter("failed_reauthentication")
        self.expired = counter("expired_connections_killed")


class ListenerLogins:
    """The logins of one listener: its rules, which may change, and what all its connections need."""

    def __init__(
        self,
        rules: ListenerRules,
        *,
        clock: Clock,
        random: Random,
        metrics: LoginMetrics,
        delay_ms: Callable[[], float],
    ) -> None:
        self.rules = rules
        self.clock = clock
        self.metrics = metrics
        self._random = random
        self._delay_ms = delay_ms

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self.rules.mechanisms

    def server(self, mechanism: str) -> ServerMechanism:
        return self.rules.server(mechanism)

    def max_reauth_ms(self, mechanism: str) -> float:
        return self.rules.max_reauth_ms(mechanism)

    def delay_ms(self) -> float:
        """How long a refusal waits this time."""
        return self._delay_ms() * (1 + JITTER * self._random.random())

    def login(self, behind: Dispatcher) -> ConnectionLogin:
        """For a new connection."""
        return ConnectionLogin(self, behind)


class ConnectionLogin:
    """A Dispatcher in front of another one, for one connection."""

    def __init__(self, logins: ListenerLogins, behind: Dispatcher) -> None:
        self._logins = logins
        self._clock = logins.clock
        self._behind = behind
        self._login = Login(logins)
        self._timer: Timer | None = None

    # -- what its connection says --------------------------------------------------------------------------------

    @property
    def receive_limit_bytes(self) -> int:
        return self._logins.rules.receive_limit_bytes

    def begin(self, connection: Connection, is_holding: Callable[[], bool] = lambda: False) -> None:
        """Its time begins; while the broker holds everybody back (`is_holding`) it does not count."""
        self.end()

        def too_late() -> None:
            self._timer = None
            if is_holding():
                self.begin(connection, is_holding)
            else:
                self._logins.metrics.failed.value += 1
                connection.abort(f"no login within {LOGIN_LIMIT_MS} ms")

        self._timer = self._clock.call_later(LOGIN_LIMIT_MS, too_late)

    def end(self) -> None:
        """The connection is gone, or the login complete."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- frames --------------------------------------------------------------------------------------------------

    def dispatch(self, frame: memoryview, connection: Connection) -> Answering:
        monotonic_ms = self._clock.monotonic_ms()
        if self._login.passes(int.from_bytes(frame[:_KEY_BYTES], signed=True), monotonic_ms):
            return self._behind.dispatch(frame, connection)
        decision = self._login.received(frame, Now(self._clock.now_ms(), monotonic_ms))
        if decision is PASS:
            return self._behind.dispatch(frame, connection)
        if isinstance(decision, Reply):
            return self._reply(decision, connection)
        assert isinstance(decision, Refuse)
        return self._refuse(decision, connection)

    def dispatch_run(
        self, frame: memoryview, following: deque[memoryview], connection: Connection
    ) -> RunAnswers | None:
        if self._login.passes(int.from_bytes(frame[:_KEY_BYTES], signed=True), self._clock.monotonic_ms()):
            return self._behind.dispatch_run(frame, following, connection)
        return None

    def _reply(self, reply: Reply, connection: Connection) -> Answering:
        if reply.identity is None:
            if self._timer is None:
                self.begin(connection)  # it logs in again
            return reply.answer
        self.end()
        metrics = self._logins.metrics
        (metrics.successful_again if reply.is_again else metrics.successful).value += 1
        connection.authenticated(f"User:{reply.identity.name}", by_token=reply.identity.by_token)
        return reply.answer

    def _refuse(self, refuse: Refuse, connection: Connection) -> Answering:
        self.end()
        metrics = self._logins.metrics
        if not refuse.is_login:
            metrics.expired.value += 1
            raise CloseConnection(refuse.reason, refuse.answer)
        (metrics.failed_again if refuse.is_again else metrics.failed).value += 1
        return self._refuse_later(refuse, connection)

    async def _refuse_later(self, refuse: Refuse, connection: Connection) -> Answer | None:
        connection.hold()
        await self._clock.sleep(self._logins.delay_ms())
        raise CloseConnection(f"no login: {refuse.reason}", refuse.answer)
