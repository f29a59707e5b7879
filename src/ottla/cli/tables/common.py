"""What all verbs of `ottla table` want: settings from the command line, the options of stores, a cluster's clients."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ottla.cli.connecting import pairs, settings_of, wait_for_listener
from ottla.cli.output import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.tables.cluster import Cluster


def overrides_of(options: argparse.Namespace) -> dict[str, str]:
    """What --set says, checked."""
    from ottla.errors import InvalidConfig
    from ottla.table_settings import TableSettings

    found = pairs(options.set, "--set")
    try:
        TableSettings(found)
    except InvalidConfig as error:
        raise Failure(str(error)) from None
    return found


def storage_of(options: argparse.Namespace) -> dict[str, str]:
    """Options of stores and catalogs, which may hold secrets: only from a file."""
    if options.storage_file is None:
        return {}
    from ottla.properties import read_properties

    try:
        return {name: str(value) for name, value in read_properties(options.storage_file).items()}
    except OSError as error:
        raise Failure(f"cannot read {options.storage_file}: {error.strerror}") from None


def registry_of(options: argparse.Namespace) -> Any:
    import os

    url = options.schema_registry or os.environ.get("OTTLA_REGISTRY")
    if not url:
        return None
    from ottla.client.schema_registry.registry import SchemaRegistry

    try:
        return SchemaRegistry(url)
    except ValueError as error:
        raise Failure(f"--schema-registry: {error}") from None


def ensure_library() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise Failure("tables want pyarrow and the libraries of their formats: pip install 'ottla[tables]'") from None


class _Clusters:
    """The worker's clients, closed at the end."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        from ottla.tables.cluster import Cluster

        self._cluster = Cluster(settings)

    def __enter__(self) -> Cluster:
        return self._cluster

    def __exit__(self, *_: object) -> None:
        self._cluster.close()


def cluster_of(options: argparse.Namespace) -> _Clusters:
    settings = settings_of(options)
    wait_for_listener(options, settings)
    return _Clusters(settings)
