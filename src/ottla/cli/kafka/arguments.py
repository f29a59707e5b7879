"""The command line of those tools of Kafka that have sub-commands or lists of values: argparse, as argparse4j does it.

Usage errors end with 1 and not with argparse's 2; without a word the help is printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ottla.cli.kafka.ends import ToolEnded
from ottla.cli.kafka.parser import KAFKA_VERSION
from ottla.cli.output import FAILED, OK, terminal_columns


class ToolParser(argparse.ArgumentParser):
    """argparse with Kafka's exit codes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)

    def _get_formatter(self) -> argparse.HelpFormatter:
        return self.formatter_class(prog=self.prog, width=terminal_columns() - 2)  # type: ignore[call-arg]

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        raise ToolEnded(FAILED)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            sys.stderr.write(message)
        raise ToolEnded(FAILED if status else OK)

    def parsed(self, words: Sequence[str], *, empty_code: int = OK) -> argparse.Namespace:
        """The options; without a word the help, and the end."""
        if not words:
            self.print_help()
            raise ToolEnded(empty_code)
        return self.parse_args(words)


class Version(argparse.Action):
    """--version: Kafka's release, and the end."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(KAFKA_VERSION)
        raise ToolEnded(OK)
