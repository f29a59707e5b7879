"""A frame becomes a request, a request meets its handler, and what the handler gives becomes a frame.

1. A handler is a plain function of (broker, request, context) in handlers/<api>.py that gives a response, None (no
   answer is written: Produce with acks=0), or a Later of one of these. Where its module has a `codec`, that reads
   requests and writes answers, else they are the API's messages.
2. What an API cannot put into its answer, it raises; a BrokerError that reaches this file becomes the error code of the
   whole answer when the answer has one, and otherwise ends the connection, as any other fault does.
3. An ApiVersions request of a version that we do not know is answered with error 35 in the layout of version 0, which
   every client can read; any other unknown API or version ends the connection, as in Kafka.
4. Per API: how many requests, how long they took, which errors.
5. Clients repeat themselves. What does not change between requests of one API and version is kept in a Lane; what does
   not change between those of one connection (who asks) is kept with the connection and recognised by its bytes.
6. Requests that came together may be handled together: the `runs` of a handler module are given those of one kind and
   one client, and answer as many from the front as they can take in one go.
7. No request keeps the others waiting: how much it may ask for is limited (request_limits.py), and a large one is read,
   answered and written in stints (long_work.py), while its connection rests.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ottla.broker.cluster.forwarding import forwarding
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.network.processor import Answer, CloseConnection, Connection
from ottla.broker.requests.answers import Later
from ottla.broker.requests.limits import (
    APART_FRAME_BYTES,
    LONG_FRAME_BYTES,
    entries_limit,
    size_limit_bytes,
    works_in_stints,
)
from ottla.broker.requests.long_work import LongLater, Steps
from ottla.errors import BrokerError, MalformedMessage, UnknownServerError, UnsupportedVersion
from ottla.protocol.api import APIS, Api
from ottla.protocol.compile_decode import FAILURES as DECODE_FAILURES
from ottla.protocol.compile_encode import FAILURES as ENCODE_FAILURES
from ottla.protocol.compiled import decode_prefix, decoder, encode, encoder
from ottla.protocol.header import API_VERSIONS_KEY, decode_request_header, encode_response, response_header_version
from ottla.protocol.schema import ArrayOf, Message, Primitive

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

Given: TypeAlias = "Message | Later[Message | None] | None"
Handler: TypeAlias = "Callable[[Broker, Any, RequestContext], Given]"
Decoder: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
Encoder: TypeAlias = Callable[[Any], list[Any]]


# API key, API version, correlation id: the same in every header. The rest says who asks.
_FIXED: Final = struct.Struct(">hhi")
_KIND: Final = struct.Struct(">hh")
RUN_LIMIT: Final = 16
# Larger frames are refused without a word on what is wrong in them: the codec that could tell takes its time, up to
# 20 ms for 16 KiB of tiny entries, and others wait meanwhile.
_EXPLAINED_BYTES: Final = 1_024
# A longer header is read anew each time: a connection may use hundreds of APIs and versions, and keeps one for each.
_KEPT_HEADER_BYTES: Final = 1_024
# An answer's header, without and with its (always empty) tags.
_ANSWER_HEADERS: Final = (struct.Struct(">i"), struct.Struct(">ix"))


class Runs(NamedTuple):
    """How requests of one API and version that came together are read, handled and answered."""

    decode: Callable[[list[memoryview], int], list[Any]]
    handle: Callable[[Broker, list[Any], RequestContext], list[Any]]
    encode: Callable[[list[memoryview], list[Any]], bytes]


class Lane:
    """What all requests of one API and version have in common."""

    __slots__ = (
        "answer_header",
        "api",
        "decode",
        "encode",
        "handler",
        "has_error_code",
        "long_bytes",
        "requests",
        "runs",
        "size_limit_bytes",
        "times",
        "version",
    )

    def __init__(self, broker: Broker, api: Api, version: int) -> None:
        self.api = api
        self.version = version
        module = import_module(f"ottla.broker.handlers.{api.module}")
        self.handler: Handler = forwarding(api, module.handle)
        self.runs: Runs | None = module.runs(version) if hasattr(module, "runs") else None
        self.decode, self.encode = codec_of(api, version)
        self.answer_header = _ANSWER_HEADERS[response_header_version(api.key, version)]
        self.has_error_code = any(field.name == "error_code" for field in api.response.fields)
        self.size_limit_bytes = size_limit_bytes(api)
        self.long_bytes = LONG_FRAME_BYTES if works_in_stints(api) else self.size_limit_bytes
        self.requests, self.times = broker.request_metrics.of(api, version)


def codec_of(api: Api, version: int) -> tuple[Decoder, Encoder]:
    """How its requests are read and its answers written."""
    module = import_module(f"ottla.broker.handlers.{api.module}")
    if hasattr(module, "codec"):
        made: tuple[Decoder, Encoder] = module.codec(version)
        return made
    return partial(decoder(api.request, version), left=entries_limit(api)), encoder(api.response, version)


class Dispatch:
    """Finds the handler of a request and writes its answer."""

    def __init__(self, broker: Broker, served: frozenset[int]) -> None:
        self._broker = broker
        self._served = served
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._monotonic_ms = broker.clock.monotonic_ms

    def dispatch(self, frame: memoryview, connection: Connection) -> Answer | Later[Answer | None] | None:
        started_ms = self._monotonic_ms()
        if len(frame) < _FIXED.size:
            raise MalformedMessage(f"a request of {len(frame)} bytes has no room for its header")
        key, version, correlation_id = _FIXED.unpack_from(frame)
        lane = self._lanes.get((key, version)) or self._new_lane(key, version)
        if lane is None:
            return self._unknown_version(frame)
        context, position = _context(lane, frame, connection)
        if len(frame) > lane.long_bytes:
            return self._long(lane, frame, position, context, correlation_id, started_ms)
        given = self._answer(lane, _decoded(lane, frame, position), context)
        if isinstance(given, LongLater):
            return self._written_in_stints(lane, given, context, correlation_id, started_ms)
        if isinstance(given, Later):
            return self._later_answer(lane, given, context, correlation_id, started_ms)
        return self._written(lane, given, correlation_id, started_ms)

    def dispatch_run(
        self, frame: memoryview, following: deque[memoryview], connection: Connection
    ) -> bytes | list[tuple[Answer | Later[Answer | None] | None, int]] | None:
        """Requests of one kind and one client that came together, where the handler can take them together."""
        if len(frame) < _FIXED.size or frame[: _KIND.size] != following[0][: _KIND.size]:
            return None
        lane = self._lanes.get(_KIND.unpack_from(frame))
        if lane is None or lane.runs is None:
            return None
        started_ms = self._monotonic_ms()
        context, position = _context(lane, frame, connection)
        frames = [frame, *islice(following, RUN_LIMIT - 1)]
        requests = lane.runs.decode(frames, position)
        given = lane.runs.handle(self._broker, requests, context) if len(requests) > 1 else ()
        if not given:
            return None
        del frames[len(given) :]
        for _ in frames[1:]:
            following.popleft()
        if not any(isinstance(one, Later) for one in given):
            self._count_run(lane, len(given), started_ms)
            return lane.runs.encode(frames, given)
        return [
            (self._of_run(lane, one, each, context, started_ms), len(each))
            for one, each in zip(given, frames, strict=True)
        ]

    def _of_run(
        self, lane: Lane, given: Given, frame: memoryview, context: RequestContext, started_ms: float
    ) -> Answer | Later[Answer | None] | None:
        correlation_id = _FIXED.unpack_from(frame)[2]
        if isinstance(given, Later):
            return self._later_answer(lane, given, context, correlation_id, started_ms)
        return self._written(lane, given, correlation_id, started_ms)

    # -- what takes long ---------------------------------------------------------------------------------------------

    def _long(
        self,
        lane: Lane,
        frame: memoryview,
        position: int,
        context: RequestContext,
        correlation_id: int,
        started_ms: float,
    ) -> Later[Answer | None]:
        if len(frame) > lane.size_limit_bytes:
            raise MalformedMessage(f"{lane.api} of {len(frame)} bytes; {lane.size_limit_bytes} are allowed")

        def steps() -> Steps[Given]:
            if len(frame) > APART_FRAME_BYTES:
                request = yield self._broker.long_work.apart(_decoded, lane, frame, position)
            else:
                request = _decoded(lane, frame, position)
            return self._answer(lane, request, context)

        given = self._broker.long_work.do_later(steps(), context.connection)
        return self._written_in_stints(lane, given, context, correlation_id, started_ms)

    def _written_in_stints(
        self, lane: Lane, given: Later[Any], context: RequestContext, correlation_id: int, started_ms: float
    ) -> Later[Answer | None]:
        """Hold the connection until the answer is there: so its requests keep their order, and it has one at a time."""
        connection, long_work = context.connection, self._broker.long_work
        connection.hold()
        later: Later[Answer | None] = Later()

        def steps(response: Message | None) -> Steps[Any]:
            self._count(lane, response, started_ms)
            return None if response is None else (yield long_work.apart(_encoded, lane, response, correlation_id))

        def write(response: Any) -> None:
            if isinstance(response, Later):
                response.when_given(write)
            elif isinstance(response, Exception):
                self._refused_later(lane, response, context, write)
            else:
                long_work.do_later(steps(response), connection).when_given(written)

        def written(answer: Answer | Exception | None) -> None:
            if isinstance(answer, Exception):
                connection.end(answer)
                return
            later.give(answer)
            connection.let_go()

        given.when_given(write)
        return later

    def _refused_later(
        self, lane: Lane, error: Exception, context: RequestContext, write: Callable[[Message], None]
    ) -> None:
        """What `_answer` makes of an error, for one that came later."""
        try:
            write(self._refusal(lane, error, context))
        except (CloseConnection, MalformedMessage) as reason:
            context.connection.end(reason)

    def _answer(self, lane: Lane, request: Message, context: RequestContext) -> Given:
        try:
            return lane.handler(self._broker, request, context)
        except Exception as error:
            return self._refusal(lane, error, context)

    def _refusal(self, lane: Lane, error: Exception, context: RequestContext) -> Message:
        if isinstance(error, CloseConnection | MalformedMessage):
            raise error
        if isinstance(error, BrokerError):
            return error_response(lane.api, error, lane.version)
        log.error("%s from %s failed", lane.api, context.client_id, exc_info=error)
        return error_response(lane.api, UnknownServerError(), lane.version)

    def _written(self, lane: Lane, response: Any, correlation_id: int, started_ms: float) -> Answer | None:
        self._count(lane, response, started_ms)
        return None if response is None else _encoded(lane, response, correlation_id)

    def _count(self, lane: Lane, response: Any, started_ms: float) -> None:
        now_ms = self._monotonic_ms()
        lane.requests.value += 1
        lane.times.record(now_ms - started_ms, now_ms)
        if lane.has_error_code and response is not None and response.error_code:
            self._broker.request_metrics.failed(lane.api, response.error_code)

    def _count_run(self, lane: Lane, count: int, started_ms: float) -> None:
        if count:
            now_ms = self._monotonic_ms()
            lane.requests.value += count
            lane.times.record(now_ms - started_ms, now_ms, count)

    def _later_answer(
        self, lane: Lane, given: Later[Message | None], context: RequestContext, correlation_id: int, started_ms: float
    ) -> Later[Answer | None]:
        later: Later[Answer | None] = Later()
        given.when_given(lambda g: later.give(self._written_later(lane, g, context, correlation_id, started_ms)))
        return later

    def _written_later(
        self, lane: Lane, response: Message | None, context: RequestContext, correlation_id: int, started_ms: float
    ) -> Answer | None:
        """What goes wrong here must not reach whoever gave the answer: he has others to serve."""
        try:
            return self._written(lane, response, correlation_id, started_ms)
        except Exception:
            log.exception(
                "the answer to %s of %s cannot be written, its connection is closed", lane.api, context.client_id
            )
            context.connection.close()
            return None

    def _new_lane(self, key: int, version: int) -> Lane | None:
        """The lane for the first request of its kind; None where we do not speak the version."""
        if key not in self._served:
            raise CloseConnection(f"API key {key} is not served here")
        api = APIS[key]
        if version not in api.versions:
            return None
        made = self._lanes[key, version] = Lane(self._broker, api, version)
        return made

    def _unknown_version(self, frame: memoryview) -> Answer:
        header, _ = decode_request_header(frame)
        if header.request_api_key != API_VERSIONS_KEY:
            raise UnsupportedVersion(f"version {header.request_api_version} is not spoken here")
        from ottla.broker.handlers.api_versions import refusal

        return encode_response(refusal(), version=0, correlation_id=header.correlation_id)


def _encoded(lane: Lane, response: Any, correlation_id: int) -> Answer:
    try:
        parts = lane.encode(response)
    except ENCODE_FAILURES:
        parts = encode(response, lane.version)  # says what is wrong with it
    parts[0] = b"".join((lane.answer_header.pack(correlation_id), parts[0]))
    return parts


def _decoded(lane: Lane, frame: memoryview, position: int) -> Any:
    try:
        return lane.decode(frame, position)[0]
    except DECODE_FAILURES:
        limit = entries_limit(lane.api)
        if len(frame) > _EXPLAINED_BYTES:
            what = f"{lane.api} version {lane.version}, {len(frame)} bytes"
            raise MalformedMessage(f"{what}: it is broken, or has more than {limit} entries") from None
        decode_prefix(lane.api.request, lane.version, frame, position, limit)  # says what is wrong with it
        raise


def _context(lane: Lane, frame: memoryview, connection: Connection) -> tuple[RequestContext, int]:
    """Who asks, and where the body begins: as in the request before, when the header has the same bytes."""
    known = connection.contexts.get(lane)
    if known is not None:
        context, header_bytes = known
        end = _FIXED.size + len(header_bytes)
        if frame[_FIXED.size : end] == header_bytes and context.principal is connection.principal:
            return context, end
    header, position = decode_request_header(frame)
    context = RequestContext(
        api_version=lane.version,
        client_id=header.client_id or "",
        client_host=connection.host,
        principal=connection.principal,
        listener=connection.listener,
        connection=connection,
    )
    if position <= _KEPT_HEADER_BYTES:
        connection.contexts[lane] = context, bytes(frame[_FIXED.size : position])
    return context, position


def error_response(api: Api, error: BrokerError, version: int) -> Message:
    """An answer that says nothing but the error; only for APIs with an error code for the whole answer."""
    values: dict[str, Any] = {}
    for field in api.response.fields:
        if field.name == "error_code":
            values[field.name] = error.code
        elif field.name == "error_message":
            values[field.name] = str(error)
        elif field.required:
            values[field.name] = None if field.null_at(version) else _zero(field.type)
    if "error_code" not in values:
        raise CloseConnection(f"{api} cannot be answered: {error}")
    return api.response(**values)


def _zero(kind: Any) -> Any:
    if isinstance(kind, ArrayOf):
        return []
    return kind.zero if isinstance(kind, Primitive) else kind()
