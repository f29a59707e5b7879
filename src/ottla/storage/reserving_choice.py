"""Which `reserve` is used: the native one, or the twin that has no way to ask."""

from __future__ import annotations

from ottla.native import is_native

if is_native("ottla.storage._reserving"):
    from ottla.storage._reserving import reserve
else:
    from ottla.storage.reserving import reserve

__all__ = ["reserve"]
