"""One connection to a fake node: frames in, bent answers out, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ottla.clock import Clock
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.net.framing import Buffer, frame_prefix
from ottla.net.link import Link
from ottla.protocol.api import APIS
from ottla.protocol.header import RequestHeader, decode_request, encode_response
from ottla.protocol.schema import Message
from ottla.testing.fake.rules import Asked, Rule

log = logging.getLogger(__name__)

QUEUE_LIMIT: Final = 64
LOOK_AGAIN_MS: Final = 5.0
GARBAGE: Final = b"\x00\x00\x00\x20" + bytes(range(200, 232))
OVERSIZED: Final = struct.pack(">i", 0x7FFF_FFFF) + b"x" * 64
HUGE: Final = b"\xff\xff\xff\xff\x0f" * 8  # the largest compact count, and a large plain one


@dataclass(slots=True)
class Pace:
    """How slowly a node reads and writes."""

    before_ms: float = 0.0
    piece_bytes: int = 0
    between_ms: float = 0.0


class House(Protocol):
    """What a connection needs of the fake: who answers, and the weather."""

    clock: Clock
    pace: Pace
    troubles: list[Exception]

    def begin(self, node: int, api: str, header: RequestHeader, message: Message) -> Asked: ...
    def respond(self, asked: Asked, *, waited_ms: float) -> Message | None:
        """None with a Fetch that would rather wait, or when nobody wants an answer."""

    def is_open(self, node: int) -> bool: ...
    def is_patient(self, asked: Asked, waited_ms: float) -> bool: ...


class FakeDoor:
    """The node's end of one connection."""

    def __init__(self, house: House, node: int, left: Callable[[FakeDoor], None]) -> None:
        self._house = house
        self._node = node
        self._left = left
        self._frames: deque[bytes] = deque()
        self._came = asyncio.Event()
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None

    # --- what the link tells ---

    def opened(self, link: Link) -> None:
        self._link = link
        if not self._house.is_open(self._node):
            link.abort()  # it was accepted while the door was being shut
            return
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def frame_received(self, frame: memoryview) -> None:
        self._frames.append(bytes(frame))
        self._came.set()
        if len(self._frames) == QUEUE_LIMIT and self._link is not None:
            self._link.pause_reading()

    def writable_changed(self, writable: bool) -> None:
        """Answers are small, and a client that does not read them is the client's test."""

    def closed(self, error: OttlaError | None) -> None:
        self._link = None
        if self._task is not None:
            self._task.cancel()
        self._left(self)

    def break_off(self) -> None:
        if self._link is not None:
            self._link.abort()

    async def done(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    # --- one request after the other ---

    async def _serve(self) -> None:
        while True:
            while not self._frames:
                self._came.clear()
                await self._came.wait()
            frame = self._frames.popleft()
            if len(self._frames) == QUEUE_LIMIT // 2 and self._link is not None:
                self._link.resume_reading()
            try:
                goes_on = await self._deal_with(frame)
            except Exception as error:  # the fake's own mistake, or a function of the test: it must be seen
                self._house.troubles.append(error)
                log.exception("the fake could not answer")
                goes_on = self._end(True)
            if not goes_on:
                return

    async def _deal_with(self, frame: bytes) -> bool:
        """Whether the connection goes on."""
        if self._house.pace.before_ms:
            await self._house.clock.sleep(self._house.pace.before_ms)
        header, message = decode_request(frame)
        api = APIS[header.request_api_key].name
        asked = self._house.begin(self._node, api, header, message)
        hang_up, mute = asked.bends.get("hang up"), asked.bends.get("mute")
        if (hang_up is not None and hang_up.value == "before") or (mute is not None and not mute.although_done):
            return self._end(hang_up is not None)
        response = await self._response(asked)
        if (delay := asked.bends.get("delay")) is not None:
            await self._house.clock.sleep(delay.value)
        if mute is not None or (hang_up is not None and hang_up.value == "instead"):
            return self._end(hang_up is not None)
        if response is not None:
            await self._answer(asked, header, response, hang_up)
        return self._end(True) if hang_up is not None else True

    def _end(self, close: bool) -> bool:
        if close and self._link is not None:
            self._link.close()
        return False

    async def _response(self, asked: Asked) -> Message | None:
        began_ms = self._house.clock.monotonic_ms()
        waited_ms = 0.0
        while True:
            response = self._house.respond(asked, waited_ms=waited_ms)
            if response is not None or not self._house.is_patient(asked, waited_ms):
                return response
            await self._house.clock.sleep(LOOK_AGAIN_MS)
            waited_ms = max(LOOK_AGAIN_MS, self._house.clock.monotonic_ms() - began_ms)

    async def _answer(self, asked: Asked, header: RequestHeader, response: Message, hang_up: Rule | None) -> None:
        garble = asked.bends.get("garble")
        how = None if garble is None else str(garble.value)
        number = header.correlation_id + (how == "wrong correlation id")
        parts = encode_response(response, version=header.request_api_version, correlation_id=number)
        whole = b"".join([frame_prefix(parts), *parts])
        if how is not None:
            whole = garbled(how, whole)
        if hang_up is not None and hang_up.value == "in the middle":
            whole = whole[: max(5, len(whole) // 2)]
        await self._write(whole)

    async def _write(self, whole: bytes) -> None:
        pace = self._house.pace
        step = pace.piece_bytes or len(whole)
        for start in range(0, len(whole), step):
            pieces: Sequence[Buffer] = [whole[start : start + step]]
            if self._link is not None:
                self._link.write(pieces)
            if pace.between_ms:
                await self._house.clock.sleep(pace.between_ms)


def garbled(how: str, whole: bytes) -> bytes:
    """A frame with its size, made into what no broker sends."""
    if how == "twice":
        return whole + whole
    if how == "garbage":
        return GARBAGE
    if how == "oversized":
        return OVERSIZED
    if how == "cut short":  # a frame that is complete, of an answer that is not
        kept = whole[4 : 4 + max(5, (len(whole) - 4) // 2)]
        return struct.pack(">i", len(kept)) + kept
    if how == "huge count":
        kept = whole[4:9] + HUGE
        return struct.pack(">i", len(kept)) + kept
    return whole
