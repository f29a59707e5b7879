"""Types of the native twin: those of json_columns.py."""

from ottla.schemas.arrow.json_columns import JsonColumns as JsonColumns
