"""Clients made, used and closed, many times: prints what the process holds after each part, as JSON lines.

python soak_program.py ADDRESS CYCLES PARTS
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import tracemalloc
from pathlib import Path

import ottla
import ottla.aio
from ottla.testing.plugin import _numbers  # noqa: F401 (loads what tests load, so that it does not count as growth)

RECORDS = 20


def sync_cycle(address: str, number: int) -> None:
    topic = "soak"
    with ottla.Producer(bootstrap_servers=address) as producer:
        futures = [producer.send(topic, b"%d" % index, key=b"k") for index in range(RECORDS)]
        producer.send_many(topic, [b"x"] * RECORDS).result(20)
        assert all(future.result(20).offset >= 0 for future in futures)
    protocol = "consumer" if number % 2 else "classic"
    settings = {"group_id": f"g{number % 7}-{protocol}", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with ottla.Consumer(topic, bootstrap_servers=address, **settings) as consumer:
        found = 0
        for _ in range(40):
            found += len(consumer.poll(0.5))
            if found:
                break
        consumer.commit()
    assert found, f"nothing came in cycle {number}"
    with ottla.Admin(bootstrap_servers=address) as admin:
        admin.describe_cluster()


async def async_cycle(address: str, number: int) -> None:
    async with ottla.aio.Producer(bootstrap_servers=address) as producer:
        await (await producer.send("soak", b"async"))
    async with ottla.aio.Consumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        await consumer.assign([ottla.TopicPartition("soak", 0)])
        assert await consumer.poll(10)


def held() -> dict[str, int]:
    """What this process holds now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "rss_kb": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        "traced_kb": tracemalloc.get_traced_memory()[0] // 1024,
        "threads": threading.active_count(),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "objects": len(gc.get_objects()),
    }


def main() -> None:
    address, cycles, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if "--trace" in sys.argv:
        tracemalloc.start()
    for part in range(parts):
        for number in range(cycles):
            sync_cycle(address, number)
            if number % 5 == 0:
                asyncio.run(async_cycle(address, number))
        print(json.dumps({"part": part, **held()}), flush=True)


if __name__ == "__main__":
    main()
