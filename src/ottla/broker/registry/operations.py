"""The REST interface as a table: method, path, what is done, and what it needs of who asks.

Every operation is a generator over values (schemas.py): a Knowledge and a Request in, an Outcome back. Neither HTTP
nor the log is known here; service.py runs them, part.py serves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.broker.registry import changing, levels, reading, settings
from ottla.broker.registry.requests import Outcome, Request
from ottla.broker.registry.schemas import Schemas, Steps
from ottla.broker.registry.state import RegistryState
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclOperation


@dataclass(frozen=True)
class Knowledge:
    """What is known, and how schemas are parsed."""

    state: RegistryState
    schemas: Schemas

    def subject_of(self, request: Request) -> str:
        """The subject of a path; what an alias stands for."""
        return self.state.alias_of(request.subject)


Run: TypeAlias = Callable[[Knowledge, Request], Steps[Outcome]]


class Operation(NamedTuple):
    """`needs` is asked on the subject (rights.py)."""

    method: str
    path: str
    run: Run
    needs: AclOperation
    doc: str

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def changes(self) -> bool:
        return self.needs is not AclOperation.READ


READ, WRITE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
ALTER: Final = AclOperation.ALTER_CONFIGS

OPERATIONS: Final = (
    Operation("GET", "/contexts", reading.contexts, READ, "The contexts: there is the default one."),
    Operation("GET", "/schemas", reading.schemas, READ, "All versions of all subjects."),
    Operation("GET", "/schemas/types", reading.types, READ, "The kinds of schemas."),
    Operation("GET", "/schemas/ids/{id}", reading.by_id, READ, "The schema with an id."),
    Operation("GET", "/schemas/ids/{id}/schema", reading.by_id_schema, READ, "The same, nothing around it."),
    Operation("GET", "/schemas/ids/{id}/subjects", reading.subjects_of_id, READ, "The subjects that have it."),
    Operation("GET", "/schemas/ids/{id}/versions", reading.versions_of_id, READ, "The subjects and versions."),
    Operation("GET", "/schemas/guids/{guid}", reading.by_guid, READ, "The schema with a GUID."),
    Operation("GET", "/schemas/guids/{guid}/ids", reading.ids_of_guid, READ, "The ids of a GUID, by context."),
    Operation("GET", "/subjects", reading.subjects, READ, "The subjects."),
    Operation("POST", "/subjects/{subject}", changing.look_up, READ, "The version that is this schema."),
    Operation("DELETE", "/subjects/{subject}", changing.delete_subject, DELETE, "Delete all versions."),
    Operation("GET", "/subjects/{subject}/metadata", reading.latest_with_metadata, READ, "By its metadata."),
    Operation("GET", "/subjects/{subject}/versions", reading.versions, READ, "The numbers of the versions."),
    Operation("POST", "/subjects/{subject}/versions", changing.register, WRITE, "Register a schema."),
    Operation("GET", "/subjects/{subject}/versions/{version}", reading.version, READ, "A version."),
    Operation("DELETE", "/subjects/{subject}/versions/{version}", changing.delete_version, DELETE, "Delete one."),
    Operation("GET", "/subjects/{subject}/versions/{version}/schema", reading.version_schema, READ, "Its schema."),
    Operation(
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        reading.referenced_by,
        READ,
        "The ids of schemas that refer to it.",
    ),
    Operation("POST", "/compatibility/subjects/{subject}/versions", levels.test_all, READ, "Would it fit?"),
    Operation(
        "POST", "/compatibility/subjects/{subject}/versions/{version}", levels.test_one, READ, "Would it fit to one?"
    ),
    Operation("GET", "/config", settings.get_config, READ, "The level of all subjects."),
    Operation("PUT", "/config", settings.put_config, ALTER, "Set the level of all subjects."),
    Operation("DELETE", "/config", settings.delete_config, ALTER, "Back to BACKWARD."),
    Operation("GET", "/config/{subject}", settings.get_config, READ, "The level of a subject."),
    Operation("PUT", "/config/{subject}", settings.put_config, ALTER, "Set the level of a subject."),
    Operation("DELETE", "/config/{subject}", settings.delete_config, ALTER, "Back to the level of all."),
    Operation("GET", "/mode", settings.get_mode, READ, "The mode of all subjects."),
    Operation("PUT", "/mode", settings.put_mode, ALTER, "Set the mode of all subjects."),
    Operation("DELETE", "/mode", settings.delete_mode, ALTER, "Back to READWRITE."),
    Operation("GET", "/mode/{subject}", settings.get_mode, READ, "The mode of a subject."),
    Operation("PUT", "/mode/{subject}", settings.put_mode, ALTER, "Set the mode of a subject."),
    Operation("DELETE", "/mode/{subject}", settings.delete_mode, ALTER, "Back to the mode of all."),
)
BY_NAME: Final = {each.name: each for each in OPERATIONS}
