"""Changes of the cluster's truth, one after another: plan on the newest image, store, apply, then answer.

1. A plan is made when its turn comes, on the image that is then the newest; so two requests never decide on the same
   old state.
2. Plan and write run together on a worker thread; the loop goes on. A plan looks at nothing but the image and what
   stays as it is: an image never changes, and nobody else plans meanwhile.
3. A change that takes long to apply (a thousand new partitions are a thousand directories) pauses now and then, and the
   next change waits until it is applied.
4. Whatever goes wrong reaches the caller as a BrokerError.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from itertools import islice
from typing import Protocol, TypeVar

from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.interface import OwnStore, PendingChange
from ottla.errors import BrokerError, KafkaStorageError

log = logging.getLogger(__name__)


class HasChanges(Protocol):
    """A plan: what to change, and whatever else its maker wants to know of it."""

    @property
    def changes(self) -> Sequence[Change]: ...


P = TypeVar("P", bound=HasChanges)
Apply = Callable[[ClusterImage, Sequence[Change]], Awaitable[None]]


class ChangeQueue:
    """`apply(image, changes)` is awaited when a commit is durable, before the caller is answered."""

    def __init__(self, store: OwnStore, pool: Executor | None, apply: Apply) -> None:
        self._store = store
        self._pool = pool
        self._apply = apply
        self._lock = asyncio.Lock()

    @property
    def is_idle(self) -> bool:
        return not self._lock.locked()

    async def submit(self, make_plan: Callable[[ClusterImage], P]) -> P:
        """The plan, once its changes are stored and applied; raises the BrokerError that stopped it."""
        async with self._lock:
            try:
                plan, image = await self._plan_and_store(make_plan)
                if image is not None:
                    await self._apply(image, plan.changes)
            except BrokerError:
                raise
            except Exception as error:
                log.exception("a change of the metadata failed")
                raise KafkaStorageError(str(error)) from error
            return plan

    async def carry_out(self, steps: Iterator[None]) -> None:
        """Work on the store that no change may meet, a step at a time on the worker thread."""
        async with self._lock:
            if self._pool is None:
                for _ in steps:
                    pass
                return
            run = asyncio.get_running_loop().run_in_executor
            while await run(self._pool, _step, steps):
                pass

    async def _plan_and_store(self, make_plan: Callable[[ClusterImage], P]) -> tuple[P, ClusterImage | None]:
        """The plan, and the image with its changes; None when it has none."""
        if self._pool is None:
            plan = make_plan(self._store.load())
            return plan, self._store.commit(plan.changes) if plan.changes else None
        run = asyncio.get_running_loop().run_in_executor
        plan, pending = await run(self._pool, self._plan_and_write, make_plan, self._store.load())
        return plan, None if pending is None else self._store.finish(pending)

    def _plan_and_write(
        self, make_plan: Callable[[ClusterImage], P], image: ClusterImage
    ) -> tuple[P, PendingChange | None]:
        plan = make_plan(image)
        if not plan.changes:
            return plan, None
        pending = self._store.begin(plan.changes)
        pending.write()
        return plan, pending


def _step(steps: Iterator[None]) -> bool:
    """One step; whether there was one."""
    return any(True for _ in islice(steps, 1))
