"""Which ProtobufColumns there is: the native one, or the twin that explains it, which is slower than the library."""

from __future__ import annotations

from ottla.native import is_native

IS_QUICK = is_native("ottla.schemas.arrow._protobuf_columns")

if IS_QUICK:
    from ottla.schemas.arrow._protobuf_columns import ProtobufColumns
else:
    from ottla.schemas.arrow.protobuf_columns import ProtobufColumns

__all__ = ["IS_QUICK", "ProtobufColumns"]
