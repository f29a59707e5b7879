"""What goes wrong, and when: drawn from the seed, and always healed again.

1. Each run draws which kinds of faults it has and how often they come (a swarm): runs with few kinds find what runs
   with all of them hide.
2. Every fault is written into the history, with the moment of its beginning and of its end.
3. With `replicated` durability a cluster promises nothing when as many machines lose power together as must have a
   record, so there the next power cut waits until all copies are in sync again. Nothing else waits for anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final

from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.ensemble import HOST as ENSEMBLE
from ottla.simulation.history import History
from ottla.simulation.network import Weather

KINDS: Final = ("kill", "power", "pause", "one-way", "isolate", "reset", "half-open", "slow", "wall-clock")
SLOW: Final = (
    Weather(delay_s=(0.020, 0.200)),
    Weather(bytes_per_s=20_000.0),
    Weather(piece_bytes=61),
)


class Faults:
    """See the module."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        history: History,
        random: Random,
        *,
        kinds: Sequence[str],
        pause_s: float,
        power_may_fail: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._history = history
        self._random = random
        self._kinds = kinds
        self._pause_s = pause_s
        self._power_may_fail = power_may_fail
        self._makers: dict[str, Callable[[int], Awaitable[None]]] = {
            "kill": self._kill,
            "power": self._power,
            "pause": self._pause,
            "one-way": self._one_way,
            "isolate": self._isolate,
            "reset": self._reset,
            "half-open": self._half_open,
            "slow": self._slow,
            "wall-clock": self._wall_clock,
        }

    async def run(self, duration_s: float) -> None:
        """Make faults for that long, then let each come to its end."""
        end_s = self._cluster.loop.time() + duration_s
        running: list[asyncio.Task[None]] = []
        while self._cluster.loop.time() < end_s and self._kinds:
            await asyncio.sleep(self._pause_s * 2 * self._random.random())
            kind = self._random.choice(self._kinds)
            number = self._random.choice(list(self._cluster.seats))
            if kind != "power" or self._power_may_fail():
                running.append(asyncio.ensure_future(self._one(kind, number)))
        for task in running:
            await task
        self._cluster.network.heal()

    async def _one(self, kind: str, number: int) -> None:
        fault = self._history.invoke("faults", kind, broker=number)
        await self._makers[kind](number)
        fault.ok()

    async def _wait(self, longest_s: float) -> None:
        """Mostly short, sometimes long."""
        await asyncio.sleep(longest_s * self._random.random() ** 2)

    async def _kill(self, number: int) -> None:
        self._cluster.kill(number)
        await self._wait(10.0)
        self._cluster.restart(number)

    async def _power(self, number: int) -> None:
        self._cluster.cut_power(number)
        await self._wait(10.0)
        self._cluster.restart(number)

    async def _pause(self, number: int) -> None:
        machine = self._cluster.seats[number].machine
        machine.pause()
        await self._wait(15.0)
        machine.resume()

    def _others(self, number: int) -> list[str]:
        seats = self._cluster.seats
        return [ENSEMBLE, *(seat.machine.host for other, seat in seats.items() if other != number)]

    async def _one_way(self, number: int) -> None:
        """One direction between a broker and one other, which may be the ensemble."""
        host, other = self._cluster.seats[number].machine.host, self._random.choice(self._others(number))
        pair = (host, other) if self._random.random() < 0.5 else (other, host)
        self._cluster.network.partition([pair[0]], [pair[1]])
        await self._wait(15.0)
        self._cluster.network.heal()

    async def _isolate(self, number: int) -> None:
        """A broker and all the others, in both directions; clients still reach it."""
        host, others = self._cluster.seats[number].machine.host, self._others(number)
        self._cluster.network.partition([host], others)
        self._cluster.network.partition(others, [host])
        await self._wait(15.0)
        self._cluster.network.heal()

    async def _reset(self, number: int) -> None:
        self._break(number, half_open=False)

    async def _half_open(self, number: int) -> None:
        self._break(number, half_open=True)

    def _break(self, number: int, *, half_open: bool) -> None:
        host = self._cluster.seats[number].machine.host
        links = [link for link in self._cluster.network.open_links() if link.host == host]
        if links:
            self._cluster.network.reset(self._random.choice(links), half_open=half_open)

    async def _slow(self, number: int) -> None:
        host = self._cluster.seats[number].machine.host
        self._cluster.network.set_weather(host, self._random.choice(SLOW))
        await self._wait(10.0)
        self._cluster.network.set_weather(host, None)

    async def _wall_clock(self, number: int) -> None:
        """Wall time jumps, by seconds up to a day, in either direction, and stays there."""
        clock = self._cluster.seats[number].machine.clock
        clock.jump_wall((self._random.random() - 0.5) * 10.0 ** self._random.randint(3, 8))
