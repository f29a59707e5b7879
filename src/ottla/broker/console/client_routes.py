"""Clients over HTTP: those that push their numbers here, and asking them to."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from ottla.broker.console.clients import client_list, watch_clients
from ottla.broker.console.needs import DESCRIBE_CLUSTER
from ottla.broker.http.call import Call
from ottla.broker.http.parts import KNOWN, HttpError, Reply, Route, may, reply


async def read_clients(call: Call) -> Reply:
    return reply(await client_list(call.broker))


async def change_watch(call: Call) -> Reply:
    is_on = call.json().get("watch")
    if not isinstance(is_on, bool):
        raise HttpError(HTTPStatus.BAD_REQUEST, "watch is true or false")
    await watch_clients(call, is_on=is_on)
    return reply({"watch": is_on})


BODY: Final = {"watch": "true asks all clients that allow it for their numbers once a second, false ends that"}
ROUTES: Final = (
    Route("GET", "/api/clients", read_clients, may(DESCRIBE_CLUSTER), "Clients that push their numbers here."),
    Route("POST", "/api/clients/watch", change_watch, KNOWN, "Ask clients for their numbers.", body=BODY),
)
