"""The group coordinator of this broker: which shard a group belongs to, and how to ask it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from ottla.broker.coordinators.effects import Effect, RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.coordinators.placement import partition_for_name
from ottla.broker.coordinators.runtime import Runtime
from ottla.broker.requests.answers import Later
from ottla.errors import CoordinatorNotAvailable
from ottla.protocol.schema import Message
from ottla.protocol.stored import classic_groups, consumer_groups, offsets, share_groups, streams_groups
from ottla.storage.producers.check import VerificationGuard

TOPIC: Final = "__consumer_offsets"


def _kinds(*modules: ModuleType) -> dict[type[Message], type[Message]]:
    """Key classes with their value classes: they differ in the end of their names."""
    names = [(module, name) for module in modules for name in vars(module) if name.endswith("Key")]
    return {getattr(module, name): getattr(module, name.removesuffix("Key") + "Value") for module, name in names}


# Every kind of record in the topic; what a shard cannot replay it refuses loudly, not silently.
KINDS: Final = _kinds(offsets, classic_groups, consumer_groups, share_groups, streams_groups)

Method = Callable[[GroupShard, int, Any, RequestContext, int], list[Effect]]


class GroupCoordinator:
    def __init__(self, runtime: Runtime[GroupShard], partition_count: Callable[[], int | None]) -> None:
        """`partition_count` of the internal topic; None while it does not exist."""
        self.runtime = runtime
        self._partition_count = partition_count

    def partition_of(self, group_id: str) -> int:
        count = self._partition_count()
        if count is None:
            raise CoordinatorNotAvailable(f"{TOPIC} does not exist yet")
        return partition_for_name(group_id, count)

    def ask(
        self,
        group_id: str,
        method: Method,
        request: Message,
        context: RequestContext,
        *,
        guard: VerificationGuard | None = None,
    ) -> Later[Any]:
        """Raises NotCoordinator, CoordinatorLoadInProgress or CoordinatorNotAvailable when there is nobody to ask."""
        return self.runtime.call(
            self.partition_of(group_id),
            lambda shard, token, now_ms: method(shard, token, request, context, now_ms),
            guard=guard,
        )

    def ask_all(self, method: Method, request: Message, context: RequestContext) -> list[Later[Any]]:
        """Every shard that is here."""
        return [
            self.runtime.call(index, lambda shard, token, now_ms: method(shard, token, request, context, now_ms))
            for index, _ in list(self.runtime.shards())
        ]
