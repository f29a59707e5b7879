"""What open pages of the console ask the broker, in a process of its own.

    python -m bench.console.polling '{"port": 9644, "pages": ["overview"], "faster": 1}'

It asks until stdin ends, then prints how often it asked and how long the answers took. `faster` divides all pauses.
PAGES is what static/pages/*.js ask; a browser test compares it with what Chromium sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from typing import Any, Final

OVERVIEW: Final = "/api/overview?after="
PAGES: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "overview": ((2.0, OVERVIEW), (15.0, "/api/findings")),
    "flow": ((1.0, "/api/flow"),),
    "topics": ((5.0, "/api/topics?sort=name&first=0&limit=100"),),
    "groups": ((4.0, "/api/groups?limit=200"),),
    "transactions": ((4.0, "/api/transactions"),),
}
"""By page: how often it asks for what, in seconds. The overview has its rates from the last known time on."""


class Asking:
    """One connection that stays open, as a browser's."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.times_s: list[float] = []

    async def run(self, every_s: float, path: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head, query = f"HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAccept: application/json\r\n\r\n", ""
        if path == OVERVIEW:
            query = "0"
        try:
            while True:
                begun_s = time.perf_counter()
                writer.write(f"GET {path}{query} {head}".encode())
                content = await read_answer(reader)
                self.times_s.append(time.perf_counter() - begun_s)
                if path == OVERVIEW and (known := json.loads(content)["rates"]["at_ms"]):
                    query = str(known[-1])
                await asyncio.sleep(every_s)
        finally:
            writer.close()


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """The body, of a length that is told or in chunks; RuntimeError for anything but 200."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise RuntimeError(head.decode("latin-1"))
    if b"transfer-encoding: chunked" not in head:
        return await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
    content = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        content += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return content


async def poll(task: dict[str, Any]) -> dict[str, Any]:
    faster = task.get("faster", 1)
    asked = [(Asking(task["port"]), every_s / faster, path) for page in task["pages"] for every_s, path in PAGES[page]]
    tasks = [asyncio.create_task(each.run(every_s, path)) for each, every_s, path in asked]
    print(json.dumps({"asking": len(tasks)}), flush=True)
    begun_s = time.perf_counter()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    took_s = time.perf_counter() - begun_s
    for each in tasks:
        each.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    times_s = sorted(one for each, _, _ in asked for one in each.times_s)
    return {"count": len(times_s), "seconds": took_s, "p50_ms": times_s[len(times_s) // 2] * 1e3}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(poll(json.loads(sys.argv[1])))))
