"""For every route of every part the worst calls that somebody thought of, beside those that all routes get.

CALLS has an entry for every route; one that is added without a thought fails a test. An entry is a list of calls, or
the sentence that says why the generic ones are enough. Static files of the console are one entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import quote, urlencode

from tests.hostile_work.attack import Attacked, HttpAttacker
from tests.hostile_work.prefill import RECORDS
from tests.hostile_work.records import nested
from tests.hostile_work.schemas import hostile_pairs, hostile_schemas, registered

from ottla.broker.http.parts import Route

USUAL = {
    "topic": RECORDS,
    "partition": "0",
    "offset": "0",
    "group": "bob-000001",
    "id": "1",
    "kind": "topic",
    "name": RECORDS,
    "user": "bob",
    "version": "1",
    "file": "app.js",
    "subject": "bob-records-value",
    "context": ".",
    "rest": "subjects",
    "guid": "0",
}
"""What the parts of a path are where an attack is about something else."""
HEAD_BYTES = 14_000  # a head may have a little more
BODY_BYTES = 1_000_000
PARTS = {
    "long": "x" * HEAD_BYTES,
    "digits": "9" * 4_000,
    "slashes": "a/" * 5_000,
    "dots": "../" * 3_000,
    "zeros": "%00" * 3_000,
    "not UTF-8": "%ff" * 4_000,
    "percents": "%" * 5_000,
}
BODIES = {
    "brackets": b"[" * BODY_BYTES,
    "nested": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "lists": b'{"a":[' + b"[]," * 300_000 + b"[]]}",
    "names": b"{" + b",".join(b'"k%d":1' % number for number in range(70_000)) + b"}",
    "one name": b"{" + b",".join([b'"schema":1'] * 80_000) + b"}",
    "a number": b'{"a":' + b"9" * (BODY_BYTES - 10) + b"}",
    "an exponent": b'{"a":1e' + b"9" * 1_000 + b"}",
    "a text": b'{"a":"' + b"\\u0041" * 160_000 + b'"}',
    "not UTF-8": b"\xff" * BODY_BYTES,
}


class Call(NamedTuple):
    """`target` None is the route's own path with the usual parts."""

    name: str
    target: str | None = None
    body: bytes | None = None
    query: str = ""
    user: str = "bob"
    headers: Mapping[str, str] = {}


def path_of(route: Route, **parts: str) -> str:
    chosen = {**USUAL, **parts}
    return re.sub(r"\{(\w+)(?::path)?\}", lambda match: chosen[match[1]], route.path)


def generic_calls(route: Route, *, is_long: bool) -> Iterator[Call]:
    if route.method == "DELETE":  # what is there is needed by other attacks
        yield Call(
            "what is not there", path_of(route, **dict.fromkeys(("topic", "group", "id", "subject"), "bob-none"))
        )
    else:
        yield Call("as usual")
    parameters = re.findall(r"\{(\w+)(?::path)?\}", route.path)
    parts = PARTS if is_long else {"digits": PARTS["digits"]}
    for parameter in parameters:
        for name, text in parts.items():
            yield Call(f"{parameter} of {name}", path_of(route, **{parameter: text}))
    for query in route.query if is_long else route.query[:2]:
        for name, text in parts.items() if is_long else [("digits", PARTS["digits"])]:
            yield Call(f"{query.name} of {name}", query=f"{query.name}={text}")
    if is_long or route.query:
        yield Call("3,000 parameters", query="&".join(f"a{number}=" for number in range(2_000)))
    if route.method in ("POST", "PUT"):
        bodies = BODIES if is_long else {name: BODIES[name] for name in ("lists",)}
        for name, body in bodies.items():
            yield Call(f"a body of {name}", body=body)
        for field in route.body if is_long else ():
            yield Call(
                f"{field} that is long",
                body=json.dumps({**_usual_body(route), field: "x" * BODY_BYTES}).encode()[:BODY_BYTES],
            )
            yield Call(f"{field} that is nested", body=b'{"%s":' % field.encode() + nested(b"[", b"]", 400) + b"}")
            yield Call(f"{field} that is a number", body=b'{"%s":1e400}' % field.encode())
            yield Call(f"{field} that is a list", body=json.dumps({field: list(range(100_000))}).encode())


def _usual_body(route: Route) -> dict[str, object]:
    return dict.fromkeys(route.body, "x")


# -- crafted ----------------------------------------------------------------------------------------------------------

FILTERS = (
    " and ".join(["value.a.b[0] == 1"] * 45),
    "(" * 39 + "value.a" + ")" * 39,
    "not " * 39 + "value.a",
    "value" + "[0]" * 300,
    "value.a in (" + ",".join(["1"] * 400) + ")",
    'value contains "' + "a" * 900 + '"',
    "value.a == " + "9" * 900,
    "value.a == 1e" + "9" * 900,
    "headers.h59999 == 1 and headers.h1 == 2",
    "key startswith 'k' or size > 1 or timestamp > 1",
    "value == value",
    '"' + "\\" * 900,
)


def _records() -> list[Call]:
    calls = [Call("all of them, from the first on", query="from=earliest&limit=500")]
    calls += [Call("the last ones", query="limit=500"), Call("by time", query="from=time&timestamp=1&limit=500")]
    calls += [
        Call(f"filter {filter_[:30]}", query=urlencode({"from": "earliest", "limit": 500, "filter": filter_}))
        for filter_ in FILTERS
    ]
    calls += [Call("a text that is nowhere", query=urlencode({"from": "earliest", "text": "z" * 3_000}))]
    calls += [Call("a cursor of 3,000 partitions", query="after=" + ",".join(f"{number}:0" for number in range(1_500)))]
    calls += [
        Call("a cursor of large numbers", query="before=0:" + "9" * 4_000),
        Call("offset of large numbers", query="from=offset&offset=" + "9" * 4_000),
    ]
    return calls


def _each_record() -> list[Call]:
    return [
        Call(f"record {offset}", f"/api/topics/{RECORDS}/partitions/0/records/{offset}")
        for offset in (*range(24), 400_000, 1_200_025)
    ]


def _written() -> list[Call]:
    headers = {f"h{number}": "v" for number in range(50_000)}
    return [
        Call("a value of a megabyte", body=json.dumps({"key": "k", "value": "v" * 900_000}).encode()),
        Call("50,000 headers", body=json.dumps({"key": "k", "value": "v", "headers": headers}).encode()),
        Call("a partition that is large", body=b'{"value":"v","partition":' + b"9" * 4_000 + b"}"),
    ]


def _schemas(path: str, *, is_registered: bool = False) -> list[Call]:
    calls = []
    for number, (name, kind, text) in enumerate(hostile_schemas()):
        target = path.format(subject=f"bob-hostile-{number}", version="latest")
        calls.append(Call(name, target, registered(kind, text)))
    return calls


def _compared(path: str) -> list[Call]:
    """The first of each pair is registered by an earlier call."""
    calls = []
    for number, (name, kind, first, second) in enumerate(hostile_pairs()):
        subject = f"bob-pair-{number}"
        calls.append(Call(f"{name}, registered first", f"/subjects/{subject}/versions", registered(kind, first)))
        calls.append(
            Call(f"{name}, compared", path.format(subject=subject, version="latest"), registered(kind, second))
        )
    return calls


def _references(path: str) -> list[Call]:
    references = [{"name": f"r{n}", "subject": "bob-records-value", "version": 1} for n in range(20_000)]
    body = registered("AVRO", '"string"', references=references)
    rules = registered(
        "AVRO",
        '"string"',
        ruleSet={
            "domainRules": [
                {"name": f"r{n}", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "x" * 50}
                for n in range(5_000)
            ]
        },
    )
    metadata = registered("AVRO", '"string"', metadata={"properties": {f"p{n}": "v" for n in range(20_000)}})
    target = path.format(subject="bob-refers", version="latest")
    return [
        Call("20,000 references", target, body),
        Call("5,000 rules", target, rules),
        Call("20,000 properties", target, metadata),
    ]


REGISTERING = "/subjects/{subject}/versions"
LOOKING_UP = "/subjects/{subject}"
COMPARING = "/compatibility/subjects/{subject}/versions"
COMPARING_ONE = "/compatibility/subjects/{subject}/versions/{version}"
LEVELS = [
    Call(f"{word} that is long", body=json.dumps({word: "x" * BODY_BYTES}).encode())
    for word in ("compatibility", "mode", "alias")
]
NOTHING_SENT = "nothing is sent but the path"
PLAIN = "nothing is sent"
STATIC = "/static/"

CALLS: Mapping[str, Sequence[Call] | str] = {
    "console static files": "they are read from memory by their names",
    "console GET /": PLAIN,
    "console GET /static/{version}/{file:path}": NOTHING_SENT,
    "console GET /api/topics": [
        Call("sorted by what is not there", query="sort=" + "x" * 9_000),
        Call("a page behind the last", query="first=9999999999&limit=500"),
    ],
    "console POST /api/topics": [
        Call("200,000 partitions", body=json.dumps({"name": "bob-http", "partitions": 200_000}).encode()),
        Call("10**400 partitions", body=b'{"name":"bob-http","partitions":1' + b"0" * 400 + b"}"),
        Call(
            "20,000 settings",
            body=json.dumps(
                {"name": "bob-http", "partitions": 1, "settings": {f"s{n}": "v" for n in range(20_000)}}
            ).encode(),
        ),
    ],
    "console GET /api/topics/{topic}": NOTHING_SENT,
    "console DELETE /api/topics/{topic}": [Call("one that is not there", "/api/topics/bob-none")],
    "console GET /api/overview": [Call("by the administrator", user="admin")],
    "console GET /api/brokers": [Call("by the administrator", user="admin")],
    "console GET /api/metadata-log": [Call("by the administrator", user="admin")],
    "console GET /api/rates": [Call("by the administrator", user="admin", query="after=-9999999999")],
    "console GET /api/lag/{group:path}": NOTHING_SENT,
    "console GET /api/topics/{topic}/records": _records(),
    "console GET /api/topics/{topic}/partitions/{partition}/records/{offset}": _each_record(),
    "console POST /api/topics/{topic}/records": _written(),
    "console GET /api/schemas": [Call("a page", query="first=0&limit=500")],
    "console GET /api/schemas/{subject:path}": NOTHING_SENT,
    "console GET /api/settings/{kind}/{name}": [Call("of the broker", "/api/settings/broker/0", user="admin")],
    "console POST /api/settings/{kind}/{name}": [
        Call("a long value", body=json.dumps({"setting": "retention.ms", "value": "9" * 900_000}).encode())
    ],
    "console GET /api/groups": [Call("a page behind the last", query="first=9999999999&limit=500")],
    "console GET /api/groups/{group:path}": NOTHING_SENT,
    "console POST /api/groups/{group:path}/reset": [
        Call(
            "100,000 partitions",
            body=json.dumps(
                {"topic": RECORDS, "partitions": list(range(100_000)), "to": "earliest", "dry_run": True}
            ).encode(),
        ),
        Call("10**400 further", body=b'{"to":"shift","dry_run":true,"value":1' + b"0" * 400 + b"}"),
    ],
    "console DELETE /api/groups/{group:path}": [Call("one that is not there", "/api/groups/bob-none")],
    "console GET /api/transactions": [Call("by the administrator", user="admin")],
    "console GET /api/transactions/{id:path}": [Call("one of his", "/api/transactions/bob-000001")],
    "console DELETE /api/transactions/{id:path}": [Call("one that is not there", "/api/transactions/bob-none")],
    "console POST /api/topics/{topic}/partitions/{partition}/abort": [
        Call("large numbers", body=b'{"producer_id":' + b"9" * 4_000 + b',"producer_epoch":1}', user="admin")
    ],
    "console GET /api/access": [Call("by the administrator", user="admin")],
    "console POST /api/users": [
        Call("a long password", body=json.dumps({"name": "u", "password": "p" * 900_000}).encode(), user="admin"),
        Call(
            "a password to be normalized",
            body=json.dumps({"name": "u", "password": "\ufdfa" * 100_000}).encode(),
            user="admin",
        ),
    ],
    "console DELETE /api/users/{user:path}": [Call("nobody", "/api/users/nobody", user="admin")],
    "console POST /api/rules": [
        Call(
            "a long name",
            body=json.dumps(
                {"resource": "TOPIC", "name": "x" * 900_000, "principal": "User:x", "operation": "ALL"}
            ).encode(),
            user="admin",
        )
    ],
    "console POST /api/rules/remove": [
        Call(
            "all of a long name",
            body=json.dumps(
                {"resource": "TOPIC", "name": "x" * 900_000, "principal": "User:x", "operation": "ALL"}
            ).encode(),
            user="admin",
        )
    ],
    "console POST /api/quotas": [
        Call(
            "a limit without end",
            body=b'{"entity":{"user":"x"},"key":"producer_byte_rate","limit":1e999}',
            user="admin",
        )
    ],
    "console GET /api/clients": [Call("by the administrator", user="admin")],
    "console POST /api/clients/watch": PLAIN,
    "console GET /api/topics/{topic}/partitions/{partition}/inside": NOTHING_SENT,
    "console GET /api/topics/{topic}/partitions/{partition}/place/{offset}": NOTHING_SENT,
    "console GET /api/flow": [Call("by the administrator", user="admin")],
    "console GET /api/findings": [Call("by the administrator", user="admin")],
    "console GET /metrics": [Call("by the administrator", user="admin")],
    "console GET /health/live": PLAIN,
    "console GET /health/ready": PLAIN,
    "console GET /api/session": [Call("a cookie of 10,000 characters", headers={"Cookie": "ottla=" + "x" * 10_000})],
    "console POST /api/login": [
        Call("a long password", body=json.dumps({"user": "bob", "password": "p" * 900_000}).encode()),
        Call("a password to be normalized", body=json.dumps({"user": "bob", "password": "\ufdfa" * 1_000}).encode()),
    ],
    "console POST /api/logout": "it would end the session of the other attacks; the generic ones send bodies",
    "console GET /api/openapi.json": PLAIN,
    "registry GET /": PLAIN,
    "registry GET /v1/metadata/id": PLAIN,
    "registry GET /v1/metadata/version": PLAIN,
    **{
        f"registry {method} /contexts/{{context}}/{{rest:path}}": NOTHING_SENT
        for method in ("GET", "POST", "PUT", "DELETE")
    },
    "registry GET /subjects/{subject:path}/versions/{version}/schema": NOTHING_SENT,
    "registry GET /subjects/{subject:path}/versions/{version}/referencedby": NOTHING_SENT,
    "registry POST /compatibility/subjects/{subject:path}/versions/{version}": _compared(COMPARING_ONE),
    "registry GET /schemas/ids/{id}/schema": NOTHING_SENT,
    "registry GET /schemas/ids/{id}/subjects": NOTHING_SENT,
    "registry GET /schemas/ids/{id}/versions": NOTHING_SENT,
    "registry GET /schemas/guids/{guid}/ids": NOTHING_SENT,
    "registry GET /subjects/{subject:path}/versions/{version}": NOTHING_SENT,
    "registry DELETE /subjects/{subject:path}/versions/{version}": [
        Call("one that is not there", "/subjects/bob-none/versions/1")
    ],
    "registry POST /compatibility/subjects/{subject:path}/versions": [*_compared(COMPARING), *_schemas(COMPARING)],
    "registry GET /schemas/ids/{id}": NOTHING_SENT,
    "registry GET /schemas/guids/{guid}": NOTHING_SENT,
    "registry GET /subjects/{subject:path}/metadata": [
        Call("1,000 keys", query="&".join(f"key=k{n}&value=v" for n in range(900)))
    ],
    "registry GET /subjects/{subject:path}/versions": NOTHING_SENT,
    "registry POST /subjects/{subject:path}/versions": [*_schemas(REGISTERING), *_references(REGISTERING)],
    "registry GET /schemas/types": PLAIN,
    "registry POST /subjects/{subject:path}": [*_schemas(LOOKING_UP), *_references(LOOKING_UP)],
    "registry DELETE /subjects/{subject:path}": [Call("one that is not there", "/subjects/bob-none")],
    "registry GET /config/{subject:path}": NOTHING_SENT,
    "registry PUT /config/{subject:path}": LEVELS,
    "registry DELETE /config/{subject:path}": NOTHING_SENT,
    "registry GET /mode/{subject:path}": NOTHING_SENT,
    "registry PUT /mode/{subject:path}": LEVELS,
    "registry DELETE /mode/{subject:path}": NOTHING_SENT,
    "registry GET /contexts": PLAIN,
    "registry GET /schemas": [Call("all of them", query="deleted=true&latestOnly=true&subjectPrefix=" + "b" * 5_000)],
    "registry GET /subjects": [Call("all of them", query="deleted=true&subjectPrefix=" + "b" * 5_000)],
    "registry GET /config": PLAIN,
    "registry PUT /config": LEVELS,
    "registry DELETE /config": PLAIN,
    "registry GET /mode": PLAIN,
    "registry PUT /mode": LEVELS,
    "registry DELETE /mode": PLAIN,
    "registry GET /api/session": PLAIN,
    "registry POST /api/login": "the same as the console's",
    "registry POST /api/logout": "the same as the console's",
    "registry GET /api/openapi.json": PLAIN,
}
SAMPLED = 4
"""So many crafted calls of a route are in a short run, spread over its list."""


def key_of(part: str, route: Route) -> str:
    """Its place in CALLS."""
    if route.path.startswith(STATIC) and "{" not in route.path:
        return "console static files"
    return f"{part} {route.name}"


def http_attacks(
    attacked: Attacked, part: str, route: Route, *, is_long: bool
) -> Iterator[tuple[str, Callable[[int], None]]]:
    if route.path == "/api/logout":
        generic: Iterator[Call] = iter(())
    else:
        generic = generic_calls(route, is_long=is_long)
    entry = CALLS.get(key_of(part, route), "")
    crafted = [] if isinstance(entry, str) else list(entry)
    if not is_long and len(crafted) > SAMPLED:
        crafted = crafted[:: -(-len(crafted) // SAMPLED)]
    address = attacked.registry if part == "registry" else attacked.admin
    for call in (*generic, *crafted):
        client = attacked.http(address, call.user)
        yield f"{part} {route.name}: {call.name}", partial(_call, client, route, call)


def _call(client: HttpAttacker, route: Route, call: Call, turn: int) -> None:
    target = path_of(route) if call.target is None else call.target
    target = quote(target, safe="/%") + (f"?{call.query}" if call.query else "")
    client.call(route.method, target, call.body, dict(call.headers))
