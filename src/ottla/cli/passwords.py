"""Where a command gets a password from, and how it hands one out.

1. Never from the command line: other users of the machine see it there, and the shell remembers it. A password is asked
   for on a terminal (twice), read from a file, or is the first line of stdin.
2. A generated one comes from the system's randomness: 24 characters that need no quotes anywhere.
3. No password is in an error.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final, NoReturn

from ottla.cli.output import Failure

GENERATED_BYTES: Final = 18  # 24 characters, 144 bits
LENGTH_LIMIT_BYTES: Final = 1_024


def add_password_options(parser: argparse.ArgumentParser) -> None:
    """--generate and --password-file; without either the password is asked for, or read from stdin."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--generate", action="store_true", help="make a password and print it, this once")
    source.add_argument(
        "--password-file",
        type=Path,
        metavar="FILE",
        help="the first line of this file is the password; `-` is stdin (without a terminal that is the default)",
    )
    parser.add_argument("--password", action=_Refused, help=argparse.SUPPRESS)


class _Refused(argparse.Action):
    """What people try first gets a reason, and not the name of a file that is not there."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error(
            "a password on the command line is seen by other users of this machine and kept by the shell;"
            " leave it out to be asked for it, or give --password-file FILE or --generate"
        )


def password_of(options: argparse.Namespace) -> str:
    """The password that the options ask for."""
    if options.generate:
        return generated_password()
    if options.password_file is not None and str(options.password_file) != "-":
        return _checked(_first_line(options.password_file), str(options.password_file))
    if options.password_file is None and sys.stdin.isatty():
        return _asked()
    return _checked(sys.stdin.readline(LENGTH_LIMIT_BYTES + 2).rstrip("\r\n"), "stdin")


def generated_password() -> str:
    import secrets

    return secrets.token_urlsafe(GENERATED_BYTES)


def _asked() -> str:
    from getpass import getpass

    try:
        first = getpass("Password: ")
        again = getpass("Once more: ")
    except EOFError:
        raise Failure("there is no password; nothing was changed") from None
    if again != first:
        raise Failure("the two passwords are not the same; nothing was changed")
    return _checked(first, "the terminal")


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(LENGTH_LIMIT_BYTES + 2).rstrip("\r\n")
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"{path} is not a text file") from None


def _checked(password: str, place: str) -> str:
    if not password:
        raise Failure(f"there is no password: the first line of {place} is empty")
    if len(password.encode()) > LENGTH_LIMIT_BYTES:
        raise Failure(f"the password from {place} is longer than {LENGTH_LIMIT_BYTES} bytes")
    return password
