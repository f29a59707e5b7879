"""The coordinators of a broker: each is loaded and made when it is first needed.

    broker.coordinators.groups           the group coordinator
    broker.coordinators.of_topic(name)   the coordinator that keeps its records in this internal topic
    broker.coordinators.made             those that are there already: whoever only passes something on asks these

1. A broker that just started has neither groups nor transactions. Their code is a fifth of what a broker would load, so
   it is loaded with the first request for it, or with the first partition of its topic.
2. A coordinator that is not there has no shard, hence no state: nothing that happens before it is made concerns it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ottla.cluster.topic_names import GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.coordinators.groups.coordinator import GroupCoordinator
    from ottla.broker.coordinators.share_state.coordinator import ShareCoordinator
    from ottla.broker.coordinators.transactions.coordinator import TransactionCoordinator

    AnyCoordinator = GroupCoordinator | TransactionCoordinator | ShareCoordinator


class Coordinators:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.made: list[AnyCoordinator] = []
        self._by_topic: dict[str, Callable[[], AnyCoordinator]] = {
            GROUP_METADATA: lambda: self.groups,
            TRANSACTION_STATE: lambda: self.transactions,
            SHARE_GROUP_STATE: lambda: self.share_state,
        }

    @cached_property
    def groups(self) -> GroupCoordinator:
        from ottla.broker.coordinators.groups.coordinator import make_group_coordinator

        made = make_group_coordinator(self._broker)
        self.made.append(made)
        return made

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        from ottla.broker.coordinators.transactions.coordinator import TransactionCoordinator

        made = TransactionCoordinator(self._broker)
        self.made.append(made)
        return made

    @cached_property
    def share_state(self) -> ShareCoordinator:
        from ottla.broker.coordinators.share_state.coordinator import ShareCoordinator

        made = ShareCoordinator(self._broker)
        self.made.append(made)
        return made

    def of_topic(self, topic: str) -> AnyCoordinator | None:
        """The coordinator that keeps its records in this topic."""
        make = self._by_topic.get(topic)
        return None if make is None else make()
