"""The routes of a door as an OpenAPI description: made from their declarations, so it cannot say anything else."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.broker.http.parts import Json, Part, Route


def openapi(parts: Iterable[Part], version: str) -> Json:
    paths: dict[str, dict[str, Json]] = {}
    for part in parts:
        for route in part.routes:
            if part.name != "console" or route.path.startswith("/api/"):  # and not the files of the page
                path = route.path.replace(":path}", "}")
                paths.setdefault(path, {})[route.method.lower()] = _operation(part, route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ottla", "version": version},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "password": {"type": "http", "scheme": "basic"},
                "session": {"type": "apiKey", "in": "header", "name": "X-Ottla-Token"},
            }
        },
    }


def _operation(part: Part, route: Route) -> Json:
    made: dict[str, Json] = {
        "summary": route.doc,
        "description": f"For {route.right}.",
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "tags": [part.name],
        "parameters": [*_in_path(route), *_in_query(route)],
        "responses": {"200": {"description": "the answer"}, "default": {"description": "error and message"}},
        "security": [{}] if route.right.is_public else [{"password": []}, {"session": []}],
    }
    if route.body:
        fields: dict[str, Json] = {name: {"description": doc} for name, doc in route.body.items()}
        made["requestBody"] = {"content": {"application/json": {"schema": {"type": "object", "properties": fields}}}}
    return made


def _in_path(route: Route) -> list[Json]:
    names = re.findall(r"\{(\w+)(?::\w+)?\}", route.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _in_query(route: Route) -> list[Json]:
    return [
        {"name": each.name, "in": "query", "description": each.doc, "schema": {"type": each.kind}}
        for each in route.query
    ]
