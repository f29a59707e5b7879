"""Faults happen: each at its moment, each undone again after its time.

    await Faults(cluster, history, faults, power_may_fail=lambda: True).run(30.0)

1. What happens is the list (fault.py); nothing is drawn here.
2. Every fault is written into the history and the timeline, with the moment of its beginning and of its end.
3. With `replicated` durability a cluster promises nothing when as many machines lose power together as must have a
   record, so there a power cut is skipped unless all copies are in sync. Nothing else depends on what goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.ensemble import HOST
from ottla.simulation.fault import ENSEMBLE, KINDS, Fault
from ottla.simulation.history import History
from ottla.simulation.network import Weather

__all__ = ["KINDS", "Faults"]

SLOW: Final = {
    "delayed": Weather(delay_s=(0.020, 0.200)),
    "narrow": Weather(bytes_per_s=20_000.0),
    "pieces": Weather(piece_bytes=61),
}


class Faults:
    """See the module."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        history: History,
        faults: Sequence[Fault],
        *,
        power_may_fail: Callable[[], bool] = lambda: True,
    ) -> None:
        self._cluster = cluster
        self._history = history
        self._faults = sorted(faults, key=lambda fault: fault.at_s)
        self._power_may_fail = power_may_fail
        self._makers: dict[str, Callable[[Fault], Awaitable[None]]] = {
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
        """Let them happen, for that long at least, and let each come to its end."""
        began_s = self._cluster.loop.time()
        running: list[asyncio.Task[None]] = []
        for fault in self._faults:
            await self._sleep_until(began_s + fault.at_s)
            running.append(asyncio.ensure_future(self._one(fault)))
        await self._sleep_until(began_s + duration_s)
        for task in running:
            await task

    async def _sleep_until(self, when_s: float) -> None:
        await asyncio.sleep(max(0.0, when_s - self._cluster.loop.time()))

    async def _one(self, fault: Fault) -> None:
        timeline, node = self._cluster.timeline, f"broker {fault.broker}"
        if fault.kind == "power" and not self._power_may_fail():
            timeline.add(node, "no fault", f"{fault}: not all copies are in sync")
            return
        timeline.add(node, "fault", str(fault))
        happening = self._history.invoke("faults", fault.kind, broker=fault.broker, **fault.named)
        await self._makers[fault.kind](fault)
        happening.ok()
        if fault.duration_s:
            timeline.add(node, "undone", str(fault))

    async def _kill(self, fault: Fault) -> None:
        self._cluster.kill(fault.broker)
        await asyncio.sleep(fault.duration_s)
        self._cluster.restart(fault.broker)

    async def _power(self, fault: Fault) -> None:
        self._cluster.cut_power(fault.broker)
        await asyncio.sleep(fault.duration_s)
        self._cluster.restart(fault.broker)

    async def _pause(self, fault: Fault) -> None:
        process = self._cluster.seats[fault.broker].machine.process
        if process is not None:
            process.pause()
            await asyncio.sleep(fault.duration_s)
            self._cluster.loop.resume(process)

    def _host(self, number: int) -> str:
        return HOST if number == ENSEMBLE else self._cluster.seats[number].machine.host

    async def _one_way(self, fault: Fault) -> None:
        pair = self._host(fault.broker), self._host(int(fault.number("other", ENSEMBLE)))
        sender, receiver = reversed(pair) if fault.named.get("is_incoming") else pair
        await self._cut((sender,), (receiver,), fault.duration_s)

    async def _isolate(self, fault: Fault) -> None:
        """A broker and all the others, in both directions; clients still reach it."""
        host = self._host(fault.broker)
        others = [HOST, *(self._host(number) for number in self._cluster.seats if number != fault.broker)]
        await self._cut((host, *others), (host, *others), fault.duration_s, only=host)

    async def _cut(
        self, senders: Sequence[str], receivers: Sequence[str], duration_s: float, only: str | None = None
    ) -> None:
        pairs = [(one, other) for one in senders for other in receivers if only in (None, one, other)]
        self._cluster.network.block(pairs)
        await asyncio.sleep(duration_s)
        self._cluster.network.unblock(pairs)

    async def _reset(self, fault: Fault) -> None:
        self._break(fault, half_open=False)

    async def _half_open(self, fault: Fault) -> None:
        self._break(fault, half_open=True)

    def _break(self, fault: Fault, *, half_open: bool) -> None:
        host = self._host(fault.broker)
        links = [link for link in self._cluster.network.open_links() if link.host == host]
        if links:
            link = links[int(fault.number("pick") * len(links))]
            self._cluster.network.reset(link, half_open=half_open)

    async def _slow(self, fault: Fault) -> None:
        host = self._host(fault.broker)
        self._cluster.network.set_weather(host, SLOW[str(fault.named["weather"])])
        await asyncio.sleep(fault.duration_s)
        self._cluster.network.set_weather(host, None)

    async def _wall_clock(self, fault: Fault) -> None:
        """Wall time jumps, and stays there."""
        self._cluster.seats[fault.broker].machine.clock.jump_wall(fault.number("jump_ms"))
