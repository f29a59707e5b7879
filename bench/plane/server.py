"""The trial as a server: `python -m bench.plane.server MODULE DIRECTORY PARTITIONS THREADS`; its port comes first.

Connections go to the threads in turn. What the threads do not answer comes to `other`: here that is ApiVersions, which
is enough to show that such a request keeps its place among those that never meet Python.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from itertools import count
from pathlib import Path

from bench.plane.build import load
from bench.walk.requests import TOPIC

from ottla.net.framing import frame_prefix
from ottla.protocol.header import API_VERSIONS_KEY, encode_response
from ottla.protocol.messages.api_versions import ApiVersionsResponse

BACKLOG = 64


def other(_connection: int, frame: bytes) -> bytes:
    key, version, number = struct.unpack_from(">hhi", frame)
    if key != API_VERSIONS_KEY:
        raise ValueError(f"the trial answers no API {key}")
    parts = encode_response(ApiVersionsResponse(error_code=0, api_keys=[]), version=version, correlation_id=number)
    return b"".join((frame_prefix(parts), *parts))


def serve(module: Path, directory: Path, partitions: int, threads: int) -> None:
    reactor = load(module)
    files = [
        os.open(directory / f"{index}.log", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644) for index in range(partitions)
    ]
    plane = reactor.Plane(TOPIC, files, other)
    pollers = [reactor.new_poller() for _ in range(threads)]
    for poller in pollers:
        threading.Thread(target=plane.run, args=(poller,), daemon=True).start()
    listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    print(listening.getsockname()[1], flush=True)
    for number in count():
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        reactor.add_connection(pollers[number % threads], connection.detach(), number)


def _end_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    module, directory, partitions, threads = sys.argv[1:]
    serve(Path(module), Path(directory), int(partitions), int(threads))


if __name__ == "__main__":
    main()
