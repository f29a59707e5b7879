"""Orders to one broker: in order, one at a time, again and again until it answers or leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ottla.cluster.controller.orders import Order
from ottla.protocol.schema import Message

Send: TypeAlias = Callable[[int, Message], Awaitable[Any]]
"""Gives the broker's answer; raises when there is none, then it is tried again."""


class BrokerChannel:
    """`answered(order, response)` is called on the loop for every answer."""

    def __init__(self, broker_id: int, broker_epoch: int, send: Send, answered: Callable[[Order, Any], None]) -> None:
        raise NotImplementedError

    def put(self, order: Order) -> None:
        """Send it after those that wait."""
        raise NotImplementedError

    async def close(self) -> None:
        """The broker is gone: what waits is dropped."""
        raise NotImplementedError
