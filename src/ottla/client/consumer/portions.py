"""Arrow batches of a good size: neither thousands of small ones nor some that fill the memory. Plain.

1. `row_target` is how many rows to decode at once: it follows the size of the rows that came, because a fetch answer
   may grow a hundredfold when it is decompressed.
2. What is small is kept and joined with what is small after it; what is large is cut. Joining copies, cutting does
   not.
3. Rows keep their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow

ROWS_MAX: Final = 49_152
BYTES_MAX: Final = 6_291_456
JOINED_ROWS: Final = 8_192
JOINED_BYTES: Final = 1_048_576
FIRST_ROWS: Final = 4_096
"""How many rows are decoded before anybody knows how large they are."""


class Portions:
    """Takes batches as they are decoded and gives them out in portions."""

    def __init__(self) -> None:
        self.row_target = FIRST_ROWS
        self._kept: list[pyarrow.RecordBatch] = []
        self._kept_rows = 0
        self._kept_bytes = 0

    def add(self, batch: pyarrow.RecordBatch) -> list[pyarrow.RecordBatch]:
        """What can be given out now."""
        size = batch.nbytes
        self._learn(batch.num_rows, size)
        if batch.num_rows >= JOINED_ROWS or size >= JOINED_BYTES:
            return [*self.rest(), *_cut(batch, size)]
        self._kept.append(batch)
        self._kept_rows += batch.num_rows
        self._kept_bytes += size
        if self._kept_rows < JOINED_ROWS and self._kept_bytes < JOINED_BYTES:
            return []
        return self.rest()

    def rest(self) -> list[pyarrow.RecordBatch]:
        """Everything that is kept."""
        kept, self._kept = self._kept, []
        size, self._kept_rows, self._kept_bytes = self._kept_bytes, 0, 0
        if not kept:
            return []
        return _cut(kept[0], size) if len(kept) == 1 else _join(kept)

    def _learn(self, rows: int, size: int) -> None:
        if rows:
            self.row_target = max(1, min(ROWS_MAX, BYTES_MAX * rows // max(size, 1)))


def _join(batches: list[pyarrow.RecordBatch]) -> list[pyarrow.RecordBatch]:
    import pyarrow as pa

    joined = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return [part for batch in joined for part in _cut(batch, batch.nbytes)]


def _cut(batch: pyarrow.RecordBatch, size: int) -> list[pyarrow.RecordBatch]:
    if size <= BYTES_MAX * 2 or batch.num_rows <= 1:
        return [batch]
    rows = max(1, batch.num_rows * BYTES_MAX // size)
    return [batch.slice(start, rows) for start in range(0, batch.num_rows, rows)]
