"""Changes one after another; one that is adopted in stints holds up the next, and nobody else."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.cluster.changes import Apart, ChangeQueue
from ottla.broker.requests.answers import Later
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


def given(later: Later[Any]) -> Any:
    values: list[Any] = []
    later.when_given(values.append)
    return values[0] if values else "nothing yet"


def test_what_is_adopted_at_once_is_given_at_once() -> None:
    adopted: list[Any] = []
    queue = ChangeQueue(Store(), None, lambda image, changes: adopted.append((image, changes)))
    assert given(queue.submit(lambda image: plan("a", "b"))).changes == ("a", "b")
    assert adopted == [(2, ("a", "b"))]
    assert queue.is_idle


def test_the_next_change_waits_until_the_one_before_is_adopted() -> None:
    waits: list[Later[Any]] = []

    def adopt(image: Any, changes: Any) -> Later[Any]:
        waits.append(Later())
        return waits[-1]

    queue, seen = ChangeQueue(Store(), None, adopt), list[int]()

    def make(image: Any) -> Any:
        seen.append(image)
        return plan("x")

    told: list[Any] = []
    for _ in range(2):
        queue.submit(make).when_given(told.append)
    assert (seen, told, queue.is_idle) == ([0], [], False)
    waits[0].give(None)
    assert (seen, len(told), queue.is_idle) == ([0, 1], 1, False)
    waits[1].give(None)
    assert (len(told), queue.is_idle) == (2, True)


def test_a_change_that_cannot_be_followed_is_an_error_and_the_next_is_made() -> None:
    waits = [Later[Any](), None]
    queue = ChangeQueue(Store(), None, lambda image, changes: waits.pop(0))
    first = waits[0]
    assert first is not None
    failed, next_one = queue.submit(lambda image: plan("x")), queue.submit(lambda image: plan("y"))
    first.give(OSError("no room"))
    assert isinstance(given(failed), KafkaStorageError)
    assert given(next_one).changes == ("y",)


def test_a_plan_that_is_refused_changes_nothing() -> None:
    store = Store()
    queue = ChangeQueue(store, None, lambda image, changes: None)

    def refuse(image: Any) -> Any:
        raise InvalidRequest("no")

    assert isinstance(given(queue.submit(refuse)), InvalidRequest)
    assert store.image == 0


# --- plans that take long ---


class Pending:
    def __init__(self, store: "SlowStore", changes: Any) -> None:
        self.store, self.changes = store, changes

    def write(self) -> None:
        self.store.threads.append(threading.get_ident())


class SlowStore(Store):
    """Writes apart from what it decides, as the one on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def begin(self, changes: Any) -> Pending:
        return Pending(self, changes)

    def finish(self, pending: Pending) -> int:
        return self.commit(pending.changes)


def submitted(*plans: Any) -> tuple[list[Any], list[int], SlowStore]:
    """What a queue with a worker thread gave for plans, and in which threads those apart were made."""

    async def whole() -> tuple[list[Any], list[int], SlowStore]:
        store, made = SlowStore(), list[int]()
        with ThreadPoolExecutor(1) as pool:
            queue = ChangeQueue(store, pool, lambda image, changes: None)
            told: list[Any] = []
            all_told = asyncio.Event()

            def take(given: Any) -> None:
                told.append(given)
                if len(told) == len(plans):
                    all_told.set()

            def make(wanted: Any, image: Any) -> Any:
                made.append(threading.get_ident())
                if isinstance(wanted, Exception):
                    raise wanted
                return plan(*wanted, f"on {image}") if wanted else plan()

            for wanted in plans:
                queue.submit(Apart(partial(make, wanted))).when_given(take)
            await all_told.wait()
            assert queue.is_idle
        return told, made, store

    return asyncio.run(whole())


def test_a_large_plan_is_made_and_written_in_the_worker_thread_one_after_the_other() -> None:
    told, made, store = submitted(("a",), (), ("b",))
    assert [each.changes for each in told] == [("a", "on 0"), (), ("b", "on 2")]
    assert threading.get_ident() not in made + store.threads
    assert store.image == 4


@pytest.mark.parametrize(
    ("wanted", "kind"), [(InvalidRequest("no"), InvalidRequest), (ZeroDivisionError("oops"), KafkaStorageError)]
)
def test_what_stops_a_large_plan_is_told_and_the_next_goes_on(wanted: Exception, kind: type) -> None:
    told, _, store = submitted(wanted, ("b",))
    assert isinstance(told[0], kind)
    assert told[1].changes == ("b", "on 0")
    assert store.image == 2
