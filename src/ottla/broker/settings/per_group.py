"""What each group has of its settings, remembered until something changes.

Coordinators and leaders ask with every heartbeat and every fetch. Hardly any group sets anything for itself, and
settings change seldom: what was made of them stays until the cluster's configs or the broker's settings are others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ottla.broker.settings import BrokerSettings
from ottla.cluster.model import ConfigResource, ResourceType

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

T = TypeVar("T")

REMEMBERED_GROUPS: Final = 16_384


class PerGroup(Generic[T]):
    """`make` is given what the group set, and the broker's settings."""

    def __init__(self, broker: Broker, make: Callable[[Mapping[str, str], BrokerSettings], T]) -> None:
        self._broker = broker
        self._make = make
        self._made: dict[str, T] = {}
        self._made_of: tuple[object, object] = (None, None)  # configs and settings: they never change, others come

    def __call__(self, group_id: str) -> T:
        configs, settings = self._broker.image.configs, self._broker.settings
        if self._made_of[0] is not configs or self._made_of[1] is not settings or len(self._made) > REMEMBERED_GROUPS:
            self._made_of = configs, settings
            self._made.clear()
        made = self._made.get(group_id)
        if made is None:
            own = self._broker.image.config(ConfigResource(ResourceType.GROUP, group_id))
            made = self._made[group_id] = self._make(own, settings)
        return made
