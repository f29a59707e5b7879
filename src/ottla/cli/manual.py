"""Manual pages made from the parsers themselves: what `--help` says is what `man ottla-topic` says.

    ottla.1    ottla-topic.1    ottla-topic-create.1 ...

1. One page for the command, one for each noun, one for each verb; each names those above and below it.
2. A page is text for man(7): every line is escaped so that it is shown as it was written. No date is in it, so that
   the same parsers make the same bytes.
3. Reading the parsers prints nothing and connects to nobody.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

SECTION: Final = 1


def pages(parser: argparse.ArgumentParser, version: str) -> Iterator[tuple[str, str]]:
    """File names with their texts, from the parser down."""
    name = parser.prog.replace(" ", "-")
    yield f"{name}.{SECTION}", page(parser, version)
    for below in _below(parser).values():
        yield from pages(below, version)


def page(parser: argparse.ArgumentParser, version: str) -> str:
    """The page of one parser."""
    name = parser.prog.replace(" ", "-")
    summary = (parser.description or "").strip().splitlines()
    first = summary[0].rstrip(".") if summary else parser.prog
    parts = [
        f'.TH "{_escaped(name.upper())}" "{SECTION}" "" "ottla {_escaped(version)}" "Ottla"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(first)}",
        ".SH SYNOPSIS",
        *_verbatim(_usage(parser)),
    ]
    if len(summary) > 1:
        parts += [".SH DESCRIPTION", *_verbatim("\n".join(summary))]
    parts += _options(parser)
    parts += _list(".SH COMMANDS", [(below.prog, _help(parser, word)) for word, below in _below(parser).items()])
    if parser.epilog:
        parts += [".SH EXAMPLES", *_verbatim(parser.epilog.removeprefix("examples:\n"))]
    return "\n".join([*parts, *_see_also(parser)]) + "\n"


def _usage(parser: argparse.ArgumentParser) -> str:
    """The usage of 80 columns, whatever terminal this is."""
    formatter = argparse.HelpFormatter(parser.prog, width=80)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help()


def _options(parser: argparse.ArgumentParser) -> list[str]:
    found: list[str] = []
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if each.help != argparse.SUPPRESS]
        rows = [(_signature(each), _expanded(each)) for each in actions if not _has_verbs(each)]
        title = (group.title or "options").upper()
        found += _list(f".SH {_escaped(title)}", rows)
    return found


def _has_verbs(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _signature(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else (action.dest.upper() if action.dest else "")
    if action.choices is not None:
        value = "|".join(map(str, action.choices))
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def _expanded(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _list(heading: str, rows: list[tuple[str, str]]) -> list[str]:
    lines = [line for term, text in rows for line in (".TP", f"\\fB{_escaped(term)}\\fR", _escaped(text) or "\\&")]
    return [heading, *lines] if lines else []


def _see_also(parser: argparse.ArgumentParser) -> list[str]:
    words = parser.prog.split()
    names = ["-".join(words[:count]) for count in range(1, len(words))]
    names += [below.prog.replace(" ", "-") for below in _below(parser).values()]
    return [".SH SEE ALSO", ", ".join(f"\\fB{_escaped(each)}\\fR({SECTION})" for each in names)] if names else []


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _help(parser: argparse.ArgumentParser, word: str) -> str:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return next((each.help or "" for each in action._choices_actions if each.dest == word), "")
    return ""


def _verbatim(text: str) -> list[str]:
    return [".nf", *(_escaped(line) or "\\&" for line in text.rstrip().splitlines()), ".fi"]


def _escaped(text: str) -> str:
    """As it was written: backslashes, hyphens that may be copied, and no line that looks like a request."""
    found = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{found}" if found.startswith((".", "'")) else found
