"""A very small HTTP server for who watches the broker: metrics and health, on the loopback.

    GET /metrics         what Prometheus reads
    GET /health/live     200 as long as the loop turns
    GET /health/ready    200 when clients are served, 503 with the reason when not (readiness.py)

1. It is read-only; nothing can be changed through it, and it shows no record and no secret.
2. Everything is bounded: the head of a request, the time it may take, the connections at one time. One request per
   connection.
3. Where a login is wanted (admin_login.py) metrics are for those who may Describe the cluster. Health is for everybody,
   because it is asked by what starts and stops brokers; why a broker is not ready is left out then.
4. On the loopback it answers only requests for a loopback name, so that a web page whose name was made to point here
   cannot read it.
5. `answer` decides from bytes to bytes; the rest moves them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ottla.broker.observe.verdict import Verdict
from ottla.broker.settings.endpoints import is_loopback
from ottla.light_tuples import NamedTuple
from ottla.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from ottla.broker.observe.admin_login import AdminLogin
    from ottla.broker.observe.state_metrics import StateMetrics

log = logging.getLogger(__name__)

HEAD_LIMIT_BYTES: Final = 8_192
REQUEST_LIMIT_S: Final = 5.0
CONNECTIONS_LIMIT: Final = 32
PLAIN: Final = "text/plain; charset=utf-8"
PATHS: Final = ("/metrics", "/health/live", "/health/ready")


class AdminListenerFailed(OSError):
    """The admin listener cannot be opened; the error of the system with its address."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.address = f"{host}:{port}"


class Reply(NamedTuple):
    status: HTTPStatus
    body: str
    content_type: str = PLAIN
    header: str = ""


class Watch(NamedTuple):
    """What there is to see: the text of all metrics in pieces, why the broker is not ready (None when it is), and what
    is wrong although it is (empty when nothing is; no names, because everybody may read it).

    `prepare` is awaited before metrics are written, and `update` runs then, a short step at a time, so that others have
    their turns between.
    """

    metrics: Callable[[], Iterable[str]]
    not_ready_because: Callable[[], str | None]
    update: Callable[[], Iterator[None]] = lambda: iter(())
    prepare: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0)
    ready_but: Callable[[], str] = lambda: ""


def answer(head: bytes, watch: Watch, *, local_only: bool, verdict: Verdict | None = None) -> bytes:
    """The whole answer to the head of a request, which ends with an empty line; `verdict` None is no login wanted."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _written(Reply(HTTPStatus.BAD_REQUEST, "this is not an HTTP/1.1 request\n"))
    method, target, version = words
    reply = _refusal(method, version, lines[1:], local_only=local_only) or _page(target, watch, verdict)
    return _written(reply, without_body=method == "HEAD")


def _refusal(method: str, version: str, headers: list[str], *, local_only: bool) -> Reply | None:
    if method not in ("GET", "HEAD"):
        return Reply(
            HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD: nothing can be changed here\n", header="Allow: GET, HEAD"
        )
    hosts = [line.partition(":")[2].strip() for line in headers if line.lower().startswith("host:")]
    if len(hosts) > 1 or (not hosts and version != "HTTP/1.0"):
        return Reply(HTTPStatus.BAD_REQUEST, "one Host header is needed\n")
    if local_only and hosts and not is_loopback(_host_name(hosts[0])):
        return Reply(HTTPStatus.FORBIDDEN, "this listener is for the machine itself; ask for localhost\n")
    return None


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _page(target: str, watch: Watch, verdict: Verdict | None) -> Reply:
    path = target.partition("?")[0]
    if path == "/metrics":
        return _LOCKED.get(verdict) or Reply(HTTPStatus.OK, "".join(watch.metrics()), CONTENT_TYPE)
    if path == "/health/live":
        return Reply(HTTPStatus.OK, "live\n")
    if path == "/health/ready":
        reason = watch.not_ready_because()
        ready = Reply(HTTPStatus.OK, f"ready{watch.ready_but()}\n")
        detail = f": {reason}" if verdict in (None, Verdict.WELCOME) else ""
        return ready if reason is None else Reply(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready{detail}\n")
    return Reply(HTTPStatus.NOT_FOUND, f"there is {', '.join(PATHS)}\n")


_LOCKED: Final[dict[Verdict | None, Reply]] = {
    Verdict.UNKNOWN: Reply(
        HTTPStatus.UNAUTHORIZED,
        "metrics want the name and password of a user: curl --user NAME\n",
        header='WWW-Authenticate: Basic realm="ottla", charset="UTF-8"',
    ),
    Verdict.REFUSED: Reply(HTTPStatus.FORBIDDEN, "metrics are for users who may Describe the cluster\n"),
}


def _written(reply: Reply, *, without_body: bool = False) -> bytes:
    body = reply.body.encode()
    header = f"{reply.header}\r\n" if reply.header else ""
    head = (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\n"
        f"Content-Type: {reply.content_type}\r\nContent-Length: {len(body)}\r\n"
        f"{header}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    ).encode("ascii")
    return head if without_body else head + body


class LazyState:
    """State metrics, loaded and made when somebody reads metrics for the first time: most brokers nobody asks."""

    def __init__(self, make: Callable[[], StateMetrics]) -> None:
        self._make = make

    @cached_property
    def _state(self) -> StateMetrics:
        return self._make()

    async def prepare(self) -> None:
        await self._state.prepare()

    def update(self) -> Iterator[None]:
        return self._state.update()

    def stop(self) -> None:
        if "_state" in self.__dict__:
            self._state.loop.stop()


class AdminServer:
    """Listens, reads one head per connection, writes one answer, closes."""

    def __init__(
        self, watch: Watch, *, login: AdminLogin | None = None, request_limit_s: float = REQUEST_LIMIT_S
    ) -> None:
        self._watch = watch
        self._login = login
        self._request_limit_s = request_limit_s
        self._server: asyncio.Server | None = None
        self._local_only = True
        self._open: dict[asyncio.Task[None], None] = {}  # in the order in which they came

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address with the port that was bound. AdminListenerFailed when it cannot."""
        self._local_only = is_loopback(host)
        try:
            self._server = await asyncio.start_server(self._connected, host or None, port, limit=HEAD_LIMIT_BYTES)
        except OSError as error:
            raise AdminListenerFailed(host, port, error) from error
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def stop(self) -> None:
        """Close everything, now: who watches asks again."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        self._server = None

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_LIMIT:
            next(iter(self._open)).cancel()  # the oldest: whoever asks something has long been answered
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open[task] = None
        task.add_done_callback(self._open.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._request_limit_s):
                writer.write(await self._answer(reader, writer.get_extra_info("peername")))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as reason:
            log.debug("the admin listener gives up a connection: %s", type(reason).__name__)
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, peer: Sequence[str] | None) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _written(Reply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too large\n"))
        try:
            verdict = None
            if self._login is not None:
                verdict = await self._login.verdict(head.decode("latin-1").split("\r\n")[1:], peer[0] if peer else "")
            if head.startswith(b"GET /metrics") and verdict in (None, Verdict.WELCOME):
                await self._watch.prepare()
                for _ in self._watch.update():
                    await asyncio.sleep(0)
            return answer(head, self._watch, local_only=self._local_only, verdict=verdict)
        except Exception:
            log.exception("the admin listener could not answer")
            return _written(Reply(HTTPStatus.INTERNAL_SERVER_ERROR, "could not answer; the log says why\n"))
