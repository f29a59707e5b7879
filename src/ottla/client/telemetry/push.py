"""Begins to push a client's numbers some time after its start, and ends it with the client.

1. A client that lives for less than FIRST_ASK_MS asks nobody and loads nothing: commands and short scripts pay nothing.
2. Whatever goes wrong is a line in the log and never the client's trouble.
3. A client that pushed says once more how it stands when it ends, within END_LIMIT_MS.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.client.network import NetworkClient
    from ottla.client.settings import ClientSettings
    from ottla.client.telemetry.pushing import Pushing
    from ottla.clock import Timer
    from ottla.metrics import Registry

log = logging.getLogger(__name__)

FIRST_ASK_MS: Final = 5_000.0
END_LIMIT_MS: Final = 1_000.0


class MetricsPush:
    """The numbers in `registry`, pushed by way of `network`; on its loop."""

    def __init__(self, network: NetworkClient, registry: Registry, settings: ClientSettings) -> None:
        self._network = network
        self._registry = registry
        self._settings = settings
        self._timer: Timer | None = None
        self._pushing: Pushing | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._timer is None:
            self._timer = self._network.clock.call_later(FIRST_ASK_MS, self._begin)

    def _begin(self) -> None:
        from ottla.client.telemetry.pushing import Pushing

        self._pushing = Pushing(self._network, self._registry, self._settings)
        self._task = asyncio.get_running_loop().create_task(self._run(self._pushing))

    async def _run(self, pushing: Pushing) -> None:
        try:
            await pushing.run()
        except Exception:
            log.warning("this client's metrics are not pushed any more", exc_info=True)

    async def close(self, limit_ms: float) -> None:
        """The last push, if there was one before."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._pushing is not None and self._pushing.has_pushed:
            with contextlib.suppress(Exception):
                async with self._network.clock.timeout(min(limit_ms, END_LIMIT_MS)):
                    await self._pushing.push(is_last=True)
