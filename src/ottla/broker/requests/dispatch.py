"""A frame becomes a request, a request meets its handler, and what the handler returns becomes a frame.

    frame ─► lane ─► who asks ─► decode ─► gate ─► handler ─► quota ─► encode ─► metrics ─► answer
             limits                        may he?            how much?

1. Clients repeat themselves. What does not change between requests of one API and version is kept in a Lane; what does
   not change between those of one connection (who asks) is kept with the connection and recognised by its bytes.
2. A handler (served.py) is a plain function, or an `async` one. What is plain is answered in this call; of what awaits
   the connection gets the coroutine, runs its first step at once and keeps its place in the order of answers.
3. What an API cannot put into its answer, its handler raises; a BrokerError that reaches this file becomes the error
   code of the whole answer when the answer has one, and otherwise ends the connection, as any other fault does.
4. An ApiVersions request of a version that we do not know is answered with error 35 in the layout of version 0, which
   every client can read; any other unknown API or version ends the connection, as in Kafka.
5. Requests that came together may be handled together (Served.answer_run): of one kind and one client, as many from
   the front as the handler can take in one go.
6. Bytes of a request count against quotas when it arrives, time when it was handled, records before they are answered
   (quotas/charges.py). Its connection is not heard for as long as the answer says. A client without quotas is told
   apart once for each connection and kind of request, and costs nothing after that.
7. No request keeps the others waiting: how much it may ask for is limited (served.py), and a large one is decoded,
   handled and encoded with pauses (pacing.py), while its connection is held.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.broker.network.processor import Answer, Answering, CloseConnection, Connection, RunAnswers, TimedAnswer
from ottla.broker.observe.stalls import NOTED_MS
from ottla.broker.quotas.forwarded import FORWARDER
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.gate import WRITE_TXN_MARKERS, Gate
from ottla.broker.requests.running import Work, awaited, is_coroutine
from ottla.broker.requests.served import (
    APART_FRAME_BYTES,
    BROKER_APIS,
    LARGE_FRAME_BYTES,
    Decode,
    Encode,
    Quota,
    Served,
    answering,
    frame_limit_bytes,
    handler_of,
    served,
)
from ottla.broker.requests.timing import FirstWait, Stopwatch, noted, timed
from ottla.broker.security.needs import was_checked
from ottla.errors import BrokerError, MalformedMessage, UnknownServerError, UnsupportedVersion
from ottla.light_dataclasses import replace
from ottla.protocol.api import APIS, Api
from ottla.protocol.compile_decode import FAILURES as DECODE_FAILURES
from ottla.protocol.compile_encode import FAILURES as ENCODE_FAILURES
from ottla.protocol.compiled import decode_prefix, decoder, encode, encoder
from ottla.protocol.header import API_VERSIONS_KEY, decode_request_header, encode_response, response_header_version
from ottla.protocol.schema import ArrayOf, Message, Primitive, WireType

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.requests.slicing import Slices

log = logging.getLogger(__name__)

Handled: TypeAlias = Message | Work[Message | None] | None
Handler: TypeAlias = "Callable[[Broker, Any, RequestContext], Handled]"

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


class Lane:
    """What all requests of one API and version have in common."""

    __slots__ = (
        "admission",
        "answer_header",
        "answer_run",
        "api",
        "charges",
        "check",
        "decode",
        "encode",
        "entries",
        "exempts",
        "forwarded_charges",
        "frame_bytes",
        "handler",
        "has_error_code",
        "has_throttle_time",
        "large_bytes",
        "slices",
        "throttled",
        "times",
        "version",
    )

    def __init__(self, broker: Broker, gate: Gate, api: Api, version: int) -> None:
        self.api = api
        self.version = version
        declared = served(api, is_controller=broker.link.is_controller)
        self.handler: Handler = answering(broker, api)
        self.answer_run = declared.answer_run
        if broker.tracing is not None and self.answer_run is not None:  # records come by requests that can go together
            self.handler, self.answer_run = broker.tracing.around(self.handler), None
        self.decode, self.encode = _codec(api, version, declared)
        self.answer_header = _ANSWER_HEADERS[response_header_version(api.key, version)]
        self.has_error_code = any(field.name == "error_code" for field in api.response.fields)
        self.frame_bytes = frame_limit_bytes(api.key)
        self.entries = declared.entries
        self.slices = declared.slices
        self.large_bytes = LARGE_FRAME_BYTES if declared.is_paced or declared.slices else self.frame_bytes
        check, is_for_brokers = gate.check_of(api), api.key in BROKER_APIS
        # Who may not give orders is refused before anything of his order is read: it may be large.
        self.admission = check if is_for_brokers else None
        self.check = None if is_for_brokers else check
        is_free = _is_between_brokers(api) or (broker.link.is_controller and declared.quota is Quota.NONE)
        self.charges = None if is_free else partial(broker.quotas.charges_of, declared.quota.value)
        self.forwarded_charges = partial(_forwarded_charges, broker)
        self.exempts = declared.exempts
        self.throttled = declared.throttled(version) if declared.throttled is not None else self._throttled
        has_field = any(field.name == "throttle_time_ms" for field in api.response.fields)
        self.has_throttle_time = has_field and declared.throttled is None
        self.times = broker.request_metrics.of(api, version)

    def _throttled(self, response: Any, wait_ms: int) -> list[Any]:
        """The answer, which says how long its client is not heard where it has a field for that."""
        if self.has_throttle_time:
            response.throttle_time_ms = wait_ms
        return self.encode(response)


def _is_between_brokers(api: Api) -> bool:
    return api.key in BROKER_APIS or api.name == WRITE_TXN_MARKERS


def codec_of(api: Api, version: int) -> tuple[Decode, Encode]:
    """How a broker reads its requests and writes its answers."""
    return _codec(api, version, served(api))


def _codec(api: Api, version: int, declared: Served) -> tuple[Decode, Encode]:
    if declared.codec is not None:
        return declared.codec(version)
    return partial(decoder(api.request, version), left=declared.entries), encoder(api.response, version)


class Dispatch:
    """Finds the handler of a request and writes its answer."""

    def __init__(self, broker: Broker, served_apis: frozenset[int], gate: Gate) -> None:
        self._broker = broker
        self._served = served_apis
        self._gate = gate
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._monotonic_ms = broker.clock.monotonic_ms

    def dispatch(self, frame: memoryview, connection: Connection) -> Answering:
        started_ms = self._monotonic_ms()
        if len(frame) < _FIXED.size:
            raise MalformedMessage(f"a request of {len(frame)} bytes has no room for its header")
        key, version, correlation_id = _FIXED.unpack_from(frame)
        lane = self._lanes.get((key, version)) or self._new_lane(key, version)
        if lane is None:
            return self._unknown_version(frame)
        context, position = _context(lane, frame, connection)
        wait_ms = 0
        if (charges := context.charges) is not None and charges.produce is not None:
            wait_ms = charges.produce.charge(len(frame), started_ms)
            if wait_ms:
                connection.throttle(wait_ms)
        handle = self._handle_frame if lane.admission is None else self._handle_admitted
        handled = handle(lane, frame, position, context)
        return self._answering(lane, handled, context, correlation_id, started_ms, wait_ms)

    def dispatch_run(
        self, frame: memoryview, following: deque[memoryview], connection: Connection
    ) -> RunAnswers | None:
        """Requests of one kind and one client that came together, where the handler can take them together."""
        lane = self._lanes.get(_KIND.unpack_from(frame)) if len(frame) >= _FIXED.size else None
        if lane is None or lane.answer_run is None or lane.check is not None:
            return None
        started_ms = self._monotonic_ms()
        context, position = _context(lane, frame, connection)
        frames = [frame, *islice(following, RUN_LIMIT - 1)] if following else [frame]
        charges = context.charges
        if charges is not None and not charges.admits(sum(map(len, frames)) if following else len(frame)):
            return None  # one by one, as each may be the one that has to wait
        answers = lane.answer_run(self._broker, frames, position, context)
        now_ms = self._monotonic_ms()
        if now_ms - started_ms >= NOTED_MS:
            self._note_stall(lane, context, now_ms - started_ms)
        if answers is None:
            return None
        sizes = answers.request_bytes
        for _ in range(len(sizes) - 1):
            following.popleft()
        if charges is not None:
            charges.count_run(sum(sizes), started_ms, now_ms)
        if answers.is_over:
            lane.times.answered.record(now_ms - started_ms, len(sizes))
        else:
            answers.timed(self._broker.clock, lane.times, started_ms)
        return answers

    # -- handling ----------------------------------------------------------------------------------------------------

    def _handle_admitted(self, lane: Lane, frame: memoryview, position: int, context: RequestContext) -> Handled:
        """What only brokers send: its check looks at who sent it and at nothing else."""
        assert lane.admission is not None
        try:
            admitting = lane.admission(None, context)
        except Exception as error:
            return self._refusal(lane, error, context)
        if admitting is None:
            return self._handle_frame(lane, frame, position, context)
        return self._handle_when_admitted(lane, admitting, frame, position, context)

    async def _handle_when_admitted(
        self, lane: Lane, admitting: Work[None], frame: memoryview, position: int, context: RequestContext
    ) -> Message | None:
        await admitting
        return await awaited(self._handle_frame(lane, frame, position, context))

    def _handle_frame(self, lane: Lane, frame: memoryview, position: int, context: RequestContext) -> Handled:
        if len(frame) > lane.large_bytes:
            return self._handle_large(lane, frame, position, context)
        return self._handle(lane, _decoded(lane, frame, position), context)

    def _handle(self, lane: Lane, request: Any, context: RequestContext) -> Handled:
        try:
            if context.charges is not None and lane.exempts is not None:
                context.charges.is_exempt = lane.exempts(request, lane.version)
            if lane.check is not None and (checking := lane.check(request, context)) is not None:
                return self._handle_checked(lane, checking, request, context)
            return lane.handler(self._broker, request, context)
        except Exception as error:
            return self._refusal(lane, error, context)

    async def _handle_checked(
        self, lane: Lane, checking: Work[None], request: Any, context: RequestContext
    ) -> Message | None:
        await checking
        return await awaited(lane.handler(self._broker, request, context))

    async def _handle_large(
        self, lane: Lane, frame: memoryview, position: int, context: RequestContext
    ) -> Message | None:
        """Wait for the turn of large requests, and decode in a thread what takes long to decode."""
        if len(frame) > lane.frame_bytes:
            raise MalformedMessage(f"{lane.api} of {len(frame)} bytes; {lane.frame_bytes} are allowed")
        with self._broker.pacing.turn(context.connection) as pace:
            await pace.pause()
            if len(frame) > APART_FRAME_BYTES:
                request = await self._broker.pacing.apart(_decoded, lane, frame, position)
            else:
                request = _decoded(lane, frame, position)
        if lane.slices is not None:
            return await self._handle_in_slices(lane, lane.slices, request, context)
        return await awaited(self._handle(lane, request, context))

    async def _handle_in_slices(
        self, lane: Lane, slices: Slices, request: Message, context: RequestContext
    ) -> Message | None:
        """As several requests, with a turn for others between two of them."""
        from ottla.broker.requests.slicing import cut, join  # no start has a large request

        answer: Message | None = None
        for part, depth in cut(request, slices):
            with self._broker.pacing.turn(context.connection) as pace:  # its handler may want the turn itself
                await pace.pause()
            answered = await awaited(self._handle(lane, part, context))
            if answered is None or (lane.has_error_code and getattr(answered, "error_code", False)):
                return answered
            if answer is None:
                answer = answered
            else:
                join(answer, answered, slices, depth)
        return answer

    def _refusal(self, lane: Lane, error: Exception, context: RequestContext) -> Message:
        if isinstance(error, CloseConnection | MalformedMessage):
            raise error
        if isinstance(error, BrokerError):
            return error_response(lane.api, error, lane.version)
        log.error("%s from %s failed", lane.api, context.client_id, exc_info=error)
        return error_response(lane.api, UnknownServerError(), lane.version)

    # -- answering ---------------------------------------------------------------------------------------------------

    def _answering(
        self,
        lane: Lane,
        handled: Handled,
        context: RequestContext,
        correlation_id: int,
        started_ms: float,
        wait_ms: int,
    ) -> Answering:
        if is_coroutine(handled):
            return self._answer_later(lane, handled, context, correlation_id, started_ms, wait_ms)
        now_ms = self._monotonic_ms()
        if now_ms - started_ms >= NOTED_MS:
            self._note_stall(lane, context, now_ms - started_ms)
        lane.times.answered.record(now_ms - started_ms)
        if lane.has_error_code and handled is not None:
            self._count_error(lane, handled)
        if context.charges is not None:
            busy_ms = context.charges.handled(now_ms - started_ms, now_ms, handled is not None)
            response: Any = handled
            if busy_ms or wait_ms or (lane.has_throttle_time and response is not None and response.throttle_time_ms):
                wait_ms = self._throttle(lane, response, context, max(busy_ms, wait_ms))
        if handled is None:
            return None
        parts = _encoded(lane, handled, correlation_id, wait_ms)
        return parts if len(parts) == 1 else TimedAnswer(parts, lane.times, now_ms)

    async def _answer_later(
        self,
        lane: Lane,
        handling: Work[Message | None],
        context: RequestContext,
        correlation_id: int,
        started_ms: float,
        wait_ms: int,
    ) -> Answer | None:
        watch = None
        if context.charges is not None:
            watch = Stopwatch(self._monotonic_ms, self._monotonic_ms() - started_ms)
        wait = FirstWait(self._monotonic_ms, partial(self._note_stall, lane, context))
        try:
            response = await noted(handling if watch is None else timed(handling, watch), wait)
        except Exception as error:
            response = self._refusal(lane, error, context)
        now_ms = self._count(lane, response, started_ms, wait.since_ms)
        if watch is not None:
            assert context.charges is not None, "who has no quotas is not timed"
            busy_ms = context.charges.handled(watch.spent_ms, now_ms, response is not None)
            wait_ms = self._throttle(lane, response, context, max(busy_ms, wait_ms))
        if response is None:
            return None
        if context.connection is None or not context.connection.is_held:
            return TimedAnswer(_encoded(lane, response, correlation_id, wait_ms), lane.times, now_ms)
        with self._broker.pacing.turn(context.connection) as pace:  # the answer to a long request is long, too
            await pace.pause()
            return await self._broker.pacing.apart(_encoded, lane, response, correlation_id, wait_ms)

    def _count(self, lane: Lane, response: Any, started_ms: float, waits_since_ms: float | None) -> float:
        """A request that may have waited has been handled; returns the time."""
        now_ms = self._monotonic_ms()
        if waits_since_ms is None:
            lane.times.answered.record(now_ms - started_ms)
        else:
            lane.times.waited(started_ms, waits_since_ms, now_ms)
        if lane.has_error_code and response is not None:
            self._count_error(lane, response)
        return now_ms

    def _note_stall(self, lane: Lane, context: RequestContext, took_ms: float) -> None:
        who = f" of client {context.client_id!r} ({context.principal}, {context.client_host})"
        self._broker.stalls.note(lane.api.name, took_ms, who)

    def _count_error(self, lane: Lane, response: Any) -> None:
        if response.error_code:
            self._broker.request_metrics.failed(lane.api, response.error_code)

    # -- quotas ------------------------------------------------------------------------------------------------------

    def _throttle(self, lane: Lane, response: Any, context: RequestContext, wait_ms: int) -> int:
        """A request is about to be answered whose client must wait so long, or longer; returns how long it must."""
        if lane.has_throttle_time and response is not None and response.throttle_time_ms > wait_ms:
            wait_ms = response.throttle_time_ms
        is_forwarded = context.charges is not None and context.charges.is_forwarded
        if wait_ms and context.connection is not None and not is_forwarded:
            context.connection.throttle(wait_ms)
            lane.times.throttled(wait_ms)
        return wait_ms

    # -- lanes -------------------------------------------------------------------------------------------------------

    def _new_lane(self, key: int, version: int) -> Lane | None:
        """The lane for the first request of its kind; None where we do not speak the version."""
        if key not in self._served:
            raise CloseConnection(f"API key {key} is not served here")
        api = APIS[key]
        if version not in api.versions:
            return None
        made = self._lanes[key, version] = Lane(self._broker, self._gate, api, version)
        return made

    def _unknown_version(self, frame: memoryview) -> Answer:
        header, _ = decode_request_header(frame)
        if header.request_api_key != API_VERSIONS_KEY:
            raise UnsupportedVersion(f"version {header.request_api_version} is not spoken here")
        refusal = handler_of(APIS[API_VERSIONS_KEY]).refusal
        return encode_response(refusal(), version=0, correlation_id=header.correlation_id)


def _encoded(lane: Lane, response: Any, correlation_id: int, wait_ms: int = 0) -> Answer:
    try:
        parts = lane.throttled(response, wait_ms) if wait_ms else lane.encode(response)
    except ENCODE_FAILURES:
        parts = encode(response, lane.version)  # says what is wrong with it
    parts[0] = b"".join((lane.answer_header.pack(correlation_id), parts[0]))
    return parts


def _decoded(lane: Lane, frame: memoryview, position: int) -> Any:
    try:
        return lane.decode(frame, position)[0]
    except DECODE_FAILURES:
        limit = lane.entries
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
    client_id = header.client_id or ""
    context = RequestContext(
        api_version=lane.version,
        client_id=client_id,
        client_host=connection.host,
        principal=connection.principal,
        listener=connection.listener,
        api_name=lane.api.name,
        security_protocol=connection.security_protocol,
        by_token=connection.by_token,
        connection=connection,
        charges=None if lane.charges is None else lane.charges(connection.principal.partition(":")[2], client_id),
    )
    if client_id.startswith(FORWARDER):
        context = lane.forwarded_charges(context)
    if position <= _KEPT_HEADER_BYTES:
        connection.contexts[lane] = context, bytes(frame[_FIXED.size : position])
    return context, position


def _forwarded_charges(broker: Broker, context: RequestContext) -> RequestContext:
    """Who asks, with the quota of whoever asked the broker that passes the request on."""
    if not was_checked(broker, context):
        return context
    return replace(context, charges=broker.quotas.forwarded_charges(context.client_id))


def error_response(api: Api, error: BrokerError, version: int) -> Message:
    """An answer that says nothing but the error; only for APIs with an error code for the whole answer."""
    values: dict[str, object] = {}
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


def _zero(kind: WireType) -> object:
    if isinstance(kind, ArrayOf):
        return []
    return kind.zero if isinstance(kind, Primitive) else kind()
