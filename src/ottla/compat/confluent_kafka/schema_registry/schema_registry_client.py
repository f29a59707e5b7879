"""confluent_kafka.schema_registry.SchemaRegistryClient, by our client of a registry."""

from __future__ import annotations

import urllib.parse
from typing import Any, Final, Self

from ottla.client.schema_registry.registry import RegistryFailed, SchemaRegistry, read_schema, schema_body
from ottla.compat.confluent_kafka.schema_registry.error import SchemaRegistryError
from ottla.light_dataclasses import dataclass, field
from ottla.schemas.model import Reference, SchemaText

KNOWN: Final = ("url", "basic.auth.user.info", "basic.auth.credentials.source", "max.retries", "timeout")


@dataclass(frozen=True)
class SchemaReference:
    """A schema that another one uses."""

    name: str | None
    subject: str | None
    version: int | None


@dataclass(frozen=True)
class Schema:
    """A schema, and what it refers to."""

    schema_str: str | None
    schema_type: str | None = "AVRO"
    references: list[SchemaReference] | None = field(default_factory=list)

    def text(self) -> SchemaText:
        """The same for our client."""
        references = tuple(
            Reference(str(each.name), str(each.subject), int(each.version or 0)) for each in self.references or ()
        )
        return SchemaText(self.schema_type or "AVRO", self.schema_str or "", references)

    @classmethod
    def of(cls, text: SchemaText) -> Schema:
        return cls(text.text, text.kind, [SchemaReference(*each) for each in text.references])


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema with its place in the registry."""

    subject: str | None
    version: int | None
    schema_id: int | None
    guid: str | None
    schema: Schema | None


@dataclass(frozen=True)
class SchemaVersion:
    """A subject, and the version that a schema has there."""

    subject: str | None
    version: int | None


class SchemaRegistryClient:
    """Settings are `url`, `basic.auth.user.info` (name:password) and `max.retries`; others are refused."""

    def __init__(self, conf: dict[str, Any]) -> None:
        unknown = [name for name in conf if name not in KNOWN]
        if unknown:
            raise ValueError(f"Unrecognized properties: {', '.join(unknown)}")
        url = conf.get("url")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ValueError("Missing required configuration property url")
        if user := conf.get("basic.auth.user.info"):
            name, _, password = str(user).partition(":")
            parts = urllib.parse.urlsplit(url)
            login = f"{urllib.parse.quote(name, safe='')}:{urllib.parse.quote(password, safe='')}"
            url = urllib.parse.urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))
        self.registry = SchemaRegistry(url, tries=1 + int(conf.get("max.retries", 3)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing stays open between two questions."""

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The registry's answer; SchemaRegistryError when it refuses."""
        try:
            return self.registry.ask(method, path, body)
        except RegistryFailed as error:
            raise SchemaRegistryError(error.status, error.code, str(error)) from None

    # -- schemas -------------------------------------------------------------------------------------------------------

    def register_schema(self, subject_name: str, schema: Schema, normalize_schemas: bool = False) -> int:
        return int(self.register_schema_full_response(subject_name, schema, normalize_schemas).schema_id or 0)

    def register_schema_full_response(
        self, subject_name: str, schema: Schema, normalize_schemas: bool = False
    ) -> RegisteredSchema:
        query = f"?normalize={str(normalize_schemas).lower()}"
        answer = self.ask("POST", f"/subjects/{_quoted(subject_name)}/versions{query}", schema_body(schema.text()))
        return RegisteredSchema(subject_name, answer.get("version"), answer["id"], answer.get("guid"), schema)

    def get_schema(self, schema_id: int, subject_name: str | None = None, fmt: str | None = None) -> Schema:
        try:
            return Schema.of(self.registry.schema(schema_id, fmt or ""))
        except RegistryFailed as error:
            raise SchemaRegistryError(error.status, error.code, str(error)) from None

    def lookup_schema(
        self, subject_name: str, schema: Schema, normalize_schemas: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        query = f"?normalize={str(normalize_schemas).lower()}&deleted={str(deleted).lower()}"
        return _registered(self.ask("POST", f"/subjects/{_quoted(subject_name)}{query}", schema_body(schema.text())))

    def get_latest_version(self, subject_name: str, fmt: str | None = None) -> RegisteredSchema:
        return self.get_version(subject_name, "latest", fmt=fmt)

    def get_version(
        self, subject_name: str, version: int | str = "latest", deleted: bool = False, fmt: str | None = None
    ) -> RegisteredSchema:
        query = f"?deleted={str(deleted).lower()}" + (f"&format={fmt}" if fmt else "")
        return _registered(self.ask("GET", f"/subjects/{_quoted(subject_name)}/versions/{version}{query}"))

    def get_schema_types(self) -> list[str]:
        return list(self.ask("GET", "/schemas/types"))

    def get_subjects_by_schema_id(
        self, schema_id: int, subject_name: str | None = None, deleted: bool = False, offset: int = 0, limit: int = -1
    ) -> list[str]:
        return list(self.ask("GET", f"/schemas/ids/{schema_id}/subjects{_page(subject_name, deleted, offset, limit)}"))

    def get_schema_versions(
        self, schema_id: int, subject_name: str | None = None, deleted: bool = False, offset: int = 0, limit: int = -1
    ) -> list[SchemaVersion]:
        found = self.ask("GET", f"/schemas/ids/{schema_id}/versions{_page(subject_name, deleted, offset, limit)}")
        return [SchemaVersion(each["subject"], each["version"]) for each in found]

    # -- subjects ------------------------------------------------------------------------------------------------------

    def get_subjects(self, subject_prefix: str | None = None, deleted: bool = False) -> list[str]:
        query = f"?deleted={str(deleted).lower()}"
        query += f"&subjectPrefix={_quoted(subject_prefix)}" if subject_prefix else ""
        return list(self.ask("GET", f"/subjects{query}"))

    def get_versions(self, subject_name: str, deleted: bool = False) -> list[int]:
        return list(self.ask("GET", f"/subjects/{_quoted(subject_name)}/versions?deleted={str(deleted).lower()}"))

    def get_referenced_by(self, subject_name: str, version: int | str = "latest") -> list[int]:
        return list(self.ask("GET", f"/subjects/{_quoted(subject_name)}/versions/{version}/referencedby"))

    def delete_subject(self, subject_name: str, permanent: bool = False) -> list[int]:
        found = self.ask("DELETE", f"/subjects/{_quoted(subject_name)}")
        return list(self.ask("DELETE", f"/subjects/{_quoted(subject_name)}?permanent=true")) if permanent else found

    def delete_version(self, subject_name: str, version: int, permanent: bool = False) -> int:
        path = f"/subjects/{_quoted(subject_name)}/versions/{version}"
        found = int(self.ask("DELETE", path))
        return int(self.ask("DELETE", f"{path}?permanent=true")) if permanent else found

    # -- levels --------------------------------------------------------------------------------------------------------

    def set_compatibility(self, subject_name: str | None = None, level: str | None = None) -> dict[str, Any]:
        if level is None:
            raise ValueError("level must be set")
        return dict(self.ask("PUT", _config(subject_name), {"compatibility": str(level).upper()}))

    def get_compatibility(self, subject_name: str | None = None) -> str:
        return str(self.ask("GET", _config(subject_name))["compatibilityLevel"])

    def test_compatibility(self, subject_name: str, schema: Schema, version: int | str = "latest") -> bool:
        path = f"/compatibility/subjects/{_quoted(subject_name)}/versions/{version}"
        return bool(self.ask("POST", path, schema_body(schema.text()))["is_compatible"])

    def test_compatibility_all_versions(
        self, subject_name: str, schema: Schema, normalize: bool = False, verbose: bool = False
    ) -> bool:
        query = f"?normalize={str(normalize).lower()}&verbose={str(verbose).lower()}"
        path = f"/compatibility/subjects/{_quoted(subject_name)}/versions{query}"
        return bool(self.ask("POST", path, schema_body(schema.text()))["is_compatible"])

    # -- modes ---------------------------------------------------------------------------------------------------------

    def get_mode(self, subject_name: str) -> str:
        return str(self.ask("GET", f"/mode/{_quoted(subject_name)}")["mode"])

    def update_mode(self, subject_name: str, mode: str, force: bool = False) -> str:
        path = f"/mode/{_quoted(subject_name)}?force={str(force).lower()}"
        return str(self.ask("PUT", path, {"mode": mode})["mode"])

    def delete_mode(self, subject_name: str) -> str:
        return str(self.ask("DELETE", f"/mode/{_quoted(subject_name)}")["mode"])

    def get_global_mode(self) -> str:
        return str(self.ask("GET", "/mode")["mode"])

    def update_global_mode(self, mode: str, force: bool = False) -> str:
        return str(self.ask("PUT", f"/mode?force={str(force).lower()}", {"mode": mode})["mode"])


def _page(subject: str | None, deleted: bool, offset: int, limit: int) -> str:
    query = {"offset": offset, "limit": limit} | ({} if subject is None else {"subject": subject})
    return "?" + urllib.parse.urlencode(query | ({"deleted": "true"} if deleted else {}))


def _config(subject: str | None) -> str:
    return "/config" if subject is None else f"/config/{_quoted(subject)}"


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")


def _registered(answer: dict[str, Any]) -> RegisteredSchema:
    schema = Schema.of(read_schema(answer))
    return RegisteredSchema(answer["subject"], answer["version"], answer["id"], answer.get("guid"), schema)
