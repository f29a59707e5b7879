"""The worker of tables beside brokers: `ottla broker start --tables` runs it, starts it again, stops it before them.

1. It is a process of its own and a client like any other: what it does with a processor, and what ends it, is not the
   broker's. It gets where the brokers are, a file with a login when there is one, and the registry's address.
2. One that ends is started again with growing pauses (restarts.py), and is given up after many ends: the brokers go on,
   and the tables wait until somebody has looked.
3. It stops first, while there is somebody to leave a group with.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.brokers.child import Child
from ottla.cli.brokers.restarts import Restarts
from ottla.cli.output import Failure
from ottla.table_settings import TOPIC

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings
    from ottla.clock import Clock

MEMBER: Final = "ottla.cli.tables.member"
LOCATION: Final = "ottla.table.location"
REGISTRY: Final = "schema registry"
STOP_LIMIT_S: Final = 40.0
LIBRARIES: Final = ("pyarrow", "deltalake", "pyiceberg")

log = logging.getLogger(__name__)


def with_location(settings: BrokerSettings) -> BrokerSettings:
    """Tables need a place: beside the data, unless the settings name one. Failure when their libraries are missing."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise Failure(f"--tables wants {', '.join(missing)}: pip install 'ottla[tables]'")
    if LOCATION in settings.configured_names():
        return settings
    data = settings.data_directories[0].absolute()
    return settings.replaced({LOCATION: f"{data.parent}/{data.name}-tables/{TOPIC}"})


class SupervisedTables:
    """See above; `login` is a file with client settings."""

    def __init__(self, login: Path | None, clock: Clock) -> None:
        self._login = login
        self._clock = clock
        self._restarts = Restarts()
        self._child: Child | None = None
        self._watch: asyncio.Task[None] | None = None

    def start(self, servers: str, registry: str | None, login: Path | None = None) -> None:
        """The brokers serve: begin."""
        words = ["-b", servers]
        file = self._login or login
        if file is not None:
            words += ["--command-config", str(file)]
        if registry is not None:
            words += ["--schema-registry", registry]
        self._child = Child(MEMBER, words)
        self._watch = asyncio.create_task(self._keep(self._child))

    async def _keep(self, child: Child) -> None:
        while True:
            await child.start()
            if await child.serving() is not None:
                log.info("the worker of tables is process %s", child.pid)
            code = await child.ended()
            pause_ms = self._restarts.pause_ms(self._clock.monotonic_ms())
            if pause_ms is None:
                log.error("the worker of tables ended again and again (exit code %d) and is given up", code)
                return
            log.error("the worker of tables ended (exit code %d) and is started again", code)
            await self._clock.sleep(pause_ms)

    async def stop(self) -> None:
        if self._watch is None or self._child is None:
            return
        self._watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watch
        if not await self._child.stop(STOP_LIMIT_S):
            log.warning(
                "the worker of tables did not stop within %g s and was killed; its tables are whole", STOP_LIMIT_S
            )


async def stopped_first(tables: SupervisedTables, asked: asyncio.Event, stop: asyncio.Event) -> None:
    """When a stop is asked for, the tables' worker first."""
    await asked.wait()
    await tables.stop()
    stop.set()


def tables_of(options_tables: str | None, clock: Callable[[], Clock]) -> SupervisedTables | None:
    """The worker that --tables asks for; the option is None without it, and "" without a file."""
    if options_tables is None:
        return None
    file = Path(options_tables) if options_tables else None
    if file is not None and not file.is_file():
        raise Failure(f"--tables {file}: there is no such file of client settings")
    return SupervisedTables(file, clock())
