"""Types of the native twin: those of json_columns.py."""

from ottla.records.json_columns import JsonColumns as JsonColumns
