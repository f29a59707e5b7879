"""Changes of the cluster's truth, one after another: plan on the newest image, store, then answer.

A plan is made when its turn comes, on the image that is then the newest; so two requests never decide on the same old
state. The store's write runs on a worker thread; the loop goes on. A change that takes long to adopt (a thousand new
partitions are a thousand directories) is adopted in stints, and the next has to wait. The plan of a large request is
made and stored in the worker thread as well (`Apart`): an image never changes, and nobody else plans meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from ottla.broker.requests.answers import Later
from ottla.cluster.image import ClusterImage
from ottla.errors import BrokerError, KafkaStorageError

log = logging.getLogger(__name__)

MakePlan = Callable[[ClusterImage], Any]  # gives something with .changes; may raise BrokerError


class Apart:
    """A plan that takes long to make; it must look at nothing but the image and what stays as it is."""

    def __init__(self, make_plan: MakePlan) -> None:
        self._make_plan = make_plan

    def __call__(self, image: ClusterImage) -> Any:
        return self._make_plan(image)


class ChangeQueue:
    """`adopt(image, changes)` is called when a commit is true, before its Later is given. It gives None when it is
    done, or a Later of None; an exception there is a failure."""

    def __init__(
        self, store: Any, pool: Executor | None, adopt: Callable[[ClusterImage, Any], Later[Any] | None]
    ) -> None:
        self._store = store
        self._pool = pool
        self._adopt = adopt
        self._waiting: deque[tuple[MakePlan, Later[Any]]] = deque()
        self._is_busy = False

    @property
    def is_idle(self) -> bool:
        return not self._is_busy and not self._waiting

    def submit(self, make_plan: MakePlan) -> Later[Any]:
        """Gives the plan once its changes are stored, or the BrokerError that stopped it."""
        later: Later[Any] = Later()
        self._waiting.append((make_plan, later))
        self._next()
        return later

    def _next(self) -> None:
        while self._waiting and not self._is_busy:
            make_plan, later = self._waiting.popleft()
            if isinstance(make_plan, Apart) and self._pool is not None and hasattr(self._store, "begin"):
                self._begin_apart(self._pool, make_plan, later)
                return
            try:
                plan = make_plan(self._store.load())
            except BrokerError as error:
                later.give(error)
                continue
            if plan.changes:
                self._commit(plan, later)
            else:
                later.give(plan)

    def _begin_apart(self, pool: Executor, make_plan: MakePlan, later: Later[Any]) -> None:
        def plan_and_write(image: ClusterImage) -> tuple[Any, Any]:
            plan = make_plan(image)
            pending = self._store.begin(plan.changes) if plan.changes else None
            if pending is not None:
                pending.write()
            return plan, pending

        self._is_busy = True
        done = asyncio.get_running_loop().run_in_executor(pool, plan_and_write, self._store.load())
        done.add_done_callback(lambda done: self._ended_apart(done, later))

    def _ended_apart(self, done: asyncio.Future[tuple[Any, Any]], later: Later[Any]) -> None:
        self._is_busy = False
        error = done.exception()
        if error is not None:
            later.give(_told(error))
        else:
            plan, pending = done.result()
            if pending is None:
                later.give(plan)
            else:
                self._adopt_then_give(self._store.finish(pending), plan, later)
        self._next()

    def _commit(self, plan: Any, later: Later[Any]) -> None:
        try:
            if self._pool is None or not hasattr(self._store, "begin"):
                self._adopt_then_give(self._store.commit(plan.changes), plan, later)
                return
            pending = self._store.begin(plan.changes)
        except BrokerError as error:
            later.give(error)
            return
        self._is_busy = True
        written = asyncio.get_running_loop().run_in_executor(self._pool, pending.write)
        written.add_done_callback(lambda done: self._written(done, pending, plan, later))

    def _written(self, done: asyncio.Future[None], pending: Any, plan: Any, later: Later[Any]) -> None:
        self._is_busy = False
        error = done.exception()
        if error is None:
            self._adopt_then_give(self._store.finish(pending), plan, later)
        else:
            later.give(_told(error))
        self._next()

    def _adopt_then_give(self, image: ClusterImage, plan: Any, later: Later[Any]) -> None:
        waits_for = self._adopt(image, plan.changes)
        if waits_for is None:
            later.give(plan)
            return
        self._is_busy = True
        waits_for.when_given(lambda result: self._adopted(result, plan, later))

    def _adopted(self, result: Any, plan: Any, later: Later[Any]) -> None:
        self._is_busy = False
        if isinstance(result, Exception):
            log.error("a change of the metadata could not be followed", exc_info=result)
        later.give(KafkaStorageError(str(result)) if isinstance(result, Exception) else plan)
        self._next()


def _told(error: BaseException) -> BrokerError:
    if isinstance(error, BrokerError):
        return error
    log.error("a change of the metadata could not be planned or written", exc_info=error)
    return KafkaStorageError(str(error))
