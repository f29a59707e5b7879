"""The share coordinator is asked to begin the partitions of a group."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.coordinators.groups.share.heartbeat import BY_RESET, InitializeStates
from ottla.broker.coordinators.share_state.state import ShareKey
from ottla.broker.requests.running import Running


class KeepsStates(Protocol):
    """The part of sharing/persister.py that is needed here."""

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None: ...


async def initialize_states(persister: KeepsStates, states: InitializeStates) -> None:
    """Done when all of them have begun; all are asked before the first is awaited."""
    keys = [
        ShareKey(states.group_id, topic_id, each)
        for topic_id, topic in states.topics.items()
        for each in sorted(topic.partitions)
    ]
    for running in [Running(persister.initialize(key, states.state_epoch, BY_RESET)) for key in keys]:
        await running.wait()
