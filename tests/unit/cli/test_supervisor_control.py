"""`ottla broker stop N` and `start N`: one broker stays away until it is named again, and the others go on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla.cli.brokers.control import answering, ask
from ottla.cli.brokers.status import SERVING, STOPPED, read_status
from ottla.cli.brokers.supervisor import BrokerPlace, Supervisor
from ottla.cli.output import Failure
from ottla.clock import SystemClock


class FakeChild:
    """A process that serves at once and ends when it is told to."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.starts = 0
        self.pid: int | None = None
        self._over = asyncio.Event()

    async def start(self, *_: str) -> None:
        self.starts += 1
        self.pid = 1000 + self.starts
        self._over = asyncio.Event()

    async def serving(self) -> dict[str, Any]:
        return {
            "broker_id": self.broker_id,
            "bootstrap_servers": f"127.0.0.1:909{self.broker_id}",
            "http": {},
            "ports": {},
            "cluster_id": "c",
        }

    async def ended(self) -> int:
        await self._over.wait()
        return 0

    async def stop(self, limit_s: float) -> bool:
        self._over.set()
        return True

    def kill(self) -> None:
        self._over.set()


def run(directory: Path, story: Callable[[Supervisor], Awaitable[None]]) -> None:
    """The story, told while three brokers are supervised, which are controllers, too."""

    async def tell() -> None:
        places = []
        for number in range(3):
            place = BrokerPlace(str(number), directory / f"{number}.properties", {"listeners": "PLAINTEXT://:0"})
            place.child = FakeChild(number)  # type: ignore[assignment]
            places.append(place)
        supervisor = Supervisor(places, directory, SystemClock(), os.getpid(), voters=3)
        serving, stop = asyncio.Event(), asyncio.Event()
        async with answering(supervisor, directory / "control"), asyncio.timeout(HANG_S):
            running = asyncio.ensure_future(supervisor.run(lambda _: serving.set(), stop))
            await serving.wait()
            await story(supervisor)
            stop.set()
            assert await running == 0

    asyncio.run(tell())


async def until(what: Callable[[], bool]) -> None:
    for _ in iter(what, True):
        await asyncio.sleep(0.001)


def test_a_broker_that_is_stopped_stays_away_until_it_is_started(tmp_path: Path) -> None:
    async def story(supervisor: Supervisor) -> None:
        said = await asyncio.to_thread(ask, tmp_path, "stop", "1")
        assert said == "broker 1 is stopped"
        for _ in range(20):
            await asyncio.sleep(0)
        stopped, other = supervisor.brokers[1], supervisor.brokers[0]
        assert (stopped.status.state, stopped.child.starts) == (STOPPED, 1)  # type: ignore[attr-defined]
        status = read_status(tmp_path)
        assert status is not None
        assert [each.state for each in status.brokers] == [SERVING, STOPPED, SERVING]
        await asyncio.to_thread(ask, tmp_path, "start", "1")
        await until(lambda: stopped.status.state == SERVING)
        assert (stopped.child.starts, other.child.starts) == (2, 1)  # type: ignore[attr-defined]
        other.child.kill()
        await until(lambda: other.child.starts == 2)  # type: ignore[attr-defined]

    run(tmp_path, story)


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    async def story(supervisor: Supervisor) -> None:
        with pytest.raises(Failure, match="there is no broker 7 here; these are: 0, 1, 2"):
            await asyncio.to_thread(ask, tmp_path, "stop", "7")
        assert "was not stopped" in await asyncio.to_thread(ask, tmp_path, "start", "0")
        await asyncio.to_thread(ask, tmp_path, "stop", "0")
        assert "stopped before" in await asyncio.to_thread(ask, tmp_path, "stop", "0")
        with pytest.raises(Failure, match="broker 1 is a controller, and without it there is no majority"):
            await asyncio.to_thread(ask, tmp_path, "stop", "1")

    run(tmp_path, story)
    with pytest.raises(Failure, match="no brokers that were started with --brokers"):
        ask(tmp_path, "stop", "0")
