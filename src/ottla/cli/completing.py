"""Which words can stand next on the command line: read from the parsers themselves, so nothing is listed twice.

The shell calls `ottla --complete WORD...` with the words so far, the unfinished one last. Names that only a cluster
knows (topics, groups) are not asked for: pressing tab must not open a connection. Where a file belongs, nothing is
offered and the shell completes files by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """What the last of `words` may become, given those before it."""
    *before, unfinished = words or [""]
    waiting: argparse.Action | None = None
    for word in before:
        if waiting is None and (below := _parser_below(parser, word)) is not None:
            parser = below
        else:
            waiting = _option(parser, word)
    return sorted(word for word in _possible(parser, waiting, unfinished) if word.startswith(unfinished))


def _possible(parser: argparse.ArgumentParser, waiting: argparse.Action | None, unfinished: str) -> list[str]:
    if waiting is not None:
        return [str(choice) for choice in waiting.choices or ()]
    if unfinished.startswith("-"):
        return [name for action in parser._actions for name in action.option_strings]
    found: list[str] = []
    for action in parser._actions:
        if not action.option_strings and action.choices is not None:
            found += [str(choice) for choice in action.choices]
    return found


def _parser_below(parser: argparse.ArgumentParser, word: str) -> argparse.ArgumentParser | None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below: argparse.ArgumentParser | None = action.choices.get(word)
            return below
    return None


def _option(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    """The option that `word` begins and that still waits for its value."""
    for action in parser._actions:
        if word in action.option_strings and action.nargs != 0:
            return action
    return None
