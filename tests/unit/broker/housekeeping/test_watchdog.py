"""What must live is watched: it is started again, or the broker is not ready and stops in order."""

from __future__ import annotations

import asyncio
import http.client
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla.broker.housekeeping.watchdog import RESTART_MS, RESTARTS_LIMIT, PartEnded, Watchdog, dead_workers
from ottla.errors import OttlaError
from ottla.testing.broker import KafkaBroker
from ottla.testing.clock import ManualClock


def reason(watchdog: Watchdog) -> str | None:
    return watchdog.not_ready_because


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_task_that_fails_is_started_again_and_until_then_the_broker_is_not_ready(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        clock, failures = ManualClock(), list[OttlaError]()
        watchdog = Watchdog(clock, failures.append)
        starts = 0

        async def compact() -> None:
            nonlocal starts
            starts += 1
            if starts == 1:
                raise ValueError("a bug")
            await asyncio.get_running_loop().create_future()

        task = watchdog.keep_running("compaction", compact)
        await turns()
        assert reason(watchdog) == "compaction ended: ValueError('a bug')"
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        await clock.advance(RESTART_MS)
        assert (starts, failures) == (2, [])
        assert reason(watchdog) is None
        task().cancel()
        await turns()
        assert reason(watchdog) is None, "whoever cancels it wants it to end"

    asyncio.run(story())


def test_a_task_that_ends_again_and_again_stops_the_broker() -> None:
    async def story() -> None:
        clock, failures = ManualClock(), list[OttlaError]()
        watchdog = Watchdog(clock, failures.append)

        async def compact() -> None:
            raise ValueError("a bug")

        watchdog.keep_running("compaction", compact)
        for number in range(RESTARTS_LIMIT):
            assert not failures, number
            await turns()
            await clock.advance(RESTART_MS)
        (failure,) = failures
        assert isinstance(failure, PartEnded)
        assert "compaction ended: ValueError('a bug')" in str(watchdog.not_ready_because)

    asyncio.run(story())


def test_a_thread_that_is_dead_stops_the_broker_once(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[OttlaError] = []
    watchdog = Watchdog(ManualClock(), failures.append)
    dead: list[str] = []
    watchdog.watch_threads(lambda: dead)
    watchdog.check()
    assert watchdog.not_ready_because is None
    dead.append("kazoo's thread")
    watchdog.check()
    watchdog.check()
    assert len(failures) == 1
    assert "kazoo's thread ended and cannot be started again" in str(watchdog.not_ready_because)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_workers_of_a_pool_are_known_when_they_are_dead() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="ottla-disk") as pool:
        pool.submit(int).result()
        assert dead_workers(pool) == []
    assert len(dead_workers(pool)) == 1
    assert dead_workers(None) == []


def test_threads_of_a_session_are_known_when_they_are_dead() -> None:
    session_module = pytest.importorskip("ottla.cluster.store.zookeeper.session")
    ended = threading.Thread(target=int, name="zk_loop")
    ended.start()
    ended.join()
    client: Any = SimpleNamespace(
        _connection=SimpleNamespace(_connection_routine=ended), handler=SimpleNamespace(_workers=[])
    )
    session = SimpleNamespace(_closed=False, _client=client)
    assert session_module.Session.dead_threads(session) == ("kazoo's thread zk_loop",)
    client._connection._connection_routine = threading.current_thread()
    assert session_module.Session.dead_threads(session) == ()
    client._connection._connection_routine = ended
    session._closed = True
    assert session_module.Session.dead_threads(session) == (), "a session that was closed has no threads"


def test_the_names_that_are_asked_of_kazoo_are_there() -> None:
    client_module = pytest.importorskip("kazoo.client")
    client = client_module.KazooClient()
    assert hasattr(client._connection, "_connection_routine")
    assert hasattr(client.handler, "_workers")


def test_a_broker_whose_thread_is_dead_is_not_ready_and_is_to_be_stopped() -> None:
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        address = broker.call(lambda server: server.admin_address)
        assert address is not None
        host, port = address

        def status() -> int:
            connection = http.client.HTTPConnection(host, port, timeout=HANG_S)
            connection.request("GET", "/health/ready")
            answer = connection.getresponse()
            said.append(answer.read().decode())
            connection.close()
            return answer.status

        said: list[str] = []
        assert status() == 200
        broker.call(lambda server: server.broker.watchdog.watch_threads(lambda: ["kazoo's thread zk_loop"]))
        broker.call(lambda server: server.broker.watchdog.check())
        assert broker.call(lambda server: server.failed.is_set())
        assert isinstance(broker.call(lambda server: server.failure), PartEnded)
        assert status() == 503
        assert "kazoo's thread zk_loop ended" in said[-1]
