"""What every coordinator of this broker has: an internal topic, a shard for each of its partitions that is led here.

A name (a group id, a transactional id) belongs to one partition of the topic, and its shard decides about it. To add a
coordinator: a shard (effects.Shard), and a class like those in groups/ and transactions/ with a function that makes it
from the broker's parts; list.py then makes it when it is needed, and the broker loads it, unloads it, keeps its timers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from ottla.broker.coordinators.effects import Shard
from ottla.broker.coordinators.internal_partition import CoordinatorPartition
from ottla.broker.coordinators.placement import partition_for_name
from ottla.broker.coordinators.runtime import Runtime
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.pacing import Pace
from ottla.broker.requests.running import Work
from ottla.cluster.image import ClusterImage
from ottla.errors import BrokerError, CoordinatorNotAvailable
from ottla.protocol.schema import Message
from ottla.storage.log.whole_log import Rotten
from ottla.storage.producers.check import VerificationGuard

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

S = TypeVar("S", bound=Shard)
R = TypeVar("R", bound=Message)
A = TypeVar("A", bound=Message)

# A method of a shard: (shard, token, request, context, now) to effects.
Method: TypeAlias = Callable[[S, int, R, RequestContext, int], Sequence[object]]


class Coordinator(Generic[S]):
    serves_remains: bool
    """Whether what is left of a partition, when some of it cannot be read, is a state that may be served."""

    def __init__(self, topic: str, runtime: Runtime[S], broker: Broker) -> None:
        self.topic = topic
        self.runtime = runtime
        self._broker = broker

    def partition_of(self, name: str) -> int:
        count = self._broker.image.partition_count(self.topic)
        if count is None:
            raise CoordinatorNotAvailable(f"{self.topic} does not exist yet")
        return partition_for_name(name, count)

    def ask(
        self,
        name: str,
        method: Method[S, R],
        request: R,
        context: RequestContext,
        *,
        guard: VerificationGuard | None = None,
    ) -> asyncio.Future[Any]:
        """Raises NotCoordinator, CoordinatorLoadInProgress or CoordinatorNotAvailable when there is nobody to ask."""
        return self.runtime.call(
            self.partition_of(name),
            lambda shard, token, now_ms: method(shard, token, request, context, now_ms),
            guard=guard,
        )

    def answer(self, name: str, method: Method[S, R], request: R, context: RequestContext) -> Message | Work[Message]:
        """The same for a plain handler that has only this to do: the answer when it is there, else who waits for it."""
        found = self.runtime.answer(
            self.partition_of(name), lambda shard, token, now_ms: method(shard, token, request, context, now_ms)
        )
        return found if isinstance(found, Message) else _awaited(found)

    def ask_or(
        self,
        name: str,
        method: Method[S, R],
        request: R,
        context: RequestContext,
        refused: Callable[[BrokerError], A],
    ) -> asyncio.Future[A]:
        """The same for answers that name the error themselves: `refused` makes one when there is nobody to ask."""
        try:
            return self.ask(name, method, request, context)
        except BrokerError as error:
            answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
            answer.set_result(refused(error))
            return answer

    async def ask_each(
        self,
        pace: Pace,
        names: Iterable[str],
        method: Method[S, R],
        request_for: Callable[[str], R],
        context: RequestContext,
        refused: Callable[[str, BrokerError], A],
    ) -> list[A]:
        """The same for many names, each asked for alone. All are asked before the first is awaited."""
        asked = []
        for name in names:
            asked.append(self.ask_or(name, method, request_for(name), context, partial(refused, name)))
            await pace.step()
        pace.release()
        return [await each for each in asked]

    def ask_all(self, method: Method[S, R], request: R, context: RequestContext) -> list[asyncio.Future[Any]]:
        """Ask every shard that is here."""
        return [
            self.runtime.call(index, lambda shard, token, now_ms: method(shard, token, request, context, now_ms))
            for index, _ in list(self.runtime.shards())
        ]

    def load(self, partition: Partition) -> None:
        """This broker leads a partition of the topic, in a new epoch: what it had in an earlier one begins again."""
        index = partition.name.partition
        self.runtime.unload(index)
        self.runtime.load(index, CoordinatorPartition(partition, self._broker.progress.appended))

    def unreadable(self, index: int, rotten: Rotten) -> bool:
        """Part of a partition cannot be read: whether the rest is to be served. Not when another replica takes over."""
        partition = self._broker.replicas.get((self.topic, index))
        if partition is None:
            return False
        return (
            not self._broker.corruption.report(
                partition, rotten.file, rotten.offset, rotten.error, self.without(rotten)
            )
            and self.serves_remains
        )

    def without(self, rotten: Rotten) -> str:
        """What it means for users that this cannot be read, and what they can do."""
        raise NotImplementedError

    def topics_changed(self, deleted: list[tuple[str, bytes]], changed: set[str] | None) -> None:
        """Topics (name and id) were deleted, others changed; None is any of them."""

    def image_changed(self, image: ClusterImage) -> None:
        """The cluster's truth is another one now."""


async def _awaited(answer: asyncio.Future[Message]) -> Message:
    return await answer
