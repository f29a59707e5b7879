"""Logging in and out in a browser: a password becomes a session's cookie, and the page learns its token."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from ottla.broker.http.call import Call
from ottla.broker.http.parts import PUBLIC, HttpError, Json, Part, Reply, Route, reply
from ottla.broker.http.sessions import LIFE_MS, Sessions
from ottla.broker.observe.admin_login import BasicLogin

if TYPE_CHECKING:
    from ottla.broker.http.gate import Login

NAME_LIMIT = 1_000


def login_part(login: Login | None, sessions: Sessions, cookie: str, describe: Callable[[], Json]) -> Part:
    async def session(call: Call) -> Reply:
        value: dict[str, Json] = {"login_needed": login is not None, "is_known": call.is_known}
        if call.is_known:
            value |= {"user": call.context.principal, "token": call.token, "read_only": call.is_read_only}
        return reply(value)

    async def log_in(call: Call) -> Reply:
        if login is None:
            raise HttpError(HTTPStatus.CONFLICT, "nobody has to log in here (ottla.admin.login)")
        sent = call.json()
        user, password = sent.get("user"), sent.get("password")
        if not (isinstance(user, str) and isinstance(password, str) and user and password):
            raise HttpError(HTTPStatus.BAD_REQUEST, "user and password are needed")
        if max(len(user), len(password)) > NAME_LIMIT or not await login.fits(BasicLogin(user, password)):
            raise HttpError(HTTPStatus.UNAUTHORIZED, "this is not the password of that user", name="LOGIN_FAILED")
        sessions.close(call.cookie)
        key, opened = sessions.open(user, login.holder(user))
        kept = f"{cookie}={key}; Path=/; HttpOnly; SameSite=Strict; Max-Age={LIFE_MS // 1000}"
        return Reply({"user": f"User:{user}", "token": opened.token}, headers={"Set-Cookie": kept})

    async def log_out(call: Call) -> Reply:
        sessions.close(call.cookie)
        gone = f"{cookie}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        return Reply({"is_known": False}, headers={"Set-Cookie": gone})

    async def described(call: Call) -> Reply:
        return reply(describe())

    return Part(
        "login",
        (
            Route("GET", "/api/session", session, PUBLIC, "Who is logged in, and the token that changes need."),
            Route("POST", "/api/login", log_in, PUBLIC, "Log in; the answer sets a cookie.", body=LOGIN),
            Route("POST", "/api/logout", log_out, PUBLIC, "End the session."),
            Route("GET", "/api/openapi.json", described, PUBLIC, "This description."),
        ),
    )


LOGIN = {"user": "its name", "password": "its SCRAM password"}
