"""A client of a schema registry that speaks Confluent's REST interface: ours, Confluent's, Redpanda's.

    registry = SchemaRegistry("http://127.0.0.1:8081")
    schema_id = registry.register("clicks-value", SchemaText("AVRO", text))

1. A schema never changes under its id: what was asked once is not asked again. Both caches are bounded.
2. Every question has a time limit and is asked again after failures that may pass, a few times.
3. User and password come from the address (https://user:secret@host), and are never shown: not in errors, not in repr.
4. Calls block: a serializer asks once per subject and per id, and then never again.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ottla.errors import OttlaError
from ottla.schemas.model import AVRO, Reference, SchemaText

TRIES: Final = 3
TIMEOUT_S: Final = 10.0
WAIT_S: Final = 0.5
CACHE_MAX: Final = 1_000
ANSWER_BYTES_MAX: Final = 16_777_216
REFERENCES_MAX: Final = 1_000
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
PASSING: Final = (408, 429)

K = TypeVar("K")
V = TypeVar("V")
Send = Callable[[urllib.request.Request], bytes]


class RegistryFailed(OttlaError):
    """The schema registry could not be asked, or refused.
    See whether its address, user and password are right; the message has its own words."""

    def __init__(self, detail: str | None = None, *, status: int = -1, code: int = -1) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code


class SchemaNotFound(RegistryFailed):
    """The schema registry does not have this schema. Register it, or see whether this is the right registry."""


class SchemaRegistry:
    """One registry; `send` is for tests."""

    def __init__(
        self, url: str, *, send: Send | None = None, sleep: Callable[[float], None] = time.sleep, tries: int = TRIES
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the address of a schema registry is http://host:port or https://user:password@host")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        address = f"{host}:{parts.port}" if parts.port else host
        self._base = urllib.parse.urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        if parts.username is not None:
            secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
        self._send = send or _send
        self._sleep = sleep
        self._tries = tries
        self._ids: OrderedDict[tuple[str, SchemaText], int] = OrderedDict()
        self._schemas: OrderedDict[tuple[int, str], SchemaText] = OrderedDict()

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._base!r})"

    # -- what serializers need -----------------------------------------------------------------------------------------

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> int:
        """The id of a schema, which becomes a version of the subject if it is none yet."""
        known = self._ids.get((subject, schema))
        if known is not None:
            return known
        query = "?normalize=true" if normalize else ""
        answer = self._ask_for(("id",), "POST", f"/subjects/{_quoted(subject)}/versions{query}", schema_body(schema))
        return _kept(self._ids, (subject, schema), int(answer["id"]))

    def look_up(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> int:
        """The id of a schema that is a version of the subject; SchemaNotFound when it is none."""
        known = self._ids.get((subject, schema))
        if known is not None:
            return known
        query = "?normalize=true" if normalize else ""
        answer = self._ask_for(("id",), "POST", f"/subjects/{_quoted(subject)}{query}", schema_body(schema))
        return _kept(self._ids, (subject, schema), int(answer["id"]))

    def schema(self, schema_id: int, form: str = "") -> SchemaText:
        """The schema with this id; `form` is "serialized" for descriptors of Protobuf."""
        known = self._schemas.get((schema_id, form))
        if known is not None:
            return known
        query = f"?format={form}" if form else ""
        answer = self._ask_for(("schema",), "GET", f"/schemas/ids/{schema_id}{query}")
        return _kept(self._schemas, (schema_id, form), read_schema(answer))

    def latest(self, subject: str) -> tuple[int, SchemaText]:
        """The id and the schema of the newest version of a subject; asked every time."""
        answer = self._ask_for(("id", "schema"), "GET", f"/subjects/{_quoted(subject)}/versions/latest")
        return int(answer["id"]), read_schema(answer)

    def version(self, subject: str, version: int, form: str = "") -> SchemaText:
        """A version of a subject."""
        query = f"?format={form}" if form else ""
        path = f"/subjects/{_quoted(subject)}/versions/{version}{query}"
        return read_schema(self._ask_for(("schema",), "GET", path))

    def version_of(self, subject: str, schema: SchemaText) -> int:
        """Which version of a subject this schema is."""
        answer = self._ask_for(("version",), "POST", f"/subjects/{_quoted(subject)}", schema_body(schema))
        return int(answer["version"])

    def imports(self, schema: SchemaText, form: str = "") -> dict[str, str]:
        """The texts of all that a schema refers to, each before those that use it."""
        found: dict[str, str] = {}
        self._collect(schema, form, found)
        return found

    def _collect(self, schema: SchemaText, form: str, found: dict[str, str]) -> None:
        for reference in schema.references:
            if reference.name in found:
                continue
            if len(found) >= REFERENCES_MAX:
                raise RegistryFailed(f"a schema refers to more than {REFERENCES_MAX} others")
            inner = self.version(reference.subject, reference.version, form)
            self._collect(inner, form, found)
            found[reference.name] = inner.text

    # -- asking --------------------------------------------------------------------------------------------------------

    def _ask_for(self, names: tuple[str, ...], method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """An answer that has these names; RegistryFailed when it is something else."""
        answer = self.ask(method, path, body)
        if not isinstance(answer, dict) or not all(name in answer for name in names):
            raise RegistryFailed(f"{self._base}{path} answers without {' and '.join(names)}: is it a schema registry?")
        return answer

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What the registry answers; RegistryFailed when it does not, or refuses."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, content, self._headers, method=method)
        for left in reversed(range(self._tries)):
            try:
                return json.loads(self._send(request))
            except urllib.error.HTTPError as error:
                failure = _refusal(f"{self._base}{path}", error)
                if (error.code < 500 and error.code not in PASSING) or not left:
                    raise failure from None
            except (OSError, ValueError) as error:
                if not left:
                    raise RegistryFailed(f"{self._base}{path}: {error}") from None
            self._sleep(WAIT_S)
        raise AssertionError("the last try returns or raises")


def schema_body(schema: SchemaText) -> dict[str, Any]:
    """A schema as requests have it."""
    made: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        made["schemaType"] = schema.kind
    if schema.references:
        made["references"] = [each._asdict() for each in schema.references]
    if schema.metadata:
        made["metadata"] = json.loads(schema.metadata)
    if schema.rule_set:
        made["ruleSet"] = json.loads(schema.rule_set)
    return made


def read_schema(answer: Mapping[str, Any]) -> SchemaText:
    """A schema as answers have it."""
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in answer.get("references") or ()
    )
    kept = [json.dumps(answer[name]) if answer.get(name) else "" for name in ("metadata", "ruleSet")]
    return SchemaText(answer.get("schemaType") or AVRO, str(answer["schema"]), references, *kept)


def _kept(cache: OrderedDict[K, V], key: K, value: V) -> V:
    cache[key] = value
    while len(cache) > CACHE_MAX:
        cache.popitem(last=False)
    return value


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")


def _refusal(url: str, error: urllib.error.HTTPError) -> RegistryFailed:
    try:
        found = json.loads(error.read(100_000))
        code, message = int(found.get("error_code", error.code)), str(found.get("message", error.reason))
    except (OSError, ValueError, AttributeError, TypeError):
        code, message = error.code, str(error.reason)
    kind = SchemaNotFound if error.code == 404 else RegistryFailed
    return kind(f"{url} answers {code}: {message}", status=error.code, code=code)


def _send(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    if len(content) > ANSWER_BYTES_MAX:
        raise ValueError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
    return content
