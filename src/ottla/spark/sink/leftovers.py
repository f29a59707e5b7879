"""Open transactions of tasks that this batch does not have: they would hold back readers until they time out.

A run that had more tasks and died leaves them; no task of a later, smaller batch takes their ids over. Nobody can
commit them any more (transactions.py), so the driver aborts them when it has committed a batch.

1. Which tasks there ever were is asked once per run, by looking at ids beyond the last task until WINDOW of them in a
   row are unknown; after that the driver remembers. A query whose number of tasks never shrinks asks nothing more.
2. It is a courtesy: what goes wrong here is logged, and the time-out does it later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.plans import PartlyFailed
from ottla.errors import OttlaError, TransactionalIdNotFound
from ottla.spark.sink.clients import SinkClients
from ottla.spark.sink.markers import SinkNames

log = logging.getLogger(__name__)

WINDOW: Final = 16
TASK_LIMIT: Final = 100_000
ONGOING: Final = "Ongoing"


def abort_leftovers(clients: SinkClients, names: SinkNames, task_count: int) -> None:
    """Abort what tasks from `task_count` on have open."""
    try:
        clients.run(_abort_beyond(clients, names, task_count))
    except OttlaError as error:
        log.warning("transactions of earlier runs could not be aborted and will time out: %s", error)


async def _abort_beyond(clients: SinkClients, names: SinkNames, task_count: int) -> None:
    known = clients.known_tasks.get(names.query_id)
    if known is None:
        known = await _tasks_from(clients.admin, names, task_count)
        clients.known_tasks[names.query_id] = known
    beyond = [task for task in known if task >= task_count]
    known.update(range(task_count))
    if beyond:
        await abort_open(clients.admin, names, beyond)


async def abort_open(admin: AsyncAdmin, names: SinkNames, tasks: Iterable[int]) -> None:
    """Abort what these tasks have open, and fence who wrote it."""
    states = await _states(admin, names, tasks)
    left = [names.transactional_id(task) for task, state in states.items() if state == ONGOING]
    if left:
        await admin.fence_producers(left)


async def _tasks_from(admin: AsyncAdmin, names: SinkNames, first: int) -> set[int]:
    """Tasks from `first` on whose ids the coordinators know."""
    found: set[int] = set()
    for start in range(first, TASK_LIMIT, WINDOW):
        here = await _states(admin, names, range(start, start + WINDOW))
        if not here:
            break
        found.update(here)
    return found


async def _states(admin: AsyncAdmin, names: SinkNames, tasks: Iterable[int]) -> dict[int, str]:
    """The states of the transactions that are known."""
    ids = {names.transactional_id(task): task for task in tasks}
    try:
        described = await admin.describe_transactions(list(ids))
    except TransactionalIdNotFound:
        return {}
    except PartlyFailed as partly:
        others = [error for error in partly.failed.values() if not isinstance(error, TransactionalIdNotFound)]
        if others:
            raise others[0] from partly
        described = partly.succeeded
    return {ids[name]: each.state for name, each in described.items()}
