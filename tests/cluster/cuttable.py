"""A TCP proxy before one listener, whose connections can be cut.

    with Cuttable(target_port) as proxy:      # listens on proxy.port, passes everything on to 127.0.0.1:target_port
        proxy.cut()                           # every connection is reset, and new ones are refused
        proxy.heal()

One thread runs all of it; what it holds is what asyncio's streams hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 16
LOOK_EVERY_S = 0.01


class Cuttable:
    """See above. `port` is 0 until it is entered, unless one is given."""

    def __init__(self, target_port: int, port: int = 0) -> None:
        self.target_port = target_port
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cuttable proxy", daemon=True)
        self._writers: dict[asyncio.StreamWriter, None] = {}
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self.heal()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        self._call(self._cut())

    def heal(self) -> None:
        self._call(self._open())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._passed, HOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            for listening in server.sockets:
                self._loop.remove_reader(listening.fileno())
            await asyncio.sleep(LOOK_EVERY_S)  # asyncio loses a connection that it accepts while its server closes
            server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _end(self) -> None:
        """Until nothing is left: a connection may have been accepted a moment ago."""
        me = asyncio.current_task()
        await self._cut()
        while others := asyncio.all_tasks() - {me}:
            await asyncio.wait(others, timeout=LOOK_EVERY_S)
            await self._cut()
        await asyncio.sleep(LOOK_EVERY_S)  # what is aborted is closed in a later turn of the loop

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        self._writers[writer] = None
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self.target_port)
            writers.append(far_writer)
            self._writers[far_writer] = None
            await asyncio.gather(self._copied(reader, far_writer), self._copied(far_reader, writer))
        except OSError:
            pass  # nothing listens there now
        finally:
            for opened in writers:
                opened.transport.abort()
                del self._writers[opened]

    async def _copied(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                writer.write(chunk)
                await writer.drain()
        writer.close()
