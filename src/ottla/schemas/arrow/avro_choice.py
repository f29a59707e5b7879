"""Which reader of columns of Avro there is: the native one, or the twin that explains it."""

from __future__ import annotations

from ottla.native import is_native

if is_native("ottla.schemas.arrow._avro_columns"):
    from ottla.schemas.arrow._avro_columns import AvroColumns
else:
    from ottla.schemas.arrow.avro_columns import AvroColumns

__all__ = ["AvroColumns"]
