"""A frame becomes a request, a request meets its handler, and what the handler gives becomes a frame.

1. A handler is a plain function of (broker, request, context) in handlers/<api>.py that gives a response, None (no
   answer is written: Produce with acks=0), or a Later of one of these.
2. What an API cannot put into its answer, it raises; a BrokerError that reaches this file becomes the error code of the
   whole answer when the answer has one, and otherwise ends the connection, as any other fault does.
3. An ApiVersions request of a version that we do not know is answered with error 35 in the layout of version 0, which
   every client can read; any other unknown API or version ends the connection, as in Kafka.
4. Per API: how many requests, how long they took, which errors.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.broker.answers import Later
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.network.processor import Answer, CloseConnection, Connection
from ottla.errors import BrokerError, MalformedMessage, UnknownServerError, UnsupportedVersion
from ottla.protocol.api import APIS, Api
from ottla.protocol.compiled import decode_prefix
from ottla.protocol.header import API_VERSIONS_KEY, decode_request_header, encode_response, read_key_and_version
from ottla.protocol.schema import ArrayOf, Message, Primitive

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

Given: TypeAlias = "Message | Later[Message | None] | None"
Handler: TypeAlias = "Callable[[Broker, Any, RequestContext], Given]"


class Dispatch:
    """Finds the handler of a request and writes its answer."""

    def __init__(self, broker: Broker, served: frozenset[int]) -> None:
        self._broker = broker
        self._served = served
        self._handlers: dict[int, Handler] = {}

    def dispatch(self, frame: memoryview, connection: Connection) -> Answer | Later[Answer | None] | None:
        started_s = time.perf_counter()
        key, version = read_key_and_version(frame)
        if key not in self._served:
            raise CloseConnection(f"API key {key} is not served here")
        header, position = decode_request_header(frame)
        api = APIS[key]
        if version not in api.versions:
            return self._unknown_version(api, header.correlation_id)
        request, _ = decode_prefix(api.request, version, frame, position)
        context = RequestContext(
            api_version=version,
            client_id=header.client_id or "",
            client_host=connection.host,
            principal=connection.principal,
            listener=connection.listener,
            connection=connection,
        )
        given = self._answer(api, request, context)
        correlation_id = header.correlation_id
        if isinstance(given, Later):
            later: Later[Answer | None] = Later()
            given.when_given(lambda g: later.give(self._written_later(api, g, context, correlation_id, started_s)))
            return later
        return self._written(api, given, version, correlation_id, started_s)

    def _answer(self, api: Api, request: Message, context: RequestContext) -> Given:
        try:
            return self._handler(api)(self._broker, request, context)
        except CloseConnection:
            raise
        except BrokerError as error:
            return error_response(api, error, context.api_version)
        except MalformedMessage:
            raise
        except Exception:
            log.exception("%s from %s failed", api, context.client_id)
            return error_response(api, UnknownServerError(), context.api_version)

    def _written(
        self, api: Api, response: Message | None, version: int, correlation_id: int, started_s: float
    ) -> Answer | None:
        self._broker.request_metrics.answered(api, version, time.perf_counter() - started_s)
        if response is None:
            return None
        return encode_response(response, version=version, correlation_id=correlation_id)

    def _written_later(
        self, api: Api, response: Message | None, context: RequestContext, correlation_id: int, started_s: float
    ) -> Answer | None:
        """What goes wrong here must not reach whoever gave the answer: he has others to serve."""
        try:
            return self._written(api, response, context.api_version, correlation_id, started_s)
        except Exception:
            log.exception("the answer to %s of %s cannot be written, its connection is closed", api, context.client_id)
            context.connection.close()
            return None

    def _unknown_version(self, api: Api, correlation_id: int) -> Answer:
        if api.key != API_VERSIONS_KEY:
            raise UnsupportedVersion(f"{api} is spoken here in versions {api.versions}")
        from ottla.broker.handlers.api_versions import refusal

        return encode_response(refusal(), version=0, correlation_id=correlation_id)

    def _handler(self, api: Api) -> Handler:
        found = self._handlers.get(api.key)
        if found is None:
            found = import_module(f"ottla.broker.handlers.{api.module}").handle
            self._handlers[api.key] = found
        return found


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
