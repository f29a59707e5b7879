"""confluent_kafka.schema_registry.error."""

from __future__ import annotations


class SchemaRegistryError(Exception):
    """What the registry refused: the status of HTTP, and its own code."""

    UNKNOWN = -1

    def __init__(self, http_status_code: int, error_code: int, error_message: str) -> None:
        super().__init__(error_message)
        self.http_status_code = http_status_code
        self.error_code = error_code
        self.error_message = error_message

    def __str__(self) -> str:
        return f"{self.error_message} (HTTP status code {self.http_status_code}, SR code {self.error_code})"
