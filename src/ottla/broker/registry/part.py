"""The registry at its own address: every operation is a route of the HTTP door (http/parts.py), at Confluent's path.

1. Answers and errors look like Confluent's: {"error_code": 40401, "message": ...}, and their content type is its own.
2. With access rules, reading wants READ on the subject, registering WRITE, deleting DELETE, levels and modes
   ALTER_CONFIGS; how subjects are called in rules says rights.py. Nobody but the broker writes the topic _schemas.
3. A subject may have slashes in it: references of Protobuf are called like files.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ottla.broker.http.parts import KNOWN, Csrf, Handler, HttpError, Part, Reply, Route
from ottla.broker.registry.errors import RegistryError
from ottla.broker.registry.operations import OPERATIONS, Operation
from ottla.broker.registry.requests import DEFAULT_CONTEXT, Request
from ottla.broker.registry.rights import authorize, visible

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.http.call import Call

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
BODY_LIMIT_BYTES: Final = 4 << 20
VERSION: Final = "8.0.0"
"""Of Confluent's registry whose interface this is; clients ask for it."""


def make_part(broker: Broker) -> Part:
    routes = [_route(each, each.path) for each in OPERATIONS]
    # Longer paths first: the name of a subject may have slashes.
    routes.sort(key=lambda route: (-route.path.count("/"), "{" in route.path))
    return Part("registry", (*_about(), *routes), write_error=_write_error)


def _route(operation: Operation, path: str) -> Route:
    return Route(
        operation.method,
        path.replace("{subject}", "{subject:path}"),
        _handler(operation),
        KNOWN,
        operation.doc,
        body={"schema": "the schema, its schemaType and references"} if operation.method in ("POST", "PUT") else {},
        csrf=Csrf.CONTENT,
        body_limit_bytes=BODY_LIMIT_BYTES,
    )


def _handler(operation: Operation) -> Handler:
    async def handle(call: Call) -> Reply:
        request = Request(call.path, call.query, call.body, call.repeated)
        try:
            await authorize(call, operation, request)
            value = visible(call, operation, await call.broker.schema_registry.answer(operation, request))
        except RegistryError as error:
            return Reply({"error_code": error.code, "message": error.message}, error.status, content_type=CONTENT_TYPE)
        if isinstance(value, str):
            return Reply(content=value.encode(), content_type="text/plain; charset=utf-8")
        return Reply(value, content_type=CONTENT_TYPE)

    return handle


def _write_error(error: HttpError) -> Reply:
    value = {"error_code": error.status.value, "message": error.message}
    return Reply(value, HTTPStatus(error.status), content_type=CONTENT_TYPE, headers=error.headers)


def _about() -> tuple[Route, ...]:
    """What clients ask about the registry itself."""

    async def root(call: Call) -> Reply:
        return Reply({}, content_type=CONTENT_TYPE)

    async def cluster(call: Call) -> Reply:
        clusters = {"kafka-cluster": call.broker.image.cluster_id, "schema-registry-cluster": "schema-registry"}
        return Reply({"id": "", "scope": {"path": [], "clusters": clusters}}, content_type=CONTENT_TYPE)

    async def version(call: Call) -> Reply:
        return Reply({"version": VERSION, "commitId": "ottla"}, content_type=CONTENT_TYPE)

    async def context(call: Call) -> Reply:
        name = call.path["context"].strip(":")
        if name == DEFAULT_CONTEXT:
            why = "the default context is served without its name in the path"
        else:
            why = f"contexts are not supported, so there is no {name!r}"
        return Reply({"error_code": 42208, "message": why}, HTTPStatus.UNPROCESSABLE_ENTITY, content_type=CONTENT_TYPE)

    contexts = tuple(
        Route(method, "/contexts/{context}/{rest:path}", context, KNOWN, "Contexts are not served.", csrf=Csrf.CONTENT)
        for method in ("GET", "POST", "PUT", "DELETE")
    )
    return (
        Route("GET", "/", root, KNOWN, "Whether the registry is there."),
        Route("GET", "/v1/metadata/id", cluster, KNOWN, "The cluster that it belongs to."),
        Route("GET", "/v1/metadata/version", version, KNOWN, "The version of the interface."),
        *contexts,
    )
