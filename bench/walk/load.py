"""The load, in a process of its own: `python -m bench.walk.load '{"kind": "produce", ...}'` prints what it saw as JSON.

produce   connections that each keep `in_flight` canned requests on their way; counts answers per connection
fetch     one connection, one request at a time, as big as asked; counts bytes
pace      one request every `1 / rate` seconds; times of the answers. A request that had to wait because the one before
          was late counts from the moment it was due.
idle      opens connections, makes one request on each, and holds them until stdin ends

With `idempotent` each connection of `produce` is a producer with an id, and numbers what it sends. With `ca`, a file,
connections speak TLS; with `ports`, the leader of each partition is at its own. `warm_s` comes before `seconds` and is
not counted.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import sys
import time
from typing import Any, Final

import uvloop
from bench.walk import requests

RECEIVE_BYTES: Final = 1 << 16
OPENING_AT_ONCE: Final = 100


class Producer(asyncio.BufferedProtocol):
    """Sends the same request whenever an answer has come; one that is idempotent gives each a number of its own."""

    def __init__(self, request: bytes, in_flight: int, idempotent: requests.Numbered | None = None) -> None:
        self._request = request
        self._idempotent = idempotent
        self._in_flight = in_flight
        self._room = memoryview(bytearray(RECEIVE_BYTES))
        self._answer_bytes = 0
        self._bytes = 0
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(1 << 30)

    def start(self) -> None:
        self._send(self._in_flight)

    def _send(self, count: int) -> None:
        for _ in range(count):
            self._transport.write(self._request if self._idempotent is None else self._idempotent.next_request())

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            raise exc

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        if not self._answer_bytes:
            self._answer_bytes = struct.unpack_from(">i", self._room)[0] + 4
            self._check(bytes(self._room[4 : self._answer_bytes]))
        self._bytes += nbytes
        new = self._bytes // self._answer_bytes - self.answers
        self.answers += new
        self._send(new)

    @staticmethod
    def _check(answer: bytes) -> None:
        # An error has a message, so its answer is longer than that of the bare server; sizes never change after it.
        if len(answer) + 4 != len(requests.produce_answer()):
            raise SystemExit(f"the broker refused: {answer!r}")


async def produce(task: dict[str, Any]) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    producers = []
    for number in range(task["connections"]):
        partition = number % task["partitions"]
        request = requests.produce(task["batch_bytes"], partition, task["acks"])
        port = task["ports"][partition] if "ports" in task else task["port"]
        numbered = requests.Numbered(request, task["batch_bytes"], number) if task.get("idempotent") else None
        _, producer = await loop.create_connection(
            lambda request=request, numbered=numbered: Producer(request, task["in_flight"], numbered),
            "127.0.0.1",
            port,
            ssl=tls_of(task),
        )
        producers.append(producer)
    for producer in producers:
        producer.start()
    await asyncio.sleep(task["warm_s"])
    before, started = [one.answers for one in producers], time.perf_counter()
    await asyncio.sleep(task["seconds"])
    took = time.perf_counter() - started
    answers = [one.answers - earlier for one, earlier in zip(producers, before, strict=True)]
    return {"answers": answers, "seconds": took, "bytes": sum(answers) * task["batch_bytes"]}


def tls_of(task: dict[str, Any]) -> ssl.SSLContext | None:
    """For a server whose certificate comes from the authority in task["ca"]; None without one."""
    return ssl.create_default_context(cafile=task["ca"]) if "ca" in task else None


def fetch(task: dict[str, Any]) -> dict[str, Any]:
    connection = socket.create_connection(("127.0.0.1", task["port"]))
    if (tls := tls_of(task)) is not None:
        connection = tls.wrap_socket(connection, server_hostname="127.0.0.1")
    request = requests.fetch(task["fetch_bytes"], task["partition"])
    room = memoryview(bytearray(task["fetch_bytes"] * 2))
    counted = 0
    first_s = time.perf_counter()
    started = end = None
    while end is None or time.perf_counter() < end:
        connection.sendall(request)
        got = 0
        while got < 4:
            got += connection.recv_into(room[got:], 4 - got)
        size = struct.unpack_from(">i", room)[0]
        got = 0
        while got < size:
            got += connection.recv_into(room[got:], size - got)
        if size < task["fetch_bytes"] // 2:
            raise SystemExit(f"a fetch gave {size} bytes: {bytes(room[:200])!r}")
        if started is None:
            if time.perf_counter() - first_s < task["warm_s"]:
                continue
            started = time.perf_counter()
            end = started + task["seconds"]
        else:
            counted += size
    return {"bytes": counted, "seconds": time.perf_counter() - (started or 0)}


def pace(task: dict[str, Any]) -> dict[str, Any]:
    connection = socket.create_connection(("127.0.0.1", task["port"]))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = requests.produce(task["batch_bytes"], 0, task["acks"])
    answer_bytes = len(requests.produce_answer())
    warm, count = int(task["warm_s"] * task["rate"]), int(task["seconds"] * task["rate"])
    times_s = []
    due = time.perf_counter()
    for number in range(warm + count):
        due += 1 / task["rate"]
        wait_s = due - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        begun = time.perf_counter() if wait_s > 0 else due
        connection.sendall(request)
        if len(connection.recv(answer_bytes, socket.MSG_WAITALL)) != answer_bytes:
            raise SystemExit("the connection was closed")
        if number >= warm:
            times_s.append(time.perf_counter() - begun)
    return {"times_s": times_s}


async def idle(task: dict[str, Any]) -> dict[str, Any]:
    request = requests.api_versions()

    async def one() -> Any:
        reader, writer = await asyncio.open_connection("127.0.0.1", task["port"])
        writer.write(request)
        await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
        return writer

    opened = []
    while missing := task["connections"] - len(opened):
        opened += await asyncio.gather(*(one() for _ in range(min(missing, OPENING_AT_ONCE))))
    print(json.dumps({"open": len(opened)}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    return {}


def main() -> None:
    task = json.loads(sys.argv[1])
    kind = task["kind"]
    if kind in ("fetch", "pace"):
        seen = {"fetch": fetch, "pace": pace}[kind](task)
    else:
        seen = uvloop.run({"produce": produce, "idle": idle}[kind](task))
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
