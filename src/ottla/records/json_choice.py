"""Which JsonColumns there is: the native one, or the twin that explains it, which is slower than any other reader."""

from __future__ import annotations

from ottla.native import is_native

IS_QUICK = is_native("ottla.records._json_columns")

if IS_QUICK:
    from ottla.records._json_columns import JsonColumns
else:
    from ottla.records.json_columns import JsonColumns

__all__ = ["IS_QUICK", "JsonColumns"]
