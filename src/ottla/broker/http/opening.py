"""What stands behind the HTTP door of a broker: its metrics, whether it is ready, and who may come in.

What counts the state of the broker, and what knows users, is loaded when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.broker import Broker
from ottla.broker.http.door import Door
from ottla.broker.observe.admin_http import LazyState, Watch
from ottla.broker.observe.readiness import why_not_led, why_not_writable
from ottla.broker.world import World
from ottla.clock import Clock

if TYPE_CHECKING:
    from ottla.broker.observe.admin_login import AdminLogin
    from ottla.broker.observe.state_metrics import StateMetrics
    from ottla.broker.server import Server


def make_door(server: Server, world: World, stack: AsyncExitStack, *, is_ready: Callable[[], bool]) -> Door:
    """The door of a server, not open yet; `stack` ends what counts the state."""
    clock, broker = world.clock, server.broker
    state = LazyState(partial(_make_state, server, clock, clock.now_ms(), is_ready))
    stack.callback(state.stop)

    def not_ready_because() -> str | None:
        if not is_ready():
            return "starting or stopping"
        return broker.watchdog.not_ready_because or _why_not(broker)

    def ready_but() -> str:
        damaged = len(broker.corruption.found)
        have = "1 partition has" if damaged == 1 else f"{damaged} partitions have"
        return f", but {have} records that cannot be read" if damaged else ""

    watch = Watch(
        metrics=lambda: server.registry.pieces(clock.monotonic_ms()),
        not_ready_because=not_ready_because,
        ready_but=ready_but,
        update=state.update,
        prepare=state.prepare,
    )
    login = _admin_login(broker, clock) if server.settings.ottla_admin_login else None
    return Door(broker, watch, login=login, random_bytes=world.random.randbytes)


def _why_not(broker: Broker) -> str | None:
    """Why nothing can be done for others: for clients, or of a controller for brokers."""
    if broker.link.is_controller:
        return why_not_led(broker.link.controller_for_clients)
    return why_not_writable(broker.replicas.directories)


def _admin_login(broker: Broker, clock: Clock) -> AdminLogin:
    from ottla.broker.observe.admin_login import AdminLogin
    from ottla.broker.security.scram_users import ScramUsers

    return AdminLogin(
        ScramUsers(lambda: broker.image),
        broker.access,
        clock,
        delay_ms=lambda: broker.settings.connection_failed_authentication_delay_ms,
    )


def _make_state(server: Server, clock: Clock, started_ms: int, is_ready: Callable[[], bool]) -> StateMetrics:
    from ottla.broker.observe.state.process import SERVING, STOPPING
    from ottla.broker.observe.state_metrics import StateMetrics

    def broker_state() -> int:
        return SERVING if is_ready() else STOPPING

    return StateMetrics(server.registry, server.broker, server.listeners.acceptor, clock, started_ms, broker_state)
