"""Opens the addresses of the HTTP door, and loads what answers there when the first connection comes.

    door = Door(broker, watch, login=..., random_bytes=...)
    opened = await door.start()                # [("console", ("127.0.0.1", 9644))]
    await door.stop()

1. A start of the broker binds sockets and loads nothing: an address is watched until somebody connects. Then the server
   and the parts are imported, in a thread, while the connection waits in the system's queue.
2. Without the packages of the `console` extra, or with every part switched off, the admin address has the small server
   of observe/admin_http.py, which needs nothing: metrics and health.
3. A default port that is in use is no reason not to serve records; a configured one is. A part that was asked for by
   name and lacks its packages is an error in words.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.http.parts import PARTS, Address, Part, PartRow
from ottla.broker.observe.admin_http import AdminListenerFailed, AdminServer, Watch
from ottla.broker.settings.endpoints import is_loopback
from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.http.gate import Gate
    from ottla.broker.http.serving import Mounted
    from ottla.broker.http.sessions import Sessions
    from ottla.broker.observe.admin_login import AdminLogin

log = logging.getLogger(__name__)

PACKAGES: Final = ("starlette", "uvicorn")
BACKLOG: Final = 128
ADMIN: Final = "ottla.admin.listener"
SERVING: Final = "ottla.broker.http.serving"


class Opened(NamedTuple):
    """A part and where it is served."""

    name: str
    address: Address


def parts_that_are_on(broker: Broker, rows: Iterable[PartRow] = PARTS) -> list[PartRow]:
    """Those that are switched on and can be loaded; InvalidSetting when one was asked for that cannot."""
    found = []
    for row in rows:
        if not row.is_on(broker.settings) or row.address(broker.settings) is None:
            continue
        missing = [name for name in (*PACKAGES, *row.requires) if find_spec(name) is None]
        if not missing:
            found.append(row)
        elif row.setting in broker.settings.configured_names():
            wanted = ", ".join(missing)
            raise InvalidSetting(f"{row.setting}: the {row.name} needs {wanted}; pip install 'ottla[{row.extra}]'")
    return found


class Door:
    """`login` None is that nobody has to log in."""

    def __init__(
        self,
        broker: Broker,
        watch: Watch,
        *,
        login: AdminLogin | None,
        random_bytes: Callable[[int], bytes],
        rows: Iterable[PartRow] = PARTS,
    ) -> None:
        self._broker = broker
        self._watch = watch
        self._login = login
        self._random_bytes = random_bytes
        self._rows = tuple(rows)
        self._listeners: list[LazyListener] = []
        self._small: AdminServer | None = None
        self.admin_address: Address | None = None

    async def start(self) -> list[Opened]:
        rows = parts_that_are_on(self._broker, self._rows)
        admin = self._broker.settings.admin_address
        opened: list[Opened] = []
        for address in dict.fromkeys([admin, *(row.address(self._broker.settings) for row in rows)]):
            if address is not None:
                here = [row for row in rows if row.address(self._broker.settings) == address]
                opened += await self._open(address, here, is_admin=address == admin)
        return opened

    async def _open(self, address: Address, rows: list[PartRow], *, is_admin: bool) -> list[Opened]:
        try:
            if rows:
                bound = await self._listen(address, rows, is_admin)
            else:
                self._small = AdminServer(self._watch, login=self._login)
                bound = await self._small.start(*address)
        except OSError as error:
            setting = ADMIN if is_admin else rows[0].setting
            if setting in self._broker.settings.configured_names():
                raise
            what = ", ".join(["metrics and health"] * is_admin + [row.name for row in rows])
            log.warning("no %s: %s:%d cannot be opened: %s; %s names another", what, *address, error, setting)
            return []
        if is_admin:
            self.admin_address = bound
        return [Opened(row.name, bound) for row in rows]

    async def _listen(self, address: Address, rows: list[PartRow], is_admin: bool) -> Address:
        modules = [SERVING, *(row.module for row in rows)]
        listener = LazyListener(lambda bound: self._make(bound, rows, is_admin), modules)
        bound = await listener.start(address)
        self._listeners.append(listener)
        return bound

    async def stop(self) -> None:
        if self._small is not None:
            await self._small.stop()
        for listener in self._listeners:
            await listener.stop()
        self._listeners.clear()

    # -- when somebody comes -----------------------------------------------------------------------------------------

    def _make(self, bound: Address, rows: list[PartRow], is_admin: bool) -> Serving:
        from ottla.broker.http.admission import Admission
        from ottla.broker.http.login_routes import login_part
        from ottla.broker.http.openapi import openapi
        from ottla.broker.http.serving import Mounted, application, make_server
        from ottla.broker.http.sessions import Sessions
        from ottla.broker.http.watch_routes import watch_part

        sessions = Sessions(self._broker.clock.monotonic_ms, self._random_bytes)
        cookie, token = f"ottla-{bound[1]}", self._random_bytes(32).hex()
        mounted: list[Mounted] = []
        for row in rows:
            part: Part = import_module(row.module).make_part(self._broker)
            is_read_only = row.is_read_only(self._broker.settings)
            mounted.append(Mounted(part, self._gate(bound, sessions, token, is_read_only)))
        own = [watch_part(self._watch, has_login=self._login is not None)] if is_admin else []
        own.append(
            login_part(self._login, sessions, cookie, lambda: openapi([each.part for each in mounted], _version()))
        )
        read_only = any(each.gate.is_read_only for each in mounted)
        mounted += [Mounted(part, self._gate(bound, sessions, token, read_only)) for part in own]
        admission = Admission()
        app = application(self._broker, mounted, cookie, admission)
        return Serving(make_server(app, admission, self._broker.clock), [each.part for each in mounted])

    def _gate(self, bound: Address, sessions: Sessions, token: str, is_read_only: bool) -> Gate:
        from ottla.broker.http.gate import Gate

        hosts = None if is_loopback(bound[0]) else frozenset(self._own_names())
        return Gate(self._broker, self._login, sessions, token, hosts, is_read_only)

    def _own_names(self) -> Iterable[str]:
        settings = self._broker.settings
        yield socket.gethostname().lower()
        yield from (each.lower() for each in settings.ottla_admin_allowed_hosts)
        known = self._broker.image.brokers.get(self._broker.id)
        if known is not None:
            yield from (each.host.lower() for each in known.endpoints)


def _version() -> str:
    from ottla import __version__

    return __version__


class HttpServer(Protocol):
    """The server of serving.py."""

    should_exit: bool

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Until it should exit."""


class Serving(NamedTuple):
    """A server with the parts that it serves."""

    server: HttpServer
    parts: list[Part]


class LazyListener:
    """A bound address; when the first connection comes, the modules are loaded and `make` is called."""

    def __init__(self, make: Callable[[Address], Serving], modules: Sequence[str]) -> None:
        self._make = make
        self._modules = modules
        self._socket: socket.socket | None = None
        self._serving: Serving | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, address: Address) -> Address:
        """Bind; returns the address with the port that was bound. AdminListenerFailed when it cannot."""
        host, port = address
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, where = found[0]
            self._socket = socket.create_server(where[:2], family=family, backlog=BACKLOG)
        except OSError as error:
            raise AdminListenerFailed(host, port, error) from error
        self._socket.setblocking(False)
        # asyncio sets it only on sockets that were made with the protocol's number; without it an answer in two pieces
        # waits 40 ms for the client's acknowledgement. Connections inherit it.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            loop.add_reader(self._socket.fileno(), self._somebody_came)
        except NotImplementedError:  # Windows: its loop cannot watch a socket, so everything is loaded at once
            self._task = loop.create_task(self._serve(self._socket))
        name = self._socket.getsockname()
        return name[0], name[1]

    def _somebody_came(self) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        self._task = loop.create_task(self._serve(self._socket))

    async def _serve(self, listener: socket.socket) -> None:
        try:
            for module in self._modules:
                await asyncio.to_thread(import_module, module)
            name = listener.getsockname()
            serving = self._serving = self._make((name[0], name[1]))
            for part in serving.parts:
                await part.start()
            await serving.server.serve(sockets=[listener])
        except Exception:
            log.exception("the HTTP door at %s:%s cannot be served", *listener.getsockname()[:2])
            listener.close()  # whoever comes is refused, and does not wait for an answer that nobody gives

    async def stop(self) -> None:
        """Close everything; who watches asks again."""
        if self._socket is None:
            return
        if self._task is None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
        else:
            await self._end(self._task)
        self._socket.close()
        self._socket = None

    async def _end(self, task: asyncio.Task[None]) -> None:
        if self._serving is None:
            task.cancel()
        else:
            self._serving.server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        for part in self._serving.parts if self._serving is not None else ():
            await part.stop()
