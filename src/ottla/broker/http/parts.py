"""How a part of the broker is served over HTTP: it lists its routes, and each route says who may call it.

    def make_part(broker: Broker) -> Part:                                     # in the module that PARTS names
        registry = Registry(broker)

        async def subjects(call: Call) -> Reply:
            return reply([Json, ...])

        return Part("registry", (
            Route("GET", "/subjects", subjects, KNOWN, "The subjects that have schemas."),
            Route("DELETE", "/subjects/{subject}", forget, may(ALTER_CLUSTER), "Delete a subject.", csrf=Csrf.CONTENT),
        ))

1. PARTS is the list of all parts. A row says which module has the part's `make_part`, at which address it is served and
   when it is on. The module is loaded with the first connection to its address: a start of the broker loads nothing of
   it, and whoever never asks never pays. Parts that name the same address share it.
2. Every request passes the gate (gate.py) before the part hears of it: is the Host one of ours, who asks, may he do
   what the route says, and does the request come from a page of ours (CSRF). Who may call a route is its `right`:

    PUBLIC            everybody, also without a login: what a login page needs
    KNOWN             whoever could log in; what he may see is decided by what the handler asks (`call.ask`, `call.may`)
    may(need)         whoever meets the need on the cluster, by the authorizer of the wire
    may(need, "x")    the same, on the resource that the {x} of the path names

3. A handler is `async def (call) -> Reply`. `call.ask(request, ResponseClass)` has a request of the wire handled as
   that of who calls, in this broker, with his rights; the answer is that of the wire. `call.broker` is for plain
   functions that read state; they are tested without HTTP.
4. A BrokerError that a handler raises becomes a status and {"error": ..., "message": ...}; HttpError says both itself.
   A part with a format of its own passes `write_error`.
5. Nobody computes for long on the loop. A Reply with a value is written in slices (slices.py), and whoever collects
   much uses `with call.broker.pacing.turn() as pace: await pace.step()`.
6. Everything is bounded: bodies by `body_limit_bytes` of the route, connections and heads by the server (serving.py).
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.security.needs import Need
from ottla.light_dataclasses import dataclass, field

if TYPE_CHECKING:
    from ottla.broker.http.call import Call
    from ottla.broker.settings import BrokerSettings

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
"""What can be written as JSON."""
Address: TypeAlias = tuple[str, int]

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
BODY_LIMIT_BYTES: Final = 1024 * 1024


class HttpError(Exception):
    """What a caller is answered instead of what it asked for."""

    def __init__(
        self, status: HTTPStatus, message: str, *, name: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.name = name or status.name
        self.headers = headers or {}


@dataclass(frozen=True)
class Reply:
    """What a route answers: a value that is written as JSON, or bytes as they are."""

    value: Json = None
    status: HTTPStatus = HTTPStatus.OK
    content: bytes | None = field(default=None, repr=False)
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def reply(value: Json, status: HTTPStatus = HTTPStatus.OK) -> Reply:
    return Reply(value, status)


Handler: TypeAlias = "Callable[[Call], Awaitable[Reply]]"


@dataclass(frozen=True)
class Right:
    """Who may call a route; see the module."""

    is_public: bool = False
    need: Need | None = None
    parameter: str | None = None

    def __str__(self) -> str:
        if self.need is None:
            return "everybody" if self.is_public else "whoever is logged in"
        resource = self.need.resource.name.lower().replace("_", " ")
        of = f" {{{self.parameter}}}" if self.parameter else ""
        return f"{self.need.operation.name} on the {resource}{of}"


PUBLIC: Final = Right(is_public=True)
KNOWN: Final = Right()


def may(need: Need, parameter: str | None = None) -> Right:
    """Whoever meets this need, on the resource that this part of the path names; on the cluster without one."""
    return Right(need=need, parameter=parameter)


class Csrf(enum.Enum):
    """How a route that changes something knows that no strange page sent the browser here."""

    TOKEN = "the page sends the token of its session (X-Ottla-Token), or the caller its password"
    CONTENT = "its content type is JSON, which no page of another origin can send; for clients without a session"


@dataclass(frozen=True)
class Query:
    """A parameter behind the question mark."""

    name: str
    doc: str
    kind: str = "string"


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handle: Handler = field(repr=False)
    right: Right
    doc: str
    query: tuple[Query, ...] = ()
    body: Mapping[str, str] = field(default_factory=dict)
    """The fields of the JSON that is sent, and what they are."""
    csrf: Csrf = Csrf.TOKEN
    any_host: bool = False
    """Whether it answers under any Host where the listener is not on the loopback: what programs read."""
    is_change: bool | None = None
    """None: whatever is not GET changes something, and is refused in read-only mode."""
    body_limit_bytes: int = BODY_LIMIT_BYTES

    @property
    def changes(self) -> bool:
        return self.method not in ("GET", "HEAD") if self.is_change is None else self.is_change

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


async def _nothing() -> None:
    return None


WriteError: TypeAlias = Callable[[HttpError], Reply]


@dataclass(frozen=True)
class Part:
    """What a module serves. `start` is awaited before its first request, `stop` when the broker stops."""

    name: str
    routes: tuple[Route, ...]
    start: Callable[[], Awaitable[None]] = _nothing
    stop: Callable[[], Awaitable[None]] = _nothing
    write_error: WriteError | None = None
    """How its errors look; None is {"error": name, "message": text}."""


@dataclass(frozen=True)
class PartRow:
    """Where a part comes from: `module` has make_part(broker). `setting` switches it on, or names its address; when it
    is configured and a package of `requires` is missing, the broker does not start and names the `extra`."""

    name: str
    module: str
    setting: str
    extra: str
    address: Callable[[BrokerSettings], Address | None]
    is_on: Callable[[BrokerSettings], bool]
    is_read_only: Callable[[BrokerSettings], bool] = lambda settings: False
    requires: tuple[str, ...] = ()
    """Packages beside starlette and uvicorn, which the door itself needs."""


def _admin(settings: BrokerSettings) -> Address | None:
    return settings.admin_address


PARTS: Final[tuple[PartRow, ...]] = (
    PartRow(
        "console",
        "ottla.broker.console.part",
        setting="ottla.console.enable",
        extra="console",
        address=_admin,
        is_on=lambda settings: settings.ottla_console_enable,
        is_read_only=lambda settings: settings.ottla_console_read_only,
    ),
    PartRow(
        "schema registry",
        "ottla.broker.registry.part",
        setting="ottla.schema.registry.listener",
        extra="registry",
        address=lambda settings: settings.schema_registry_address,
        is_on=lambda settings: True,
    ),
)
"""All parts."""
