"""Which tables a SELECT reads, found without Spark: so that a wrong name is an error at once, and the graph is drawn.

    tables_of("SELECT * FROM clicks JOIN pages USING (page)")      [clicks, pages], each with its position

This is a reader of names, not of SQL: Spark judges the query. It knows strings, comments, quoted names, names that the
query makes itself (WITH), lists with commas, and the other uses of FROM (EXTRACT(x FROM y), IS DISTINCT FROM). A name
with a dot belongs to a catalog, and a name with a parenthesis behind it is a function: both are passed over.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.light_dataclasses import dataclass

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
# Behind one of these no table of the same FROM can follow.
_ENDS: Final = frozenset(
    ("where", "group", "having", "order", "limit", "window", "union", "intersect", "except", "qualify", "on", "using")
)
# A parenthesis behind one of these is not a function's.
_NOT_FUNCTIONS: Final = frozenset(
    (
        "from",
        "join",
        "in",
        "exists",
        "and",
        "or",
        "not",
        "as",
        "select",
        "union",
        "all",
        "any",
        "some",
        "lateral",
        "with",
    )
)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table and where its name stands in the text; `streamed` when STREAM stands before it already."""

    name: str
    start: int
    end: int
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(slots=True)
class _Level:
    """Inside one pair of parentheses."""

    selects: bool
    expecting: bool = False  # a table comes next
    in_from: bool = False  # a comma leads to another table


def tables_of(sql: str) -> list[TableName]:
    """The tables of a query, in the order of the text."""
    tokens = [
        _Token(str(found.lastgroup), found[0], found.start(), found.end())
        for found in _TOKEN.finditer(sql)
        if found.lastgroup != "skip"
    ]
    own = _names_made_by_with(tokens)
    return [table for table in _walk(tokens) if table.name.lower() not in own]


def _names_made_by_with(tokens: list[_Token]) -> set[str]:
    """`name AS (SELECT`, with or without columns between."""
    made = set()
    for place in range(len(tokens) - 2):
        following = [token.text.lower() for token in tokens[place + 1 : place + 4]]
        if tokens[place].kind in ("word", "quoted") and following[:2] == ["as", "("] and "select" in following[2:]:
            made.add(tokens[place].text.strip("`").lower())
    return made


def _walk(tokens: list[_Token]) -> list[TableName]:
    levels, found = [_Level(selects=True)], list[TableName]()
    streamed = False
    for place, token in enumerate(tokens):
        text, level = token.text.lower(), levels[-1]
        if text == "(":
            before = tokens[place - 1] if place else None
            of_function = before is not None and before.kind == "word" and before.text.lower() not in _NOT_FUNCTIONS
            is_stream = before is not None and before.text.lower() == "stream" and level.expecting
            levels.append(_Level(selects=not of_function or is_stream, expecting=level.expecting))
            level.expecting = False
        elif text == ")":
            levels = levels[:-1] or [_Level(selects=True)]
        elif text == "," and level.in_from:
            level.expecting = True
        elif text == "stream" and level.expecting:
            streamed = True
            continue
        elif token.kind in ("word", "quoted") and level.expecting and text not in ("lateral", "select"):
            level.expecting = False
            if not _is_longer(tokens, place):
                found.append(TableName(token.text.strip("`"), token.start, token.end, streamed))
        elif token.kind == "word":
            _turn(level, text, tokens[place - 1].text.lower() if place else "")
        if text != "(":
            streamed = False
    return found


def _turn(level: _Level, text: str, before: str) -> None:
    if text == "select":
        level.selects, level.in_from, level.expecting = True, False, False
    elif (text == "from" and level.selects and before != "distinct") or text == "join":
        level.expecting, level.in_from = True, True
    elif text in _ENDS:
        level.in_from = level.expecting = False


def _is_longer(tokens: list[_Token], place: int) -> bool:
    """A name of a catalog (a.b) or a function (f(...)): not ours."""
    return place + 1 < len(tokens) and tokens[place + 1].text in (".", "(")
