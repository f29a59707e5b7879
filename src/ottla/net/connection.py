"""What happens on one open connection, on either side, without the socket.

The side that asks (ClientConnection):
1. Every request has its own correlation id; ids count up to the largest int32 and begin again at 0.
2. Answers come in the order of the requests: that is Kafka's rule, and it is checked. An answer that nobody asked
   for, that has another id, or that cannot be decoded ends the connection, because what follows cannot be trusted.
3. Every request that was sent ends exactly once: by its answer, or by `close` with an error that says why. A request
   that expects no answer (Produce with acks=0) ends when it is sent.
4. At most `in_flight_limit` requests wait for answers. Whoever sends must ask `has_room` first.

Which versions (ApiVersionTable): the highest version that both sides have. Kafka's oddities are met here: an
ApiVersions answer with error 35 is always written in the layout of version 0, whatever was asked; an advertised
minimum may be lower than what is really served (Produce), which does no harm to the highest common version; an entry
whose minimum is above its maximum means that the API is not there.

The side that answers (AnswerOrder): requests may be worked on side by side, answers leave in the order of arrival;
when too many requests or bytes wait, it says "stop reading" until half of them are gone.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.errors import (
    ConnectionClosed,
    MalformedMessage,
    NotConnected,
    OttlaError,
    RequestTimedOut,
    UnsupportedVersion,
)
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.net.framing import Buffer, frame_prefix
from ottla.protocol.api import Api, WrittenRequest, api_of
from ottla.protocol.header import decode_response, encode_request, read_correlation_id
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.schema import Message, Versions

Answer = TypeVar("Answer")

IN_FLIGHT_LIMIT: Final = 5
CORRELATION_ID_MAX: Final = 2**31 - 1
API_VERSIONS: Final[Api] = api_of(ApiVersionsRequest)
UNSUPPORTED_VERSION: Final = 35
_ERROR_CODE_POSITION: Final = 4  # behind the correlation id; ApiVersions answers never have header tags
_REMEMBERED_BYTES: Final = 8_192


# --- which versions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApiVersionTable:
    """What the other side serves, as it told us."""

    ranges: Mapping[int, Versions]
    supported_features: Mapping[str, Versions] = field(default_factory=dict)
    finalized_features: Mapping[str, int] = field(default_factory=dict)
    finalized_features_epoch: int = -1

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> ApiVersionTable:
        """The table that an ApiVersions answer describes; entries without any version are left out."""
        return cls(
            ranges={
                entry.api_key: Versions(entry.min_version, entry.max_version)
                for entry in response.api_keys
                if entry.min_version <= entry.max_version
            },
            supported_features={
                feature.name: Versions(feature.min_version, feature.max_version)
                for feature in response.supported_features
                if feature.min_version <= feature.max_version
            },
            finalized_features={feature.name: feature.max_version_level for feature in response.finalized_features},
            finalized_features_epoch=response.finalized_features_epoch,
        )

    def offers(self, api: Api, at_most: int | None = None) -> bool:
        """Whether `choose` would find a version."""
        return self._highest_common(api, at_most) is not None

    def choose(self, api: Api, *, at_most: int | None = None) -> int:
        """The highest version both sides have; `at_most` keeps it lower when a feature is not wanted."""
        version = self._highest_common(api, at_most)
        if version is None:
            raise UnsupportedVersion(self._why_not(api, at_most))
        return version

    def _highest_common(self, api: Api, at_most: int | None) -> int | None:
        theirs = self.ranges.get(api.key)
        if theirs is None:
            return None
        highest = min(theirs.max, api.versions.max, api.versions.max if at_most is None else at_most)
        return highest if highest >= max(theirs.min, api.versions.min) else None

    def _why_not(self, api: Api, at_most: int | None) -> str:
        theirs = self.ranges.get(api.key)
        ours = f"this side speaks {api.name} (key {api.key}) in versions {api.versions}"
        wanted = "" if at_most is None else f", at most {at_most} is wanted"
        return f"{ours}{wanted}, the other side {'does not offer it' if theirs is None else f'in {theirs}'}"


# --- the side that asks ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Completed:
    """The answer to the request with this ticket, a message or what the request's own reader made of it; None for a
    request that expects none."""

    ticket: object
    response: object


@dataclass(frozen=True, slots=True)
class Failed:
    """The request with this ticket will get no answer."""

    ticket: object
    error: Exception


class InFlight(NamedTuple):
    """A request whose answer is on its way."""

    ticket: object
    api: Api
    version: int
    correlation_id: int
    deadline_ms: float
    read: Callable[[Buffer], object | None] | None = None


class Exchange(Protocol):
    """A request that writes its whole frame, reads the frame of its answer and hears of its own end: for who sends so
    often that the steps in between would cost more than the request."""

    @property
    def api(self) -> Api: ...
    @property
    def version(self) -> int: ...
    def frame(self, correlation_id: int, client_id: str | None) -> list[Buffer]:
        """Size, header and body. Small neighbours are joined already."""

    def read(self, frame: Buffer) -> object | None:
        """What the answer says; None when it is to be decoded."""

    def done(self) -> bool: ...
    def set_result(self, response: Any, /) -> None: ...
    def set_exception(self, error: Any, /) -> None: ...


class ClientConnection:
    """The asking side of one connection, from the first request to `close`."""

    def __init__(
        self, *, client_id: str | None, in_flight_limit: int = IN_FLIGHT_LIMIT, next_correlation_id: int = 0
    ) -> None:
        if in_flight_limit < 1:
            raise ValueError(f"in_flight_limit must be at least 1, not {in_flight_limit}")
        self._client_id = client_id
        self._in_flight_limit = in_flight_limit
        self._next_correlation_id = next_correlation_id
        self._in_flight: deque[InFlight] = deque()
        self._closed = False

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    @property
    def has_room(self) -> bool:
        """Whether one more request may be sent now."""
        return not self._closed and len(self._in_flight) < self._in_flight_limit

    @property
    def next_deadline_ms(self) -> float | None:
        """When the first of the waiting requests runs out of time."""
        return min((request.deadline_ms for request in self._in_flight), default=None)

    def send(
        self,
        ticket: object,
        request: Message | WrittenRequest,
        *,
        version: int,
        deadline_ms: float,
        expects_response: bool = True,
        client_id: str | None = None,
    ) -> list[Buffer]:
        """The buffers to write. Nothing has happened when this raises, not even a correlation id is used."""
        if self._closed:
            raise NotConnected("this connection was closed")
        if not self.has_room:
            raise ValueError(f"{self._in_flight_limit} requests are in flight already; ask has_room before sending")
        correlation_id = self._next_correlation_id
        client_id = self._client_id if client_id is None else client_id
        parts = encode_request(request, version=version, correlation_id=correlation_id, client_id=client_id)
        self._next_correlation_id = 0 if correlation_id == CORRELATION_ID_MAX else correlation_id + 1
        if expects_response:
            read = request.read if isinstance(request, WrittenRequest) else None
            self._in_flight.append(InFlight(ticket, api_of(request), version, correlation_id, deadline_ms, read))
        return [frame_prefix(parts), *parts]

    def send_exchanges(self, exchanges: Sequence[Exchange], deadline_ms: float) -> tuple[int, list[Buffer]]:
        """`send` for exchanges, which are their own tickets: how many of them, from the first on, and what to write.

        Those that find no room are not sent, nor one whose frame cannot be written, nor those behind it. Whoever sends
        that one by `send` hears what is wrong with it."""
        buffers: list[Buffer] = []
        if self._closed:
            return 0, buffers
        for count, exchange in enumerate(exchanges):
            if len(self._in_flight) >= self._in_flight_limit:
                return count, buffers
            correlation_id = self._next_correlation_id
            try:
                buffers += exchange.frame(correlation_id, self._client_id)
            except Exception:
                return count, buffers
            self._next_correlation_id = 0 if correlation_id == CORRELATION_ID_MAX else correlation_id + 1
            self._in_flight.append(
                InFlight(exchange, exchange.api, exchange.version, correlation_id, deadline_ms, exchange.read)
            )
        return len(exchanges), buffers

    def receive(self, frame: Buffer) -> Completed:
        """Match an answer with its request; MalformedMessage means that the connection must be closed."""
        return Completed(*self.match(frame))

    def match(self, frame: Buffer) -> tuple[object, object]:
        """The same as a pair: ticket and response."""
        if self._closed:
            raise ConnectionClosed("an answer came after the connection was closed")
        if not self._in_flight:
            raise MalformedMessage("an answer came and no request was waiting for one")
        oldest = self._in_flight[0]
        correlation_id = read_correlation_id(frame)
        if correlation_id != oldest.correlation_id:
            raise MalformedMessage(
                f"the next answer should be for {oldest.api.name} with correlation id {oldest.correlation_id},"
                f" but it has {correlation_id}"
            )
        response = None if oldest.read is None else oldest.read(frame)
        if response is None:
            response = _versions_of(oldest, frame) or decode_response(oldest.api, oldest.version, frame)[1]
        self._in_flight.popleft()
        return oldest.ticket, response

    def expired(self, now_ms: float) -> list[InFlight]:
        """Requests whose time is over. Their answers could still come and answers have an order,
        so whoever finds one here has to close the connection."""
        return [request for request in self._in_flight if request.deadline_ms <= now_ms]

    def close(self, reason: str, now_ms: float) -> list[Failed]:
        """End every waiting request: those out of time with RequestTimedOut, the others with ConnectionClosed.
        A second call finds nothing left to end."""
        self._closed = True
        waiting, self._in_flight = self._in_flight, deque()
        return [Failed(request.ticket, _ending(request, reason, now_ms)) for request in waiting]


def _ending(request: InFlight, reason: str, now_ms: float) -> OttlaError:
    # One error per request: an exception raised in several tasks would mix up their tracebacks.
    what = f"{request.api.name} version {request.version}"
    if request.deadline_ms <= now_ms:
        return RequestTimedOut(f"no answer to {what}")
    return ConnectionClosed(f"{what} had no answer yet; {reason}")


def _versions_of(request: InFlight, frame: Buffer) -> Message | None:
    """An answer to ApiVersions: a broker gives the same one at every connection, so it is not read again."""
    if request.api is not API_VERSIONS:
        return None
    refusal = _refusal_of(request, frame)
    if refusal is not None or len(frame) > _REMEMBERED_BYTES:
        return refusal
    return _remembered_versions(request.version, bytes(frame[_ERROR_CODE_POSITION:]))


@lru_cache(maxsize=16)
def _remembered_versions(version: int, content: bytes) -> Message:
    """Whoever gets it only reads it."""
    return decode_response(API_VERSIONS, version, bytes(_ERROR_CODE_POSITION) + content)[1]


def _refusal_of(request: InFlight, frame: Buffer) -> ApiVersionsResponse | None:
    """An ApiVersions answer with error 35, which is not written in the version that was asked."""
    if request.api is not API_VERSIONS or len(frame) < _ERROR_CODE_POSITION + 2:
        return None
    (error_code,) = struct.unpack_from(">h", frame, _ERROR_CODE_POSITION)
    if error_code != UNSUPPORTED_VERSION:
        return None
    try:
        _, refusal = decode_response(API_VERSIONS, API_VERSIONS.versions.min, frame)
        assert isinstance(refusal, ApiVersionsResponse), "the table of APIs says so"
        return refusal
    except MalformedMessage:
        # Some brokers write it in the layout that was asked. What they serve we learn by asking with version 0.
        return ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=[])


# --- the side that answers -------------------------------------------------------------------------------------------


class AnswerOrder(Generic[Answer]):
    """Keeps answers in the order of their requests, and says when enough requests wait.

    1. An answer leaves when every earlier request has been answered, and not before.
    2. `wants_reading` turns False when `request_limit` requests or `bytes_limit` bytes of requests are unanswered,
       and True again when both are down to half. What was already read may still be added: the limit asks,
       it does not refuse.
    3. None is an answer too: the request is done and nothing is written (Produce with acks=0).
    """

    def __init__(self, *, request_limit: int = 64, bytes_limit: int = 16 * 1024 * 1024) -> None:
        if request_limit < 1 or bytes_limit < 1:
            raise ValueError("at least one request and one byte must be allowed to wait")
        self._request_limit = request_limit
        self._bytes_limit = bytes_limit
        self._next_place = 0  # for the next request that arrives
        self._next_answer = 0  # the oldest request without an answer
        self._request_bytes: deque[int] = deque()  # of the requests from _next_answer on
        self._waiting_bytes = 0
        self._held: dict[int, Answer | None] = {}
        self.wants_reading = True

    @property
    def waiting_count(self) -> int:
        """Requests that have arrived and whose answers have not left."""
        return self._next_place - self._next_answer

    @property
    def waiting_bytes(self) -> int:
        """The bytes of those requests."""
        return self._waiting_bytes

    def arrived(self, request_bytes: int = 0) -> int:
        """A request came in; the place that its answer has to name."""
        place = self._next_place
        self._next_place = next_place = place + 1
        self._request_bytes.append(request_bytes)
        self._waiting_bytes += request_bytes
        if next_place - self._next_answer >= self._request_limit or self._waiting_bytes >= self._bytes_limit:
            self.wants_reading = False
        return place

    def answered(self, place: int, answer: Answer | None) -> list[Answer]:
        """The answer for a place is known; every answer that may be written now, in order."""
        if not self._next_answer <= place < self._next_place or place in self._held:
            raise ValueError(f"place {place} is not waiting: {self._next_answer} to {self._next_place - 1} are")
        ready: list[Answer] = []
        if place == self._next_answer:
            self._leave(answer, ready)
            while self._held and self._next_answer in self._held:
                self._leave(self._held.pop(self._next_answer), ready)
        else:
            self._held[place] = answer
        if not self.wants_reading:
            self._see_if_half_free()
        return ready

    def leave_together(self, first: int, count: int) -> int | None:
        """`answered` for so many places from `first` on, where they are the next and no answer behind them is known:
        all of them may be written now. Returns the bytes of their requests; else None, and nothing has happened."""
        if first != self._next_answer or self._held or count > self._next_place - first:
            return None
        self._next_answer += count
        left_bytes = self._request_bytes.popleft()
        for _ in range(count - 1):
            left_bytes += self._request_bytes.popleft()
        self._waiting_bytes -= left_bytes
        if not self.wants_reading:
            self._see_if_half_free()
        return left_bytes

    def _see_if_half_free(self) -> None:
        is_half_free = self.waiting_count <= self._request_limit // 2
        self.wants_reading = is_half_free and self._waiting_bytes <= self._bytes_limit // 2

    def _leave(self, answer: Answer | None, ready: list[Answer]) -> None:
        self._next_answer += 1
        self._waiting_bytes -= self._request_bytes.popleft()
        if answer is not None:
            ready.append(answer)
