"""What became of each of many things that a cluster was asked for at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, TypeVar

from ottla.client.admin.plans import PartlyFailed
from ottla.errors import OttlaError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def outcomes(
    keys: Collection[K], call: Callable[[], Mapping[K, Any] | None]
) -> tuple[dict[K, Any], dict[K, OttlaError]]:
    """What succeeded, and the errors of the others; an error of the whole order is that of each."""
    try:
        return dict(call() or {}), {}
    except PartlyFailed as error:
        return dict(error.succeeded), dict(error.failed)
    except OttlaError as error:
        return {}, dict.fromkeys(keys, error)


def permitted(call: Callable[[], Mapping[K, V]], refusal: type[OttlaError]) -> dict[K, V]:
    """What may be seen: answers that are refused for want of a right are left out, other errors are raised."""
    try:
        return dict(call())
    except refusal:
        return {}
    except PartlyFailed as error:
        if not all(isinstance(each, refusal) for each in error.failed.values()):
            raise
        return dict(error.succeeded)
