"""What the registry answers when it cannot do what it was asked: Confluent's codes; a status is their beginning."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

LEVELS = "NONE, BACKWARD, BACKWARD_TRANSITIVE, FORWARD, FORWARD_TRANSITIVE, FULL and FULL_TRANSITIVE"
INVALID_SCHEMA: Final = 42201
MODES = "READWRITE, READONLY, READONLY_OVERRIDE and IMPORT"


class RegistryError(Exception):
    """A status, Confluent's code and a sentence."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = HTTPStatus(code if code < 1_000 else code // 100)
        self.message = message


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | str | None = None) -> RegistryError:
    return RegistryError(40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    sentence = f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    return RegistryError(40406, sentence)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    sentence = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RegistryError(40407, sentence)


def no_subject_level(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_subject_mode(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, details: list[str]) -> RegistryError:
    sentence = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
    return RegistryError(409, sentence + "[" + ", ".join(details) + "]")


def invalid_schema(why: str) -> RegistryError:
    return RegistryError(INVALID_SCHEMA, f"Invalid schema: {why}")


def invalid_version(version: str) -> RegistryError:
    sentence = f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1]"
    return RegistryError(42202, f'{sentence} and the string "latest"')


def invalid_level(level: object) -> RegistryError:
    return RegistryError(42203, f"Invalid compatibility level {level!r}. Valid values are {LEVELS}")


def invalid_mode(mode: object) -> RegistryError:
    return RegistryError(42204, f"Invalid mode {mode!r}. Valid values are {MODES}")


def not_permitted(why: str) -> RegistryError:
    return RegistryError(42205, why)


def reference_exists(subject: str, version: int) -> RegistryError:
    return RegistryError(42206, f"One or more references exist to version {version} of subject '{subject}'.")


def invalid_subject(subject: str, why: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid subject: {why}")


def malformed(why: str) -> RegistryError:
    return RegistryError(422, why)


def store_failed(why: str) -> RegistryError:
    return RegistryError(50001, f"Error in the backend data store: {why}")


def store_timed_out(why: str) -> RegistryError:
    return RegistryError(50002, f"Operation timed out: {why}")


def forwarding_failed(why: str) -> RegistryError:
    return RegistryError(50003, f"Error while forwarding the request to the primary: {why}")
