"""A table as Kafka's newer tools print it: columns as wide as their widest cell, and a tab behind each."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [[str(each) for each in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    for row in (headings, *cells):
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))
