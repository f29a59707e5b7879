"""What confluent-kafka's serializers have in common: settings, names of subjects, errors in its words."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from ottla.client.schema_registry.registry import RegistryFailed
from ottla.compat.confluent_kafka.schema_registry.error import SchemaRegistryError
from ottla.compat.confluent_kafka.serialization import SerializationContext, SerializationError
from ottla.errors import OttlaError

DEFAULTS: Final[dict[str, Any]] = {
    "auto.register.schemas": True,
    "normalize.schemas": False,
    "use.latest.version": False,
    "subject.name.strategy": None,
    "validate": True,
    "use.deprecated.format": False,
    "skip.known.types": True,
}


def topic_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None, *more: Any) -> str | None:
    return None if ctx is None else f"{ctx.topic}-{ctx.field}"


def topic_record_subject_name_strategy(
    ctx: SerializationContext | None, record_name: str | None, *more: Any
) -> str | None:
    return None if ctx is None or record_name is None else f"{ctx.topic}-{record_name}"


def record_subject_name_strategy(ctx: SerializationContext | None, record_name: str | None, *more: Any) -> str | None:
    return record_name


def read_conf(conf: dict[str, Any] | None) -> dict[str, Any]:
    """All settings; what is not known is refused, and so is what would not be done."""
    unknown = [name for name in conf or {} if name not in DEFAULTS]
    if unknown:
        raise ValueError(f"Unrecognized properties: {', '.join(unknown)}")
    made = {**DEFAULTS, **(conf or {})}
    if made["use.deprecated.format"]:
        raise ValueError("use.deprecated.format is not supported: records would be unreadable for other clients")
    return made


def subject_of(conf: dict[str, Any], ctx: SerializationContext | None, record_name: str | None) -> str:
    strategy: Callable[..., str | None] = conf["subject.name.strategy"] or topic_subject_name_strategy
    subject = strategy(ctx, record_name)
    if subject is None:
        raise SerializationError("a subject needs a topic and a field: pass a SerializationContext")
    return subject


def translated(call: Callable[[], Any]) -> Any:
    """What a call returns; our errors in confluent-kafka's classes."""
    try:
        return call()
    except RegistryFailed as error:
        raise SchemaRegistryError(error.status, error.code, str(error)) from None
    except (OttlaError, ValueError, TypeError, KeyError) as error:
        raise SerializationError(str(error)) from error


def awaited_names(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`, for the names of its twin with an event loop, which confluent-kafka has there, too."""

    def find(name: str) -> Any:
        if name.startswith("Async"):
            return getattr(import_module(f"ottla.compat.confluent_kafka.schema_registry._async.{module}"), name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
