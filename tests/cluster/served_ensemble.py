"""A keeper of the truth on a thread of this process, its socket, and the members that reach it there."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.patience import HANG_S

from ottla.clock import SystemClock
from ottla.cluster.changes import Change
from ottla.cluster.store.served.kept import KeptTruth
from ottla.cluster.store.served.kept_log import KeeperStore
from ottla.cluster.store.served.server import StoreServer
from ottla.cluster.store.served.store import ServedStore, open_served_store
from ottla.cluster.store.shared import take_in
from ottla.storage.files import DiskFiles

T = TypeVar("T")


class ServedEnsemble:
    """`with ServedEnsemble(directory, cluster_id) as ensemble: ensemble.join()`."""

    def __init__(self, directory: Path, cluster_id: str, *, grace_ms: float = 60_000.0) -> None:
        self._directory = directory
        self._cluster_id = cluster_id
        self._grace_ms = grace_ms
        self._short = tempfile.TemporaryDirectory(prefix="ottla-")  # a socket's path is short
        self.path = Path(self._short.name) / "socket"
        self.session_timeout_ms = 18_000.0
        self.stores: list[ServedStore] = []
        self.server: StoreServer

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for store in self.stores:
            store.close()
        self.stop()
        self._short.cleanup()

    # --- the keeper ---

    def start(self) -> None:
        self._directory.mkdir(exist_ok=True, parents=True)
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(ready)), daemon=True)
        self._thread.start()
        ready.result(HANG_S)

    async def _run(self, ready: Future[None]) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        kept = KeeperStore(self._directory, self._cluster_id, files=DiskFiles(), apply_all=take_in)
        truth = KeptTruth(kept, session_timeout_ms=self.session_timeout_ms)
        self.server = StoreServer(truth, self.path, SystemClock(), grace_ms=self._grace_ms)
        await self.server.start()
        ready.set_result(None)
        await self._end.wait()
        if not self._is_killed:
            await self.server.stop()
        else:
            self.server.truth._store.close()  # nothing that the end of a connection means is written any more
            await self.server.stop()
        kept.close()

    _is_killed = False

    def stop(self) -> None:
        self._is_killed = False
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(HANG_S)

    def kill(self) -> None:
        """As kill -9: what it knows is what the disk has."""
        self._is_killed = True
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(HANG_S)

    def call(self, function: Callable[[], T]) -> T:
        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(HANG_S)

    # --- what the tests of shared stores do ---

    def join(self) -> ServedStore:
        store = open_served_store(self.path, HANG_S)
        self.stores.append(store)
        return store

    def expire(self, member: Any) -> None:
        number = self.stores.index(member)
        sessions = list(self.server.truth.seats)
        self.call(lambda: sessions[number].abort("a test"))  # type: ignore[attr-defined]

    def depose(self) -> None:
        self.call(lambda: self.server.truth.depose())

    def change(self, changes: Sequence[Change]) -> None:
        self.call(lambda: self.server.truth.change(changes))
