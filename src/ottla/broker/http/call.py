"""One request that passed the gate, as a handler of a route sees it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from ottla.bounded_json import TooManyValues, read_json
from ottla.broker.http.parts import HttpError, Json
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import awaited
from ottla.broker.security.access import CLUSTER
from ottla.broker.security.needs import Need
from ottla.light_dataclasses import dataclass, field, replace
from ottla.protocol.api import api_of
from ottla.protocol.compiled import decode, encode
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

A = TypeVar("A", bound=Message)

LISTENER = "ADMIN"
CLIENT_ID = "ottla-http"


def context_of(principal: str, host: str) -> RequestContext:
    """Who asks, as the handlers of the wire know him."""
    return RequestContext(0, CLIENT_ID, host, principal, LISTENER)


@dataclass(frozen=True)
class Call:
    """Who asks for what. `path` and `query` have texts; `body` is empty where nothing was sent."""

    broker: Broker = field(repr=False)
    context: RequestContext
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """All values of those parameters of the query that came more than once."""
    token: str = field(default="", repr=False)
    """What the page of this session sends with changes."""
    cookie: str = field(default="", repr=False)
    known_tag: str = ""
    """The version of the answer that who asks has already (If-None-Match)."""
    is_known: bool = True
    """Whether the gate knows who asks; only public routes are called by others."""
    is_read_only: bool = False

    async def ask(self, request: Message, answer: type[A], version: int | None = None) -> A:
        """What the handler of the wire answers to this request, of who calls; raises its BrokerError."""
        from ottla.broker.requests.served import answering

        api = api_of(request)
        at = api.advertised.max if version is None else version
        context = replace(self.context, api_version=at, api_name=api.name)
        answered = await awaited(answering(self.broker, api)(self.broker, request, context))
        assert isinstance(answered, answer), f"{api} is answered with {type(answered).__name__}"
        return answered

    async def ask_by_bytes(self, request: Message, answer: type[A], version: int) -> A:
        """The same for Produce, whose handler reads frames and not messages."""
        from ottla.broker.requests.dispatch import codec_of
        from ottla.broker.requests.served import handler_of

        api = api_of(request)
        read, write = codec_of(api, version)
        frame, _ = read(memoryview(bytearray(b"".join(map(bytes, encode(request, version))))), 0)
        context = replace(self.context, api_version=version, api_name=api.name)
        answered = await awaited(handler_of(api).handle(self.broker, frame, context))
        return decode(answer, version, b"".join(map(bytes, write(answered))))

    def may(self, need: Need, name: str = CLUSTER) -> bool:
        """May who calls do this with that resource?"""
        return need.is_met(self.broker, self.context, name)

    def check(self, need: Need, name: str = CLUSTER) -> None:
        """Raise the wire's error when he may not."""
        need.check(self.broker, self.context, name)

    # -- what was sent -----------------------------------------------------------------------------------------------

    def number(self, name: str, default: int, *, at_least: int = 0, at_most: int = (1 << 63) - 1) -> int:
        """A parameter of the query as a whole number between bounds."""
        text = self.query.get(name, "")
        if not text:
            return default
        try:
            found = int(text)
        except ValueError:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{name}={text!r} is not a whole number") from None
        if not at_least <= found <= at_most:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{name} is between {at_least} and {at_most}, not {found}")
        return found

    def index(self, name: str) -> int:
        """A part of the path that is the number of a partition."""
        text = self.path[name]
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise HttpError(HTTPStatus.NOT_FOUND, f"{text!r} is not the number of a partition")
        return int(text)

    def json(self) -> Mapping[str, Json]:
        """The object that was sent."""
        try:
            found: Json = read_json(self.body)
        except TooManyValues as error:
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body cannot be read: {error}") from None
        except (ValueError, RecursionError):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
        if not isinstance(found, Mapping):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
        return found
