"""The HTTP server of the door: Starlette finds the route, uvicorn speaks HTTP, both on the broker's loop.

1. This is the only file that knows either. It is loaded by door.py when the first connection comes, in a thread, with
   all that uvicorn would load later, on the loop.
2. A request meets the gate twice: its Host before anything else, also where there is no such path, and everything else
   when its route is known. Then its body is read, up to the route's limit, and the part answers.
   What pages ask for every other second has paths without parameters: those are looked up, and Starlette compares the
   others with one route after the other.
3. Answers are written in slices, with a turn for everybody else between two of them. Every answer has the headers that
   keep a browser from running what is not ours, from framing it and from guessing types.
4. Whatever a part raises becomes an answer; what is nobody's error is logged and answered with 500, without a word of
   what went wrong inside.
5. Connections (admission.py), heads and bodies in size and in time, keep-alive and the end are bounded.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

import uvicorn
import uvicorn.lifespan.off
import uvicorn.protocols.http.h11_impl  # both by their names in make_server
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.broker.http.admission import Admission
from ottla.broker.http.call import Call
from ottla.broker.http.errors import http_error
from ottla.broker.http.gate import Gate, Head
from ottla.broker.http.gathering import gathering_for
from ottla.broker.http.parts import HttpError, Part, Reply, Route
from ottla.broker.http.slices import slices
from ottla.broker.observe.admin_http import PATHS
from ottla.broker.requests.running import next_turn
from ottla.clock import Clock
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

HEAD_LIMIT_BYTES: Final = 16_384
KEEP_ALIVE_S: Final = 30
BODY_MS: Final = 30_000
LAST_S: Final = 1
BACKLOG: Final = 128

SAFE_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
}


@dataclass(frozen=True)
class Mounted:
    """A part with the gate before it."""

    part: Part
    gate: Gate


def application(broker: Broker, mounted: Sequence[Mounted], cookie: str, admission: Admission) -> ASGIApp:
    """All parts of one address. `cookie` is the name of its sessions' cookie."""
    endpoints = {
        (route.method, route.path): _endpoint(broker, each, route, cookie)
        for each in reversed(mounted)  # of two routes of the same name the first one is it, as in Starlette
        for route in reversed(each.part.routes)
    }
    routes = [
        StarletteRoute(route.path, endpoints[route.method, route.path], methods=[route.method])
        for each in mounted
        for route in each.part.routes
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _not_there})
    plain = {(method, path): endpoint for (method, path), endpoint in endpoints.items() if "{" not in path}
    return _behind_host_check(_looked_up(plain, app), mounted[0].gate, _open_paths(mounted), admission)


def _looked_up(endpoints: Mapping[tuple[str, str], Endpoint], otherwise: ASGIApp) -> ASGIApp:
    async def found(scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = endpoints.get((scope["method"], scope["path"]))
        if endpoint is None:
            await otherwise(scope, receive, send)
        else:
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

    return found


def _open_paths(mounted: Sequence[Mounted]) -> frozenset[str]:
    return frozenset(route.path for each in mounted for route in each.part.routes if route.any_host)


def _behind_host_check(app: ASGIApp, gate: Gate, open_paths: frozenset[str], admission: Admission) -> ASGIApp:
    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # a websocket: there are none
        hosts = tuple(value.decode("latin-1") for name, value in scope["headers"] if name == b"host")
        try:
            gate.check_host(hosts, any_host=scope["path"] in open_paths)
            if admission.is_full and scope["path"] not in PATHS:
                raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered; ask again")
        except HttpError as error:
            await _written(_plain_error(error))(scope, receive, send)
            return
        await app(scope, receive, send)

    return checked


async def _not_there(request: Request, error: Exception) -> Response:
    """No such path, or not with this method."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    headers = {name: value for name, value in (error.headers or {}).items() if name == "Allow"}
    return _written(_plain_error(HttpError(status, status.phrase.lower(), headers=headers)))


def _plain_error(error: HttpError) -> Reply:
    return Reply({"error": error.name, "message": error.message}, error.status, headers=error.headers)


# -- one request ------------------------------------------------------------------------------------------------------


def _endpoint(broker: Broker, mounted: Mounted, route: Route, cookie: str) -> Endpoint:
    write_error = mounted.part.write_error or _plain_error

    async def endpoint(request: Request) -> Response:
        try:
            answered = await _answered(broker, mounted.gate, route, request, cookie)
            await next_turn()  # what was worked out is written when others had their turn
            return _written(answered)
        except HttpError as error:
            return _written(write_error(error))
        except OttlaError as error:
            return _written(write_error(http_error(error)))
        except Exception:
            log.exception("%s could not be answered", route.name)
            return _written(
                write_error(HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "could not answer; the broker's log says why"))
            )

    return endpoint


async def _answered(broker: Broker, gate: Gate, route: Route, request: Request, cookie: str) -> Reply:
    caller = await gate.admit(route, head_of(request, cookie))
    path = {name: str(value) for name, value in request.path_params.items()}
    gate.authorize(route, caller, path)
    call = Call(
        broker,
        caller.context,
        path=path,
        query=dict(request.query_params),
        repeated=_repeated(request),
        body=await _body(broker.clock, request, route.body_limit_bytes) if route.changes or route.body else b"",
        token=caller.token,
        is_known=caller.is_known,
        is_read_only=gate.is_read_only,
        cookie=request.cookies.get(cookie, ""),
        known_tag=request.headers.get("if-none-match", ""),
    )
    return await route.handle(call)


def _repeated(request: Request) -> dict[str, tuple[str, ...]]:
    found = request.query_params
    if len(found.multi_items()) == len(found):
        return {}
    return {name: tuple(values) for name in found if len(values := found.getlist(name)) > 1}


def head_of(request: Request, cookie: str) -> Head:
    headers = request.headers
    return Head(
        hosts=tuple(headers.getlist("host")),
        origin=headers.get("origin", ""),
        fetch_site=headers.get("sec-fetch-site", ""),
        content_type=headers.get("content-type", ""),
        authorization=headers.get("authorization", ""),
        cookie=request.cookies.get(cookie, ""),
        token=headers.get("x-ottla-token", ""),
        peer=request.client.host if request.client is not None else "",
    )


async def _body(clock: Clock, request: Request, limit_bytes: int) -> bytes:
    pieces = bytearray()
    try:
        async with clock.timeout(BODY_MS):
            async for piece in request.stream():
                pieces += piece
                if len(pieces) > limit_bytes:
                    sentence = f"at most {limit_bytes} bytes may be sent here"
                    raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
    except ClientDisconnect:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the connection ended before the body did") from None
    except TimeoutError:
        raise HttpError(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {BODY_MS} ms") from None
    return bytes(pieces)


def _written(reply: Reply) -> Response:
    headers: Mapping[str, str] = {**SAFE_HEADERS, **reply.headers}
    if reply.content is not None:
        return Response(reply.content, reply.status.value, headers, media_type=reply.content_type)
    pieces = slices(reply.value)
    first, second = next(pieces), next(pieces, None)
    if second is None:
        return Response(first, reply.status.value, headers, media_type=reply.content_type)
    return StreamingResponse(
        _with_turns(first, second, pieces), reply.status.value, headers, media_type=reply.content_type
    )


async def _with_turns(first: bytes, second: bytes, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    yield second
    for piece in pieces:
        await next_turn()
        yield piece


# -- the server -------------------------------------------------------------------------------------------------------


class _Server(uvicorn.Server):
    """The broker's command hears signals, not this."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def make_server(app: ASGIApp, admission: Admission, clock: Clock) -> _Server:
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        http=gathering_for(admission, clock),
        ws="none",
        loop="none",
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LAST_S,
        h11_max_incomplete_event_size=HEAD_LIMIT_BYTES,
    )
    config.load()
    return _Server(config)
