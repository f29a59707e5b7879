"""A proxy that listens to Kafka clients: forwards every byte, keeps a copy of every frame.

    python record.py --client "java 4.3.1" --raw FILE --forward 41111:41011 [--forward ...] [--lower N] -- COMMAND ...

1. Runs COMMAND, forwards each LISTEN:TARGET port on loopback meanwhile, and appends what passed to FILE when the
   command has ended (or SIGTERM has ended it). One JSON line per frame: client, key, version, kind, client_id, hex.
2. A response is filed under the API and version of the request with its correlation id on that connection. A response
   nobody asked for is an error; an acks=0 Produce simply stays unanswered.
3. `--lower N` takes N off every maximum version in the broker's ApiVersions answer, never below the minimum. The client
   then speaks older versions, and the broker answers them: real frames of every version from one client. From N = 2
   the features are left out too. What is stored is always what the sender sent, never the lowered answer.
4. Frames above FRAME_LIMIT_BYTES are forwarded and not kept, and of each kind only the first FRAMES_LIMIT.
"""

import argparse
import asyncio
import json
import signal
import struct
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

FRAME_LIMIT_BYTES = 4096
FRAMES_LIMIT = 60
NO_TAGS = b"\0"
API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7
SASL_HANDSHAKE = 17  # below its version 1 the tokens come without a header, and nobody could tell them from requests


@dataclass(frozen=True)
class Request:
    key: int
    version: int
    client_id: str | None


class Recording:
    """What was heard so far. Full kinds are dropped, so a client that polls for hours fills no memory."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.lines: list[str] = []
        self.seen: Counter[tuple[Request, str]] = Counter()

    def keep(self, request: Request, kind: str, frame: bytes) -> None:
        if len(frame) > FRAME_LIMIT_BYTES or self.seen[request, kind] >= FRAMES_LIMIT:
            return
        self.seen[request, kind] += 1
        about = {"key": request.key, "version": request.version, "kind": kind, "client_id": request.client_id}
        self.lines.append(json.dumps({"client": self.client, **about, "hex": frame.hex()}))


def read_request(frame: bytes) -> tuple[int, Request]:
    """Correlation id and what is asked. Every header starts alike, but for ControlledShutdown v0 with no client id."""
    key, version, correlation_id = struct.unpack_from(">hhi", frame)
    if key == CONTROLLED_SHUTDOWN and version == 0:
        return correlation_id, Request(key, version, None)
    (length,) = struct.unpack_from(">h", frame, 8)
    client_id = frame[10 : 10 + length].decode() if length >= 0 else None
    return correlation_id, Request(key, version, client_id)


def read_unsigned_varint(frame: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def lower_maximums(frame: bytes, version: int, steps: int) -> bytes:
    """The same ApiVersions response with smaller maximums. Entries are key, min, max, and from v3 empty tags."""
    lowered = bytearray(frame)
    (error,) = struct.unpack_from(">h", frame, 4)
    if error:
        return frame
    if version >= 3:
        count, position = read_unsigned_varint(frame, 6)
        count, size = count - 1, 7
    else:
        (count,), position, size = struct.unpack_from(">i", frame, 6), 10, 6
    for entry in range(position, position + count * size, size):
        key, minimum, maximum = struct.unpack_from(">hhh", frame, entry)
        if key != SASL_HANDSHAKE:
            struct.pack_into(">h", lowered, entry + 4, max(minimum, maximum - steps))
    if version >= 3 and steps > 1:
        # A producer told of transaction.version 2 no longer adds partitions, which Produce below 12 still needs.
        end_of_throttle_time = position + count * size + 4
        return bytes(lowered[:end_of_throttle_time]) + NO_TAGS
    return bytes(lowered)


class Connection:
    """One client connection and its twin to the broker."""

    def __init__(self, recording: Recording, target_port: int, lower: int) -> None:
        self.recording = recording
        self.target_port = target_port
        self.lower = lower
        self.asked: dict[int, Request] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.close()  # the broker is not up yet: the client sees what it would see without us
            return
        pumps = [
            asyncio.create_task(self.pump(reader, up_writer, self.request)),
            asyncio.create_task(self.pump(up_reader, writer, self.response)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, up_writer):
            one.close()
        for failed in (result for result in await asyncio.gather(*pumps, return_exceptions=True) if result):
            if not isinstance(failed, (OSError, asyncio.IncompleteReadError)):
                print("recorder:", repr(failed), file=sys.stderr)

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard) -> None:
        while True:
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            frame = heard(await reader.readexactly(size))
            writer.write(struct.pack(">i", len(frame)) + frame)
            await writer.drain()

    def request(self, frame: bytes) -> bytes:
        correlation_id, request = read_request(frame)
        self.asked[correlation_id] = request
        self.recording.keep(request, "request", frame)
        return frame

    def response(self, frame: bytes) -> bytes:
        request = self.asked.pop(struct.unpack_from(">i", frame)[0])
        self.recording.keep(request, "response", frame)
        if request.key == API_VERSIONS and self.lower:
            return lower_maximums(frame, request.version, self.lower)
        return frame


async def record(recording: Recording, forwards: list[str], lower: int, command: list[str]) -> int:
    servers = []
    for forward in forwards:
        listen, target = map(int, forward.split(":"))

        async def accept(reader, writer, target=target):
            await Connection(recording, target, lower).serve(reader, writer)

        servers.append(await asyncio.start_server(accept, "127.0.0.1", listen))
    process = await asyncio.create_subprocess_exec(*command)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, process.terminate)
    status = await process.wait()
    for server in servers:
        server.close()
    return status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", required=True)
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--forward", action="append", required=True, metavar="LISTEN:TARGET")
    parser.add_argument("--lower", type=int, default=0)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    recording = Recording(options.client)
    status = asyncio.run(record(recording, options.forward, options.lower, options.command))
    with options.raw.open("a") as raw:
        raw.writelines(line + "\n" for line in recording.lines)
    print(f"{options.client}: {len(recording.lines)} frames heard, command ended with {status}")


if __name__ == "__main__":
    main()
