"""`ottla top`: what the cluster does, second by second: rates of topics and brokers, lag of groups, trouble.

1. On a terminal a live view until `q` or Ctrl-C; the screen is as it was afterwards, whatever happens.
2. --once prints two moments' figures as a table and ends, --json the same for programs; without a terminal one of them
   must be named.
3. Works with any cluster. Requests, bytes, CPU and memory come from the metrics of brokers, where an address of them
   answers (--metrics; this machine's 127.0.0.1:9644 is tried).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import add_format, admin_of, describe, ensure, output_of
from ottla.cli.output import NO_TERMINAL_COLUMNS, OK, Failure, terminal_columns

if TYPE_CHECKING:
    from ottla.cli.top.figures import Figures
    from ottla.client.admin.admin import Admin

EXAMPLES: Final = """\
examples:
  ottla top                                     until q
  ottla top --interval 5 --internal
  ottla top --once                              one table, for a log
  ottla top --json --interval 10                the figures of ten seconds, for programs
  ottla top --metrics broker-1:9644 --metrics broker-2:9644
"""
DEFAULT_METRICS: Final = "127.0.0.1:9644"
WHOLE_ROWS: Final = 100_000
DEFAULT_LINES: Final = 24


def add_options(parser: argparse.ArgumentParser) -> None:
    describe(parser, "watch a cluster: rates, lag, trouble", run, EXAMPLES)
    parser.add_argument("--interval", type=float, default=2.0, metavar="S", help="seconds between two moments (2)")
    parser.add_argument("--once", action="store_true", help="one table, and the end")
    parser.add_argument("--internal", action="store_true", help="topics of the cluster itself, too")
    parser.add_argument(
        "--metrics",
        action="append",
        metavar="HOST:PORT",
        help=f"where a broker's metrics are; may be repeated ({DEFAULT_METRICS})",
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    ensure(0.1 <= options.interval <= 3600, "--interval is between 0.1 and 3600 seconds")
    once = options.once or options.format == "json"
    ensure(once or _is_terminal(), "there is no terminal here; for one table: ottla top --once, or --json")
    with admin_of(options) as admin:
        if once:
            return _run_once(options, admin)
        with _own_screen():
            _watch(options, admin)
    return OK


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _moments(options: argparse.Namespace, admin: Admin, wait: Wait) -> Iterator[Figures]:
    """The figures after each interval, until the wait says that it is enough. The first has no rates."""
    from ottla.cli.top.figures import figures
    from ottla.cli.top.gathering import sample
    from ottla.clock import SystemClock

    clock, before = SystemClock(), None
    while True:
        now = sample(admin, clock, options.metrics or [DEFAULT_METRICS], internal=options.internal)
        yield figures(now, before)
        before = now
        if wait(options.interval):
            return


def _run_once(options: argparse.Namespace, admin: Admin) -> int:
    from time import sleep

    from ottla.cli.top.screen import frame

    moments = _moments(options, admin, sleep)
    next(moments)
    found = next(moments)
    out = output_of(options)
    if options.format == "json":
        out.value(found.as_json())
        return OK
    columns = terminal_columns() if sys.stdout.isatty() else WHOLE_ROWS
    for line in frame(found, columns, WHOLE_ROWS):
        out.line(line)
    return OK


def _watch(options: argparse.Namespace, admin: Admin) -> None:
    from ottla.cli.top.screen import frame, is_troubled, painted

    for found in _moments(options, admin, _was_q_pressed):
        columns, lines = _size()
        sys.stdout.write(painted(frame(found, columns, lines), is_troubled=is_troubled(found)))
        sys.stdout.flush()


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return NO_TERMINAL_COLUMNS, DEFAULT_LINES
    return size.columns or NO_TERMINAL_COLUMNS, size.lines or DEFAULT_LINES


def _was_q_pressed(seconds: float) -> bool:
    """Wait so long, or until a key; whether that was q."""
    import select

    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and os.read(sys.stdin.fileno(), 16).lower().startswith((b"q", b"\x04"))


@contextmanager
def _own_screen() -> Iterator[None]:
    """A screen of our own, and keys without Enter; both as before in the end."""
    try:
        import termios
        import tty
    except ImportError:
        raise Failure("a live view needs a terminal of Unix; for one table: ottla top --once") from None
    from ottla.cli.top.screen import HIDE, SHOW

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        sys.stdout.write(HIDE)
        yield
    finally:
        sys.stdout.write(SHOW)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


if TYPE_CHECKING:
    from collections.abc import Callable

    Wait = Callable[[float], object]
