"""Changes one after another; one that is adopted in stints holds up the next, and nobody else."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.cluster.changes import ChangeQueue
from ottla.broker.requests.running import Running
from ottla.errors import InvalidRequest, KafkaStorageError


class Store:
    """Commits at once; the image is the number of changes."""

    def __init__(self) -> None:
        self.image = 0

    def load(self) -> int:
        return self.image

    def commit(self, changes: Any) -> int:
        self.image += len(changes)
        return self.image


def plan(*changes: str) -> Any:
    return SimpleNamespace(changes=changes)


async def apply_at_once(image: Any, changes: Any) -> None:
    """Nothing has to be waited for."""


def test_what_needs_no_waiting_is_changed_at_once() -> None:
    async def run() -> None:
        applied: list[Any] = []

        async def apply(image: Any, changes: Any) -> None:
            applied.append((image, changes))

        running = Running(ChangeQueue(Store(), None, apply).submit(lambda image: plan("a", "b")))
        assert running.is_done
        assert running.result().changes == ("a", "b")
        assert applied == [(2, ("a", "b"))]

    asyncio.run(run())


def test_the_next_change_is_planned_when_the_one_before_is_applied() -> None:
    async def run() -> None:
        may_apply, seen = [asyncio.get_running_loop().create_future() for _ in range(2)], list[int]()
        applying = iter(may_apply)

        async def apply(image: Any, changes: Any) -> None:
            await next(applying)

        def make(image: Any) -> Any:
            seen.append(image)
            return plan("x")

        queue = ChangeQueue(Store(), None, apply)
        first, second = Running(queue.submit(make)), Running(queue.submit(make))
        assert (seen, first.is_done, queue.is_idle) == ([0], False, False)
        may_apply[0].set_result(None)
        await first.wait()
        await asyncio.sleep(0)
        assert (seen, second.is_done) == ([0, 1], False)
        may_apply[1].set_result(None)
        await second.wait()
        assert queue.is_idle

    asyncio.run(run())


def test_a_change_that_cannot_be_applied_is_an_error_and_the_next_is_made() -> None:
    async def run() -> None:
        outcomes: list[Exception | None] = [OSError("no room"), None]

        async def apply(image: Any, changes: Any) -> None:
            if error := outcomes.pop(0):
                raise error

        queue = ChangeQueue(Store(), None, apply)
        with pytest.raises(KafkaStorageError, match="no room"):
            await queue.submit(lambda image: plan("x"))
        assert (await queue.submit(lambda image: plan("y"))).changes == ("y",)

    asyncio.run(run())


def test_a_plan_that_is_refused_changes_nothing() -> None:
    store = Store()

    def refuse(image: Any) -> Any:
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        asyncio.run(ChangeQueue(store, None, apply_at_once).submit(refuse))
    assert store.image == 0


# --- with a worker thread ---


class PendingChange:
    def __init__(self, store: "SlowStore", changes: Any) -> None:
        self.store, self.changes = store, changes

    def write(self) -> None:
        self.store.threads.append(threading.get_ident())


class SlowStore(Store):
    """Writes apart from what it decides, as the one on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def begin(self, changes: Any) -> PendingChange:
        return PendingChange(self, changes)

    def finish(self, pending: PendingChange) -> int:
        return self.commit(pending.changes)


def submitted(*plans: Any) -> tuple[list[Any], list[int], SlowStore]:
    """What a queue with a worker thread made of plans, and in which threads they were made."""

    async def whole() -> tuple[list[Any], list[int], SlowStore]:
        store, made = SlowStore(), list[int]()

        def make(wanted: Any, image: Any) -> Any:
            made.append(threading.get_ident())
            if isinstance(wanted, Exception):
                raise wanted
            return plan(*wanted, f"on {image}") if wanted else plan()

        with ThreadPoolExecutor(1) as pool:
            queue = ChangeQueue(store, pool, apply_at_once)
            asked = [queue.submit(partial(make, wanted)) for wanted in plans]
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert queue.is_idle
        return outcomes, made, store

    return asyncio.run(whole())


def test_a_plan_is_made_and_written_in_the_worker_thread_one_after_the_other() -> None:
    outcomes, made, store = submitted(("a",), (), ("b",))
    assert [each.changes for each in outcomes] == [("a", "on 0"), (), ("b", "on 2")]
    assert threading.get_ident() not in made + store.threads
    assert store.image == 4


@pytest.mark.parametrize(
    ("wanted", "kind"), [(InvalidRequest("no"), InvalidRequest), (ZeroDivisionError("oops"), KafkaStorageError)]
)
def test_what_stops_a_plan_is_raised_and_the_next_goes_on(wanted: Exception, kind: type) -> None:
    outcomes, _, store = submitted(wanted, ("b",))
    assert isinstance(outcomes[0], kind)
    assert outcomes[1].changes == ("b", "on 0")
    assert store.image == 2
