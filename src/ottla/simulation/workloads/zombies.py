"""Clients that are killed and started again, or paused until everybody thinks they are dead.

1. Faults of clients are plain values like those of brokers (fault.py), drawn from the seed and dropped one by one when
   a failing run is shrunk. `client` is a number from 0 up to 1 that picks one of those that run.
2. Who works for the cluster (admins) and who judges it (the final reads) is left alone.
3. A part of them (`aim`) is for somebody in the middle of something: with records that it has not committed, or in a
   transaction. Such a pause is about as long as it takes to be put out of a group, so that it comes back as a zombie
   with something left to say. Who that is, is asked when it comes; it waits for a while when nobody is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from ottla.simulation.fault import Fault, Parameters
from ottla.simulation.history import History
from ottla.simulation.workloads.base import Workload

CLIENT_KINDS: Final = ("client-kill", "client-pause")
PAUSE_S: Final = 8.0
LONGEST_S: Final = 25.0
AMID: Final = "amid"  # the parameter of a fault that is aimed; how long it waits for somebody, at most
TURNS: Final = 50  # so often does it look for one while it waits


def draw_client_faults(
    random: Random,
    kinds: Sequence[str],
    work_s: float,
    scale: float = 1.0,
    *,
    aim: float = 0.0,
    member_s: float = 6.0,
) -> list[Fault]:
    """One every PAUSE_S on average; with a `scale` of 0.5 twice as often, and each for half as long."""
    faults: list[Fault] = []
    at_s = 0.0
    while kinds:
        at_s += PAUSE_S * scale * 2 * random.random()
        if at_s >= work_s:
            break
        duration_s = round(LONGEST_S * scale * random.random() ** 2, 6)
        parameters: Parameters = (("client", round(random.random(), 6)),)
        kind = random.choice(list(kinds))
        if aim and random.random() < aim:
            parameters = (AMID, round(member_s, 6)), *parameters
            duration_s = round(member_s * random.uniform(0.5, 3.0), 6)
        faults.append(Fault(round(at_s, 6), kind, -1, duration_s, parameters))
    return faults


class ClientFaults:
    """Lets them happen."""

    def __init__(self, loads: Sequence[Workload], history: History, faults: Sequence[Fault]) -> None:
        self._loads = loads
        self._history = history
        self._faults = faults

    async def run(self) -> None:
        """All of them; then nobody is paused or dead any more."""
        await asyncio.gather(*(self._one(fault) for fault in self._faults))

    async def _one(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at_s)
        load = await self._picked(fault)
        happening = self._history.invoke("faults", fault.kind, whom=load.name)
        if fault.kind == "client-kill":
            load.crash()
            await asyncio.sleep(fault.duration_s)
            load.restart()
        elif (process := load.machine.process) is not None:
            process.pause()
            await asyncio.sleep(fault.duration_s)
            self._loads[0].cluster.loop.resume(process)
        happening.ok()

    async def _picked(self, fault: Fault) -> Workload:
        """One of all, or of those that are in the middle of something."""
        wait_s, loads = fault.number(AMID), self._loads
        for _ in range(TURNS if wait_s else 0):
            if amid := [load for load in self._loads if load.is_amid and load.task is not None]:
                loads = amid
                break
            await asyncio.sleep(wait_s / TURNS)
        return loads[int(fault.number("client") * len(loads))]
