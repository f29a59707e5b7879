"""Schemas over HTTP, for the console's page of them: the subjects, and one of them with its versions.

1. What is shown is what the registry answers to its own operations (registry/operations.py), here or on the broker that
   leads its topic: the console has no second truth. Whoever may READ the topic _schemas sees it, as at the registry.
2. It is there without the registry's listener, too: a cluster may have it on another broker. `is_served` says
   whether this broker has it, and `address` where, if the setting names a port.
3. Bounded: a list has LIST_LIMIT subjects, a subject shows its newest VERSIONS_LIMIT versions.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from ottla.broker.console.needs import READ_TOPIC
from ottla.broker.http.call import Call
from ottla.broker.http.parts import KNOWN, HttpError, Json, Query, Reply, Route, reply
from ottla.broker.registry.rights import READ_LISTED, resource_of

LIST_LIMIT: Final = 200
VERSIONS_LIMIT: Final = 50

SUBJECTS: Final = "GET /subjects"
VERSIONS: Final = "GET /subjects/{subject}/versions"
VERSION: Final = "GET /subjects/{subject}/versions/{version}"


async def read_subjects(call: Call) -> Reply:
    text, first = call.query.get("contains", "").lower(), call.number("first", 0)
    names = [
        name
        for name in _list(await _ask(call, SUBJECTS))
        if isinstance(name, str) and text in name.lower() and call.may(READ_LISTED, resource_of(name))
    ]
    limit = call.number("limit", 50, at_least=1, at_most=LIST_LIMIT)
    rows: list[Json] = [await _row(call, name) for name in names[first : first + limit]]
    level = _object(await _ask(call, "GET /config"))
    address = call.broker.settings.schema_registry_address
    return reply(
        {
            "subjects": rows,
            "total": len(names),
            "level": level["compatibilityLevel"],
            "is_served": address is not None,
            "address": f"{address[0]}:{address[1]}" if address is not None and address[1] else None,
        }
    )


async def _row(call: Call, name: str) -> Json:
    latest = _object(await _ask(call, VERSION, subject=name, version="latest"))
    versions = _list(await _ask(call, VERSIONS, subject=name))
    return {
        "name": name,
        "kind": latest.get("schemaType") or "AVRO",
        "versions": len(versions),
        "version": latest["version"],
        "id": latest["id"],
    }


async def read_subject(call: Call) -> Reply:
    name = call.path["subject"]
    call.check(READ_TOPIC, resource_of(name))
    numbers = _list(await _ask(call, VERSIONS, subject=name))
    shown = [_object(await _ask(call, VERSION, subject=name, version=each)) for each in numbers[-VERSIONS_LIMIT:]]
    used: dict[str, Json] = {}
    for each in shown:
        path = "GET /subjects/{subject}/versions/{version}/referencedby"
        used[str(each["version"])] = await _ask(call, path, subject=name, version=each["version"])
    return reply(
        {
            "name": name,
            "versions": list(reversed(shown)),
            "total": len(numbers),
            "used_by": used,
            "level": _object(await _ask(call, "GET /config/{subject}", subject=name))["compatibilityLevel"],
            "mode": _object(await _ask(call, "GET /mode/{subject}", subject=name))["mode"],
        }
    )


async def _ask(call: Call, operation: str, **path: Json) -> Json:
    """What the registry answers; levels and modes are those that hold, own ones or not."""
    # The registry's code is loaded when somebody looks at schemas: the first page of a console waits for what is above.
    from ottla.broker.registry.errors import RegistryError
    from ottla.broker.registry.operations import BY_NAME
    from ottla.broker.registry.requests import Request

    request = Request({name: str(value) for name, value in path.items()}, {"defaultToGlobal": "true"})
    try:
        return await call.broker.schema_registry.answer(BY_NAME[operation], request)
    except RegistryError as error:
        raise HttpError(HTTPStatus(error.status), error.message, name=f"REGISTRY_{error.code}") from None


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list), "the registry answers a list"
    return value


def _object(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict), "the registry answers an object"
    return value


LISTED: Final = (
    Query("contains", "Only subjects whose names contain this."),
    Query("first", "How many to pass over.", "integer"),
    Query("limit", f"How many, at most {LIST_LIMIT}.", "integer"),
)
ROUTES: Final = (
    Route("GET", "/api/schemas", read_subjects, KNOWN, "The subjects of the schema registry.", LISTED),
    Route("GET", "/api/schemas/{subject:path}", read_subject, KNOWN, "A subject with its versions."),
)
