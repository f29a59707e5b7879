"""How a command ends before its work is done: with the usage, with a sentence, or quietly."""

from __future__ import annotations

import sys
from typing import NoReturn

from ottla.cli.output import FAILED


class ToolEnded(Exception):
    """Everything is printed; only the exit code is left."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class WrongUsage(ValueError):
    """The words of the command line cannot be meant; the text is Kafka's."""


class UnknownOption(WrongUsage):
    """There is no option of that name."""

    def __init__(self, word: str, name: str) -> None:
        super().__init__(f"{name if word.startswith('--') else name[:1]} is not a recognized option")
        self.name = name


def fail(text: str) -> NoReturn:
    """A sentence on stderr, and the end."""
    print(text, file=sys.stderr)
    raise ToolEnded(FAILED)


def warn(text: str) -> None:
    """A sentence on stderr, and on with it."""
    print(text, file=sys.stderr)
