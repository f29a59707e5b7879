"""What calls of both faces do with what they are given and what they give back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

from ottla.client.admin.plans import PartlyFailed
from ottla.errors import OttlaError

K = TypeVar("K", bound=Hashable)


def several(names: Iterable[K]) -> list[K]:
    """A list of names. A single text would be taken for a list of its letters, which is never meant."""
    if isinstance(names, str | bytes):
        raise TypeError(f"a list of names is wanted, not one: write [{names!r}]")
    return list(dict.fromkeys(names))


def raise_failed(endings: Mapping[Any, OttlaError | None]) -> None:
    """Raise what went wrong with the parts of one thing, as the room's story says."""
    failed = {key: error for key, error in endings.items() if error is not None}
    if failed and len(endings) == 1:
        raise next(iter(failed.values()))
    if failed:
        raise PartlyFailed({key: None for key, error in endings.items() if error is None}, failed)
