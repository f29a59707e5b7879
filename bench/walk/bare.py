"""The ceilings: servers that do only what nobody can leave out, each in a process of its own.

    python -m bench.walk.bare sink DIRECTORY RECORDS_AT ANSWER_HEX    frames, checks CRC32C, writes, answers (uvloop)
    python -m bench.walk.bare log DIRECTORY BODY_AT [PEM]             does with a batch what a broker must (uvloop)
    python -m bench.walk.bare sendfile FILE SIZE_BYTES                answers every request with that much of the file
    python -m bench.walk.bare source FILE SIZE_BYTES PEM              the same with TLS: reads and writes (uvloop)

A sink with one more argument, a PEM file with key and certificate, speaks TLS. A log reads requests that came together,
checks every record, numbers the batches, writes them at once and says which offsets they have: all with the broker's
own native leaves, and with nothing of what makes a broker of it (topics, indexes, quotas, metrics, other requests).

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
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvloop
from bench.walk.requests import PRODUCE_VERSION, TAGS_BEHIND_RECORDS

from ottla.broker.produce.choice import scan_run, write_run
from ottla.broker.produce.frames import ProduceResult, ProduceResults
from ottla.records import crc32c
from ottla.records.layout import ATTRIBUTES_AT, CRC_AT
from ottla.records.log_walks import place_plain_batch

ROOM_BYTES: Final = 1 << 20
SIZE: Final = struct.Struct(">i")
CRC: Final = struct.Struct(">I")
ENTRIES_LIMIT: Final = 20_000
TERMS: Final = (1 << 20, False, 1 << 62, 1 << 62)  # largest batch, keys required, how old and how new a record may be


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


class Log(Sink):
    """One connection and its file, where every batch has its offset."""

    def __init__(self, directory: Path, body_at: int) -> None:
        super().__init__(directory, body_at, b"")
        self._body_at = body_at
        self._next_offset = 0

    def buffer_updated(self, nbytes: int) -> None:
        room, start, end = self._room, 0, self._end + nbytes
        frames = []
        while end - start >= 4:
            stop = start + 4 + SIZE.unpack_from(room, start)[0]
            if stop > end:
                break
            frames.append(room[start + 4 : stop])
            start = stop
        if frames:
            self._append(frames)
            room[: end - start] = bytes(room[start:end])
        self._end = end - start

    def _append(self, frames: list[memoryview]) -> None:
        buffers: list[memoryview] = []
        answers: list[ProduceResults] = []
        now_ms = time.time_ns() // 1_000_000
        for request in scan_run(PRODUCE_VERSION, ENTRIES_LIMIT, frames, self._body_at):
            [(topic, [(index, records)])] = request.topics
            if records is None or (placed := place_plain_batch(records, self._next_offset, 0, now_ms, *TERMS)) is None:
                raise ValueError("a batch is not plain, or the native leaves are not built")
            buffers.append(records)
            answers.append([(topic, [ProduceResult(index, self._next_offset, log_start_offset=0)])])
            self._next_offset = placed.last_offset + 1
        os.writev(self._file, buffers)
        self._transport.write(write_run(PRODUCE_VERSION, frames, answers))


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
    elif kind == "log":
        directory, body_at, *pem = rest
        uvloop.run(serve(lambda: Log(Path(directory), int(body_at)), pem[0] if pem else None))
    elif kind == "source":
        uvloop.run(serve(lambda: Source(Path(rest[0]), int(rest[1])), rest[2]))
    else:
        sendfile(Path(rest[0]), int(rest[1]))


if __name__ == "__main__":
    main()
