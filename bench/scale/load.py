"""The load, in a process of its own: `python -m bench.scale.load '{"kind": "spread", ...}'` prints what it saw as JSON.

spread    requests of one record to every partition of every topic, `passes` times, on 4 connections
fill      batches of 256 KB to one topic until it has `bytes`
scan      reads a topic from its beginning to its end, one connection per partition, 1 MB at a time
groups    one member in each of `groups` groups joins, commits, and sends heartbeats until stdin ends
modern    `members` in `groups` of KIP-848 share out a topic, and send heartbeats until stdin ends
readers   `readers` connections wait at the end of every partition of a topic, and count what comes, until stdin ends

Only canned requests and bare sockets: both brokers get the same bytes, and the load costs little beside them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from typing import Any, Final

import uvloop
from bench.scale import members, modern, reading
from bench.scale.asking import Connection, error_of_produce, open_many
from bench.walk import requests

from ottla.cli.open_files import raise_limit

CONNECTIONS: Final = 4
IN_FLIGHT: Final = 5
FILL_BATCH_BYTES: Final = 262_144
NOT_YET: Final = (3, 5, 6)  # unknown, without a leader, led by somebody else
AGAIN_S: Final = 0.01


async def spread(task: dict[str, Any]) -> dict[str, Any]:
    """Seconds and requests of each pass."""
    work = [
        (topic, requests.produce(0, number, -1, topic))
        for topic, count in task["topics"].items()
        for number in range(count)
    ]
    connections = await open_many(task["port"], CONNECTIONS)
    passes = []
    for _ in range(task["passes"]):
        started = time.perf_counter()
        shares = [work[number::CONNECTIONS] for number in range(CONNECTIONS)]
        await asyncio.gather(*map(_send_all, connections, shares))
        passes.append(time.perf_counter() - started)
        print(json.dumps({"seconds": passes[-1], "requests": len(work)}), flush=True)
    return {}


async def _send_all(connection: Connection, work: list[tuple[str, bytes]]) -> None:
    """Each is sent until it is taken: Kafka says that a topic is made before all of its partitions are led."""
    ready, sent = deque(work), deque[tuple[str, bytes]]()
    while ready or sent:
        while ready and len(sent) < IN_FLIGHT:
            sent.append(ready.popleft())
            connection.send(sent[-1][1])
        topic, frame = sent.popleft()
        error = error_of_produce(await connection.receive(), topic)
        if error in NOT_YET:
            ready.appendleft((topic, frame))
            await asyncio.sleep(AGAIN_S)
        elif error:
            raise SystemExit(f"the broker refused a record for {topic}: error {error}")


async def fill(task: dict[str, Any]) -> dict[str, Any]:
    topic, partitions = task["topic"], task["partitions"]
    connections = await open_many(task["port"], partitions)
    each = max(1, task["bytes"] // FILL_BATCH_BYTES // partitions)
    started = time.perf_counter()
    await asyncio.gather(
        *(
            _send_all(connection, [(topic, requests.produce(FILL_BATCH_BYTES, number, 1, topic))] * each)
            for number, connection in enumerate(connections)
        )
    )
    return {"bytes": each * partitions * FILL_BATCH_BYTES, "seconds": time.perf_counter() - started}


KINDS: Final = {
    "spread": spread,
    "fill": fill,
    "scan": reading.scan,
    "groups": members.groups,
    "modern": modern.modern,
    "readers": reading.readers,
}


def main() -> None:
    raise_limit()
    task = json.loads(sys.argv[1])
    print(json.dumps(uvloop.run(KINDS[task["kind"]](task))), flush=True)


if __name__ == "__main__":
    main()
