"""What commands print: tables for people, JSON for programs, and exit codes.

    out = Output(sys.stdout, form="text")
    out.table(["TOPIC", "PARTITIONS"], [("orders", 3), ("payments", 12)])

    TOPIC     PARTITIONS
    orders             3
    payments          12

1. Columns are aligned, numbers to the right; there are no lines and no frames, so that cut and awk work. On a terminal
   that is too narrow the widest texts are folded; into a file or a pipe a row is always one line.
2. With form="json" a table is one JSON array of objects with the headings in lower case as names.
3. Colours only on a terminal, and not when NO_COLOR is set.
4. What comes from records cannot move the cursor: control characters are shown escaped. JSON keeps them, escaped too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, Literal, TextIO

OK: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2  # as of every program that reads its words with getopt or argparse
INTERRUPTED: Final = 130  # what a shell says of a program ended by Ctrl-C
BROKEN_PIPE: Final = 141  # and of one that wrote into a closed pipe

PARAGRAPH_COLUMNS: Final = 100  # longer lines are hard to read, however wide the terminal is

NO_TERMINAL_COLUMNS: Final = 80
Form = Literal["text", "json"]

FOLDED_COLUMNS_MIN: Final = 12
"""A column is not made narrower than this: what is broken into syllables cannot be read either."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BOLD: Final = "\033[1m"
_PLAIN: Final = "\033[0m"
_GAP: Final = "  "


def sentence(text: str) -> str:
    """A help text, which has neither a capital letter nor an end, as a sentence."""
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


class Failure(Exception):
    """A command cannot do what it was asked; the text says why and what to do."""


class Output:
    """Where a command prints."""

    def __init__(self, stream: TextIO, *, form: Form = "text", environment: Mapping[str, str] = os.environ) -> None:
        self.stream = stream
        self.form: Form = form
        self.colours = form == "text" and stream.isatty() and not environment.get("NO_COLOR")

    def line(self, text: str) -> None:
        """A line for people; programs that asked for JSON do not get it."""
        if self.form == "text":
            print(escaped(text), file=self.stream)

    def paragraph(self, text: str, *, indent: str) -> None:
        """A text for people, in lines that fit the terminal."""
        if self.form == "text":
            import textwrap

            width = min(terminal_columns(), PARAGRAPH_COLUMNS)
            print(
                textwrap.fill(escaped(text), width, initial_indent=indent, subsequent_indent=indent), file=self.stream
            )

    def value(self, value: Any) -> None:
        """One value as JSON, whatever the form."""
        import json

        print(json.dumps(value, ensure_ascii=False, default=str), file=self.stream)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        if self.form == "json":
            names = [heading.lower().replace(" ", "_").replace("-", "_") for heading in headings]
            self.value([dict(zip(names, row, strict=True)) for row in rows])
            return
        columns = terminal_columns() if self.stream.isatty() else None
        for number, line in enumerate(aligned(headings, rows, columns)):
            print(f"{_BOLD}{line}{_PLAIN}" if self.colours and number == 0 else line, file=self.stream)


def hint(text: str) -> None:
    """A line for somebody who sits before it and sees nothing else; programs read an empty output as it is."""
    if sys.stdout.isatty():
        print(text, file=sys.stderr)


def terminal_columns() -> int:
    """What shutil.get_terminal_size says, without the archivers that shutil loads: every usage asks for it."""
    try:
        return int(os.environ.get("COLUMNS", "")) or NO_TERMINAL_COLUMNS
    except ValueError:
        pass
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or NO_TERMINAL_COLUMNS  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return NO_TERMINAL_COLUMNS


def aligned(headings: Sequence[str], rows: Sequence[Sequence[object]], columns: int | None = None) -> list[str]:
    """The lines of a table, headings first; no wider than `columns` where that can be."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headings, *cells, strict=True)]
    to_the_right = [_is_numeric(column) for column in zip(*rows, strict=True)] or [False] * len(headings)
    if columns is not None:
        least = [
            width if right else min(width, max(FOLDED_COLUMNS_MIN, _width(heading)))
            for heading, width, right in zip(headings, widths, to_the_right, strict=True)
        ]
        widths = _narrowed(widths, least, columns - len(_GAP) * (len(widths) - 1))
    lines = [_line(headings, widths, to_the_right)]
    for row in cells:
        folded = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines += [_line(line, widths, to_the_right) for line in zip_longest(*folded, fillvalue="")]
    return lines


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit into the room, taken from the widest columns; as they are when the least does not fit."""
    found = list(widths)
    if sum(least) > room:
        return found
    while sum(found) > room:
        widest = max((width, place) for place, width in enumerate(found) if width > least[place])[1]
        found[widest] -= 1
    return found


def _folded(cell: str, width: int) -> list[str]:
    """The lines of a cell that is too wide; broken at spaces and commas where there are some."""
    lines, rest = [], cell
    while _width(rest) > width:
        end = len(rest)
        while _width(rest[:end]) > width:
            end -= 1
        after_mark = max(rest.rfind(" ", 0, end), rest.rfind(",", 0, end)) + 1
        end = after_mark or max(end, 1)
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*lines, rest]


def counted(number: int, noun: str) -> str:
    """So many of them, as one says it: 1 broker, 3 brokers."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def escaped(text: str) -> str:
    """The text with its control characters made visible."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1] if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escaped(str(value))


def _is_numeric(column: Sequence[object]) -> bool:
    return all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in column)


def _line(cells: Sequence[str], widths: Sequence[int], to_the_right: Sequence[bool]) -> str:
    padded = []
    for cell, width, right in zip(cells, widths, to_the_right, strict=True):
        space = " " * (width - _width(cell))
        padded.append(space + cell if right else cell + space)
    return _GAP.join(padded).rstrip()


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(bool(unicodedata.combining(each)) for each in text)


# --- how a command ends ---


def finish(run: Callable[[], int]) -> int:
    """The exit code of what runs; what ends it early is said on stderr."""
    try:
        code = run()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Failure as failure:
        print(f"ottla: {failure}", file=sys.stderr)
        return FAILED
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        print(f"ottla: cannot go on: {error.strerror or error}{where}", file=sys.stderr)
        _drop_output()
        return FAILED


def _drop_output() -> None:
    """What can still be printed is; Python would complain once more of what can go nowhere, at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
