"""`ottla install-commands`: Kafka's commands as files in a directory of your choice.

1. pip puts kafka-topics and the others beside `ottla` already. This is for scripts that call `kafka-topics.sh`, and for
   who wants the commands elsewhere, or in a PATH of their own.
2. Each is a small program for the interpreter that runs this command. One that is there already is written anew if it
   is one of these; a file of somebody else is left alone and told, unless --force is said.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from ottla.cli.output import OK, Failure

EXAMPLES: Final = """\
examples:
  ottla install-commands --sh                       kafka-topics.sh and the others, beside ottla
  ottla install-commands --dir ~/kafka/bin --sh     in a directory of its own
  ottla install-commands --dir ~/kafka/bin          kafka-topics and the others, without .sh
"""
PROGRAM: Final = """\
#!{python}
# Written by `ottla install-commands`.
import sys

from ottla.cli.kafka.tools import command

sys.exit(command())
"""
MARK: Final = "# Written by `ottla install-commands`."
EXECUTABLE: Final = 0o755


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sh", action="store_true", help="names that end in .sh, as Apache's do")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="where (the directory of this interpreter's programs)")
    parser.add_argument("--force", action="store_true", help="also over files of others")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ottla.cli.kafka.tools import TOOLS

    directory = options.dir if options.dir is not None else _programs()
    names = [f"{name}.sh" if options.sh else name for name in TOOLS]
    others = [name for name in names if not options.force and _is_foreign(directory / name)]
    if others:
        raise Failure(f"{directory} has {', '.join(others)} of somebody else; --force writes over them")
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        _write(directory / name)
    print(f"{len(names)} commands are in {directory}")
    if str(directory.absolute()) not in os.environ.get("PATH", "").split(os.pathsep):
        print(f"it is not in your PATH; add it with: export PATH={directory.absolute()}:$PATH")
    return OK


def _programs() -> Path:
    import sysconfig

    return Path(sysconfig.get_path("scripts"))


def _is_foreign(path: Path) -> bool:
    """Neither of ours nor what pip made of our entry points."""
    if not path.exists():
        return False
    text = path.read_bytes()
    return MARK.encode() not in text and b"ottla.cli.kafka" not in text


def _write(path: Path) -> None:
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(EXECUTABLE)
