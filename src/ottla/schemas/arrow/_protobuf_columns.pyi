"""Types of the native twin: those of protobuf_columns.py."""

from ottla.schemas.arrow.protobuf_columns import ProtobufColumns as ProtobufColumns
