"""What every HTTP request must pass before a route hears of it: plain decisions on the head of a request.

    caller = await gate.admit(route, head)         # raises HttpError with the answer when it may not

1. **Host.** On the loopback only loopback names are answered, elsewhere addresses, this machine's names, those that are
   advertised and ottla.admin.allowed.hosts: a page whose name was made to point here (DNS rebinding) reads nothing.
2. **Login** (ottla.admin.login): a session's cookie, or name and password with every request (HTTP Basic). Where no
   login is wanted, whoever asks is User:ANONYMOUS, as at a listener without logins.
3. **Rights**: the need that the route declares, asked of the authorizer of the wire; OpenAccess where there is none.
4. **CSRF**: a change is refused when the browser says that another site's page sent it (Origin, Sec-Fetch-Site), unless
   its content type is JSON, and unless it has the token of its session, or a password. Without logins there is one
   token, which only pages of this origin can read.
5. **Read-only**: changes are refused, for everybody.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.http.call import context_of
from ottla.broker.http.parts import Csrf, HttpError, Route
from ottla.broker.http.sessions import Sessions
from ottla.broker.observe.admin_login import BasicLogin, basic_login
from ottla.broker.requests.context import RequestContext
from ottla.broker.security.access import CLUSTER
from ottla.broker.settings.endpoints import is_loopback
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ANONYMOUS: Final = "User:ANONYMOUS"
JSON_TYPES: Final = ("application/json", "application/vnd.")
SAME_SITE: Final = ("", "same-origin", "none")
LOGIN_FIRST: Final = "log in first: open / in a browser, or send a name and password (curl --user NAME)"


class Head(NamedTuple):
    """What the gate reads of a request; "" is for headers that are not there."""

    hosts: tuple[str, ...] = ()
    origin: str = ""
    fetch_site: str = ""
    content_type: str = ""
    authorization: str = ""
    cookie: str = ""
    token: str = ""
    peer: str = ""


class Caller(NamedTuple):
    """Who asks, and the token that his page sends."""

    context: RequestContext
    token: str
    is_known: bool


class Login(Protocol):
    """Checks passwords, observe.admin_login.AdminLogin."""

    def fits(self, login: BasicLogin) -> Awaitable[bool]:
        """Whether this is the password of that user; takes its time when it is not."""

    def holder(self, user: str) -> Callable[[], bool]:
        """Whether the user still has the password that he has now."""


@dataclass
class Gate:
    """`login` None is that nobody has to log in. `hosts` are names that are ours, None is only loopback names."""

    broker: Broker
    login: Login | None
    sessions: Sessions
    open_token: str = field(repr=False)
    hosts: Collection[str] | None = None
    is_read_only: bool = False

    async def admit(self, route: Route, head: Head) -> Caller:
        self.check_host(head.hosts, any_host=route.any_host)
        if route.changes:
            self._check_origin(route, head)
        caller = await self._caller(route, head)
        if route.changes and route.csrf is Csrf.TOKEN and not route.right.is_public:
            self._check_token(head, caller)
        return caller

    def authorize(self, route: Route, caller: Caller, path: dict[str, str]) -> None:
        """Raise what the wire would answer where the caller does not meet the route's need."""
        need, parameter = route.right.need, route.right.parameter
        if need is not None:
            need.check(self.broker, caller.context, path[parameter] if parameter else CLUSTER)
        if route.changes and self.is_read_only and not route.right.is_public:
            raise HttpError(
                HTTPStatus.FORBIDDEN, "this console is read-only (ottla.console.read.only)", name="READ_ONLY"
            )

    # -- where it was sent -------------------------------------------------------------------------------------------

    def check_host(self, hosts: tuple[str, ...], *, any_host: bool = False) -> None:
        if len(hosts) != 1:
            raise HttpError(HTTPStatus.BAD_REQUEST, "one Host header is needed")
        name = host_name(hosts[0])
        if self.hosts is None:
            if not is_loopback(name):
                raise HttpError(HTTPStatus.FORBIDDEN, "this listener is for the machine itself; ask for localhost")
        elif not (any_host or is_loopback(name) or _is_address(name) or name.lower() in self.hosts):
            raise HttpError(
                HTTPStatus.FORBIDDEN, "this is not a name of this broker; ottla.admin.allowed.hosts can have more"
            )

    def _check_origin(self, route: Route, head: Head) -> None:
        if head.fetch_site not in SAME_SITE:
            raise HttpError(HTTPStatus.FORBIDDEN, "sent by a page of another site", name="CROSS_SITE")
        if head.origin and head.origin.partition("://")[2].lower() != head.hosts[0].lower():
            raise HttpError(HTTPStatus.FORBIDDEN, f"sent by a page of {head.origin[:200]}", name="CROSS_SITE")
        if route.method != "DELETE" and not head.content_type.lower().startswith(JSON_TYPES):
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON, with Content-Type: application/json")

    # -- who sent it -------------------------------------------------------------------------------------------------

    async def _caller(self, route: Route, head: Head) -> Caller:
        if self.login is None:
            return Caller(context_of(ANONYMOUS, head.peer), self.open_token, True)
        session = self.sessions.find(head.cookie) if head.cookie else None
        if session is not None:
            return Caller(context_of(f"User:{session.user}", head.peer), session.token, True)
        basic = basic_login([f"Authorization: {head.authorization}"]) if head.authorization else None
        if basic is not None and await self.login.fits(basic):
            return Caller(context_of(f"User:{basic.user}", head.peer), "", True)
        if route.right.is_public:
            return Caller(context_of(ANONYMOUS, head.peer), "", False)
        # A browser has a page to log in; a box that asks for a password would be in its way.
        asks = {} if head.fetch_site else {"WWW-Authenticate": 'Basic realm="ottla", charset="UTF-8"'}
        raise HttpError(HTTPStatus.UNAUTHORIZED, LOGIN_FIRST, name="LOGIN_NEEDED", headers=asks)

    def _check_token(self, head: Head, caller: Caller) -> None:
        """Without a token of its own the caller has sent a password, which no strange page can make a browser do: its
        content type and origin were checked."""
        if caller.token and not hmac.compare_digest(caller.token.encode(), head.token.encode()):
            raise HttpError(
                HTTPStatus.FORBIDDEN, "send the token of GET /api/session as X-Ottla-Token", name="TOKEN_NEEDED"
            )


def host_name(host: str) -> str:
    """Of a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
