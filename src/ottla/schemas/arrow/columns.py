"""What the native leaves fill: columns in Arrow's memory layout, as buffers without Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    import pyarrow

Block = bytes | bytearray | memoryview


class Column(NamedTuple):
    """One column: `validity` is None when no row is null; `data` is empty where there are children or nothing at all,
    `offsets` are there for texts, bytes, lists and maps. Booleans are a bitmap."""

    row_count: int
    null_count: int
    validity: Block | None
    data: Block
    offsets: Block
    children: tuple[Column, ...]


def array_of(kind: pyarrow.DataType, column: Column) -> pyarrow.Array:
    """The buffers as a column of Arrow."""
    import pyarrow as pa

    rows, validity = column.row_count, None if column.validity is None else pa.py_buffer(column.validity)
    if column.null_count == rows:
        return pa.nulls(rows, kind)
    if pa.types.is_struct(kind):
        children = [array_of(field.type, child) for field, child in zip(kind, column.children, strict=True)]
        return pa.Array.from_buffers(kind, rows, [validity], column.null_count, children=children)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        inner = pa.struct([kind.key_field, kind.item_field]) if pa.types.is_map(kind) else kind.value_type
        children = [array_of(inner, column.children[0])]
        offsets = pa.py_buffer(column.offsets)
        return pa.Array.from_buffers(kind, rows, [validity, offsets], column.null_count, children=children)
    buffers = [pa.py_buffer(block) for block in (column.offsets, column.data) if block or block is column.data]
    return pa.Array.from_buffers(kind, rows, [validity, *buffers], column.null_count)
