"""The tables of options in docs/spark.md: `python -m ottla.spark.option_docs` writes them there again.

A table stands between two comment lines, so that the rest of the page is written by hand. A test compares them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.spark.option_table import Option
from ottla.spark.sink.options import SINK_OPTIONS
from ottla.spark.source.option_rows import SOURCE_OPTIONS

TABLES = {"source": SOURCE_OPTIONS, "sink": SINK_OPTIONS}


def option_table(options: Iterable[Option[Any]]) -> str:
    """A Markdown table."""
    lines = ["| option | default | for | what it does |", "| --- | --- | --- | --- |"]
    lines += [f"| `{each.name}` | {_default(each)} | {each.where.value} | {each.doc} |" for each in options]
    return "\n".join(lines)


def _default(option: Option[Any]) -> str:
    if option.default_text:
        return option.default_text
    if option.default is None:
        return "-"
    return str(option.default).lower() if isinstance(option.default, bool) else str(option.default)


def with_tables(page: str) -> str:
    """The page with its tables as the code has them."""
    for name, options in TABLES.items():
        begin, end = f"<!-- options: {name} -->", f"<!-- end: {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        table = f"{begin}\n{option_table(options)}\n{end}"
        page = pattern.sub(lambda _, table=table: table, page)  # type: ignore[misc]
    return page


def main() -> None:
    page = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/spark.md")
    page.write_text(with_tables(page.read_text()))


if __name__ == "__main__":
    main()
