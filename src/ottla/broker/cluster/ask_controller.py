"""What the handlers of requests between brokers do alike: ask the controller role, and answer what it replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.cluster.controller_role import HasControllerRole
from ottla.broker.requests.answers import Later
from ottla.cluster.controller.events import Asked
from ottla.errors import BrokerError, NotController
from ottla.protocol.schema import Message


def asked(broker: HasControllerRole, event: Asked, refused: Callable[[BrokerError], Message]) -> Later[Any]:
    """The reply, or what `refused` makes of the error. A broker without a role is no controller."""
    if broker.controller_role is None:
        return Later.given(refused(NotController()))
    later: Later[Any] = Later()
    broker.controller_role.ask(event).when_given(
        lambda given: later.give(refused(given) if isinstance(given, BrokerError) else given)
    )
    return later
