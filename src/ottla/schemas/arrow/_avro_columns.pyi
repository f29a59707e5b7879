"""Types of the native twin: those of avro_columns.py, though it has no value()."""

from ottla.schemas.arrow.avro_columns import AvroColumns as AvroColumns
