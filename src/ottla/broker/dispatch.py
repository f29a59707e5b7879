"""A frame becomes a request, a request meets its handler, and what the handler gives becomes a frame.

1. A handler is a plain function of (broker, request, context) in handlers/<api>.py that gives a response, None (no
   answer is written: Produce with acks=0), or a Later of one of these.
2. What an API cannot put into its answer, it raises; a BrokerError that reaches this file becomes the error code of the
   whole answer when the answer has one, and otherwise ends the connection, as any other fault does.
3. An ApiVersions request of a version that we do not know is answered with error 35 in the layout of version 0, which
   every client can read; any other unknown API or version ends the connection, as in Kafka.
4. Per API: how many requests, how long they took, which errors.
5. Clients repeat themselves. What does not change between requests of one API and version is kept in a Lane; what does
   not change between those of one connection (who asks) is kept with the connection and recognised by its bytes.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.broker.answers import Later
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.network.processor import Answer, CloseConnection, Connection
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


# API key, API version, correlation id: the same in every header. The rest says who asks.
_FIXED: Final = struct.Struct(">hhi")
# An answer's header, without and with its (always empty) tags.
_ANSWER_HEADERS: Final = (struct.Struct(">i"), struct.Struct(">ix"))


class Lane:
    """What all requests of one API and version have in common."""

    __slots__ = (
        "answer_header",
        "api",
        "decode",
        "encode",
        "handler",
        "has_error_code",
        "requests",
        "times",
        "version",
    )

    def __init__(self, broker: Broker, api: Api, version: int) -> None:
        self.api = api
        self.version = version
        self.handler: Handler = import_module(f"ottla.broker.handlers.{api.module}").handle
        self.decode = decoder(api.request, version)
        self.encode: Callable[[Any], list[Any]] = encoder(api.response, version)
        self.answer_header = _ANSWER_HEADERS[response_header_version(api.key, version)]
        self.has_error_code = any(field.name == "error_code" for field in api.response.fields)
        self.requests, self.times = broker.request_metrics.of(api, version)


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
        try:
            request, _ = lane.decode(frame, position)
        except DECODE_FAILURES:
            request, _ = decode_prefix(lane.api.request, version, frame, position)  # says what is wrong with it
        given = self._answer(lane, request, context)
        if isinstance(given, Later):
            later: Later[Answer | None] = Later()
            given.when_given(lambda g: later.give(self._written_later(lane, g, context, correlation_id, started_ms)))
            return later
        return self._written(lane, given, correlation_id, started_ms)

    def _answer(self, lane: Lane, request: Message, context: RequestContext) -> Given:
        try:
            return lane.handler(self._broker, request, context)
        except CloseConnection:
            raise
        except BrokerError as error:
            return error_response(lane.api, error, lane.version)
        except MalformedMessage:
            raise
        except Exception:
            log.exception("%s from %s failed", lane.api, context.client_id)
            return error_response(lane.api, UnknownServerError(), lane.version)

    def _written(self, lane: Lane, response: Any, correlation_id: int, started_ms: float) -> Answer | None:
        now_ms = self._monotonic_ms()
        lane.requests.value += 1
        lane.times.record(now_ms - started_ms, now_ms)
        if response is None:
            return None
        if lane.has_error_code and response.error_code:
            self._broker.request_metrics.failed(lane.api, response.error_code)
        try:
            parts = lane.encode(response)
        except ENCODE_FAILURES:
            parts = encode(response, lane.version)  # says what is wrong with it
        parts[0] = b"".join((lane.answer_header.pack(correlation_id), parts[0]))
        return parts

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
