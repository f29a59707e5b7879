"""`ottla man`: manual pages of every command, made from the commands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from ottla.cli.output import OK, Failure

EXAMPLES: Final = """\
examples:
  ottla man topic create                        this page, for `man -l -`: ottla man topic create | man -l -
  ottla man --dir ~/.local/share/man/man1       all pages, for `man ottla-topic-create`
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print a manual page, or write all of them into a directory."
    parser.add_argument("words", nargs="*", metavar="NOUN VERB", help="of which command (of ottla itself)")
    parser.add_argument("--dir", type=Path, metavar="DIRECTORY", help="write all pages into this directory")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ottla import __version__
    from ottla.cli.main import NOUNS, make_parser
    from ottla.cli.manual import page, pages

    if options.dir is None:
        parser = make_parser(options.words)
        found = parser.innermost(options.words)
        if found.prog.split()[1:] != options.words:
            raise Failure(f"there is no command {' '.join(options.words)}; see ottla --help")
        print(page(found, __version__), end="")
        return OK
    options.dir.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, text in pages(make_parser(["", *NOUNS]), __version__):
        (options.dir / name).write_text(text, encoding="utf-8")
        count += 1
    print(f"{count} pages are in {options.dir}")
    return OK
