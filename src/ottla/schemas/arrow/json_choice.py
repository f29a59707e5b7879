"""Which JsonColumns there is: the native one, or the twin that explains it, which is slower than any other reader."""

from __future__ import annotations

from ottla.native import is_native

IS_QUICK = is_native("ottla.schemas.arrow._json_columns")

if IS_QUICK:
    from ottla.schemas.arrow._json_columns import JsonColumns
else:
    from ottla.schemas.arrow.json_columns import JsonColumns

__all__ = ["IS_QUICK", "JsonColumns"]
