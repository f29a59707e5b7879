"""The worker of tables as a child of `ottla broker start --tables`: `python -m ottla.cli.tables.member OPTIONS`.

It is `ottla table run OPTIONS`, but for: one line of JSON says that it works, and it stops when its supervisor is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

from ottla.cli.brokers.child import say_serving
from ottla.cli.main import make_parser
from ottla.cli.output import finish
from ottla.cli.tables.running import run_tables


def main(arguments: Sequence[str]) -> int:
    words = ["table", "run", *arguments]
    options = make_parser(words).parse_args(words)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=_stop_with_supervisor, args=(stop,), daemon=True).start()
    return finish(lambda: run_tables(options, stop, ready=say_serving))


def _stop_with_supervisor(stop: threading.Event) -> None:
    """Nothing is written to stdin: it ends with whoever has the other end."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
