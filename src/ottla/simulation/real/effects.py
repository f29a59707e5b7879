"""Faults happen to a real cluster: each at its moment, each undone after its time, and all undone at the end.

1. What happens is the list (drawing.py); nothing is drawn here. What can only be chosen when it happens (one of the
   connections that are open then) is a number from 0 up to 1 in the fault.
2. Every fault stands in the timeline and in the history, with the moments of its beginning and of its end.
3. `run` returns when the last one has been undone. When it is cancelled, processes and proxies are ended anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ottla.simulation.fault import Fault
from ottla.simulation.history import History
from ottla.simulation.real.processes import Processes
from ottla.simulation.real.proxy import ProxiedLink, Proxy
from ottla.simulation.real.weather import CLIENTS, WEATHERS, Pair, Passing, broker_name
from ottla.simulation.timeline import Timeline


class RealFaults:
    """See the module."""

    def __init__(
        self,
        processes: Processes,
        proxies: Sequence[tuple[Proxy, Proxy]],
        passing: Passing,
        notify: Callable[[], None],
        history: History,
        timeline: Timeline,
    ) -> None:
        """`notify` is called when bytes may pass that might not before."""
        self._processes = processes
        self._proxies = proxies
        self._passing = passing
        self._notify = notify
        self._history = history
        self._timeline = timeline

    async def run(self, faults: Sequence[Fault]) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        async with asyncio.TaskGroup() as group:
            for fault in sorted(faults, key=lambda each: each.at_s):
                await asyncio.sleep(max(0.0, began_s + fault.at_s - loop.time()))
                group.create_task(self._one(fault))

    async def _one(self, fault: Fault) -> None:
        node = broker_name(fault.broker)
        self._timeline.add(node, "fault", str(fault))
        happening = self._history.invoke("faults", fault.kind, broker=fault.broker, **fault.named)
        await EFFECTS[fault.kind](self, fault)
        happening.ok()
        self._timeline.add(node, "undone", str(fault))

    # --- processes ---

    async def kill(self, fault: Fault) -> None:
        await self._processes.kill(fault.broker)
        await asyncio.sleep(fault.duration_s)
        await self._processes.start_broker(fault.broker)

    async def stop(self, fault: Fault) -> None:
        await self._processes.terminate(fault.broker)
        await asyncio.sleep(fault.duration_s)
        await self._processes.start_broker(fault.broker)

    async def pause(self, fault: Fault) -> None:
        self._processes.pause(fault.broker)
        await asyncio.sleep(fault.duration_s)
        self._processes.resume(fault.broker)

    # --- the network of a broker ---

    async def isolate(self, fault: Fault) -> None:
        pairs = self._pairs(fault)
        await self._blocked(pairs + [(other, one) for one, other in pairs], fault.duration_s)

    async def cut_one_way(self, fault: Fault) -> None:
        pairs = self._pairs(fault)
        if fault.named["is_incoming"]:
            pairs = [(other, one) for one, other in pairs]
        await self._blocked(pairs, fault.duration_s)

    def _pairs(self, fault: Fault) -> list[Pair]:
        """From the broker to all that it is to be cut off from."""
        name, side = broker_name(fault.broker), fault.named["from"]
        others = [broker_name(each) for each in range(len(self._proxies)) if each != fault.broker]
        chosen = ([] if side == "brokers" else [CLIENTS]) + ([] if side == "clients" else others)
        return [(name, other) for other in chosen]

    async def _blocked(self, pairs: Sequence[Pair], duration_s: float) -> None:
        self._passing.block(pairs)
        await asyncio.sleep(duration_s)
        self._passing.unblock(pairs)
        self._notify()

    async def slow(self, fault: Fault) -> None:
        name = broker_name(fault.broker)
        self._passing.set_weather(name, WEATHERS[str(fault.named["weather"])])
        await asyncio.sleep(fault.duration_s)
        self._passing.set_weather(name, None)

    # --- one connection ---

    async def reset(self, fault: Fault) -> None:
        if (link := self._picked(fault)) is not None:
            link.reset_now()

    async def lose_one_end(self, fault: Fault) -> None:
        if (link := self._picked(fault)) is not None:
            link.lose_one_end(fault.named["is_incoming"])

    async def hold(self, fault: Fault) -> None:
        if (link := self._picked(fault)) is not None:
            direction = link.direction(fault.named["is_incoming"])
            direction.is_held = True
            await asyncio.sleep(fault.duration_s)
            direction.is_held = False
            self._notify()

    async def cut(self, fault: Fault) -> None:
        """After so many more bytes, if they come while the fault lasts."""
        if (link := self._picked(fault)) is not None:
            direction = link.direction(fault.named["is_incoming"])
            direction.cut_after_bytes = 1 + int(fault.number("after_bytes"))
            await asyncio.sleep(fault.duration_s)
            direction.cut_after_bytes = None

    def _picked(self, fault: Fault) -> ProxiedLink | None:
        """A connection of the broker's clients or peers, in the order in which they came."""
        links = [link for proxy in self._proxies[fault.broker] for link in proxy.links]
        return links[int(fault.number("pick") * len(links))] if links else None


EFFECTS: Final[dict[str, Callable[[RealFaults, Fault], Awaitable[None]]]] = {
    "kill": RealFaults.kill,
    "restart": RealFaults.kill,
    "stop": RealFaults.stop,
    "pause": RealFaults.pause,
    "isolate": RealFaults.isolate,
    "one-way": RealFaults.cut_one_way,
    "slow": RealFaults.slow,
    "cut": RealFaults.cut,
    "reset": RealFaults.reset,
    "half-open": RealFaults.lose_one_end,
    "hold": RealFaults.hold,
}
