"""How many bytes a record is: its key, value and headers as they were written, without any frame."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def size_of_record(columns: Collection[str]) -> Column:
    """An expression over the source's columns; those that are not among `columns` count nothing."""
    from pyspark.sql import functions as f

    zero = f.lit(0).cast("bigint")

    def size(name: str) -> Column:
        return f.coalesce(f.octet_length(name).cast("bigint"), zero) if name in columns else zero

    def header_size(total: Column, header: Column) -> Column:
        return (
            total + f.coalesce(f.octet_length(header["key"]), zero) + f.coalesce(f.octet_length(header["value"]), zero)
        )

    headers = f.coalesce(f.aggregate("headers", zero, header_size), zero) if "headers" in columns else zero
    return size("key") + size("value") + headers
