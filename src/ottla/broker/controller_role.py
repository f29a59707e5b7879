"""The controller on the loop: one queue of events, one at a time; decide, commit, order, reply."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol

from ottla.broker.answers import Later
from ottla.cluster.controller.broker_channel import Send
from ottla.cluster.controller.events import Asked
from ottla.cluster.controller.state import ControllerRules
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.events import Controller, StoreEvent
from ottla.cluster.store.interface import SharedStore


class HasControllerRole(Protocol):
    """What the controller's handlers need of a broker; None on a broker that has no cluster."""

    controller_role: ControllerRole | None


class ControllerRole:
    """Stands for election, and is controller when it wins.

    The owner takes the store's events and tells them here; it registers the broker again before it tells SessionBack.
    """

    def __init__(
        self,
        broker_id: int,
        store: SharedStore,
        send: Send,
        *,
        rules: Callable[[], ControllerRules],
        pool: Executor | None = None,
        check_interval_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        raise NotImplementedError

    @property
    def is_active(self) -> bool:
        """Whether this broker gives orders."""
        raise NotImplementedError

    @property
    def controller(self) -> Controller | None:
        """Who does, as far as is known."""
        raise NotImplementedError

    def start(self) -> None:
        """Stand for election; the broker is registered."""
        raise NotImplementedError

    def tell(self, event: StoreEvent) -> None:
        """Something the store found."""
        raise NotImplementedError

    def ask(self, event: Asked) -> Later[Any]:
        """Gives the reply, or a BrokerError (NotController when this broker is not, or not any more)."""
        raise NotImplementedError

    def submit(self, make_plan: Callable[[ClusterImage], Any]) -> Later[Any]:
        """As ChangeQueue.submit: gives the plan when its changes are true, or the BrokerError that stopped it."""
        raise NotImplementedError

    async def close(self) -> None:
        """Resign, and end everything that runs."""
        raise NotImplementedError
