"""The ceilings: servers that do only what nobody can leave out, each in a process of its own.

    python -m bench.walk.bare sink DIRECTORY RECORDS_AT ANSWER_HEX    frames, checks CRC32C, writes, answers (uvloop)
    python -m bench.walk.bare sendfile FILE SIZE_BYTES                answers every request with that much of the file
    python -m bench.walk.bare source FILE SIZE_BYTES PEM              the same with TLS: reads and writes (uvloop)

A sink with one more argument, a PEM file with key and certificate, speaks TLS.

The port stands on the first line of stdout. Both end with their parent, when stdin ends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvloop
from bench.walk.requests import TAGS_BEHIND_RECORDS

from ottla.records import crc32c
from ottla.records.layout import ATTRIBUTES_AT, CRC_AT

ROOM_BYTES: Final = 1 << 20
SIZE: Final = struct.Struct(">i")
CRC: Final = struct.Struct(">I")


class Sink(asyncio.BufferedProtocol):
    """One connection and its file."""

    numbers = 0

    def __init__(self, directory: Path, records_at: int, answer: bytes) -> None:
        Sink.numbers += 1
        self._file = os.open(directory / f"{Sink.numbers}.log", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._records_at = records_at
        self._answer = answer
        self._room = memoryview(bytearray(ROOM_BYTES))
        self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        os.close(self._file)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        room, start, end = self._room, 0, self._end + nbytes
        answers = 0
        while end - start >= 4:
            stop = start + 4 + SIZE.unpack_from(room, start)[0]
            if stop > end:
                break
            records = room[start + 4 + self._records_at : stop - TAGS_BEHIND_RECORDS]
            if crc32c(records[ATTRIBUTES_AT:]) != CRC.unpack_from(records, CRC_AT)[0]:
                raise ValueError("a batch arrived damaged")
            os.write(self._file, records)
            answers += 1
            start = stop
        if start:
            room[: end - start] = bytes(room[start:end])
        self._end = end - start
        if answers:
            self._transport.write(self._answer * answers)


class Source(asyncio.Protocol):
    """Answers every request with the same part of a file."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._size_bytes = size_bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        os.close(self._file)

    def data_received(self, data: bytes) -> None:
        self._transport.writelines([SIZE.pack(self._size_bytes), os.pread(self._file, self._size_bytes, 0)])


async def serve(make: Callable[[], asyncio.BaseProtocol], pem: str | None) -> None:
    tls = None
    if pem is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pem)
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


def sendfile(path: Path, size_bytes: int) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=_send_again_and_again, args=(connection, path, size_bytes), daemon=True).start()


def _send_again_and_again(connection: socket.socket, path: Path, size_bytes: int) -> None:
    with connection, path.open("rb") as file:
        while connection.recv(65_536):
            connection.sendall(SIZE.pack(size_bytes))
            sent = 0
            while sent < size_bytes:
                sent += os.sendfile(connection.fileno(), file.fileno(), sent, size_bytes - sent)


def _end_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    kind, *rest = sys.argv[1:]
    if kind == "sink":
        directory, records_at, answer, *pem = rest
        uvloop.run(
            serve(lambda: Sink(Path(directory), int(records_at), bytes.fromhex(answer)), pem[0] if pem else None)
        )
    elif kind == "source":
        uvloop.run(serve(lambda: Source(Path(rest[0]), int(rest[1])), rest[2]))
    else:
        sendfile(Path(rest[0]), int(rest[1]))


if __name__ == "__main__":
    main()
