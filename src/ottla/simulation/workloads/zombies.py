"""Clients that are killed and started again, or paused until everybody thinks they are dead.

Drawn from the seed like the faults of brokers, and written into the history like them. Who works for the cluster
(admins) and who judges it (the final reads) is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from ottla.simulation.history import History
from ottla.simulation.workloads.base import Workload

KINDS: Final = ("client-kill", "client-pause")


class ClientFaults:
    """See the module."""

    def __init__(
        self, loads: Sequence[Workload], history: History, random: Random, *, kinds: Sequence[str], pause_s: float
    ) -> None:
        self._loads = loads
        self._history = history
        self._random = random
        self._kinds = kinds
        self._pause_s = pause_s

    async def run(self, duration_s: float) -> None:
        """Make faults for that long, one after the other; then nobody is paused or dead any more."""
        if not self._kinds or not self._loads:
            return
        end_s = asyncio.get_running_loop().time() + duration_s
        while True:
            await asyncio.sleep(self._pause_s * 2 * self._random.random())
            if asyncio.get_running_loop().time() >= end_s:
                return
            await self._one(self._random.choice(self._loads), self._random.choice(self._kinds))

    async def _one(self, load: Workload, kind: str) -> None:
        fault = self._history.invoke("faults", kind, client=load.name)
        away_s = 25.0 * self._random.random() ** 2
        if kind == "client-kill":
            load.crash()
            await asyncio.sleep(away_s)
            load.restart()
        else:
            load.machine.pause()
            await asyncio.sleep(away_s)
            load.machine.resume()
        fault.ok()
