"""When Python looks for garbage in a command: loading modules makes many objects and no garbage.

1. A command that asks, writes or reads once makes 20,000 to 50,000 objects that stay. Python would look through them a
   hundred times, which took a fourth of the time to start. With `collect_rarely` it begins to look after RARELY more
   objects than were freed: never in a short command, and soon enough in one that goes on for ever.
2. A broker looks for young garbage as usual: many small searches make requests wait for less than one large search. It
   looks through everything after FULL_RARELY of the larger searches and not after 10 (`collect_as_usual`): what
   was there when it began to serve is left out, but a request of 20,000 entries makes half a million objects, and
   everybody would wait 50 to 120 ms, several times, while Python looks through them and finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

RARELY: Final = 100_000
FULL_RARELY: Final = 500
_USUAL: Final = gc.get_threshold()


def collect_rarely() -> None:
    """For a process that is one command."""
    gc.set_threshold(RARELY, *_USUAL[1:])


def collect_as_usual() -> None:
    """For a process that serves."""
    gc.set_threshold(*_USUAL[:2], FULL_RARELY)


@contextmanager
def uncollected() -> Iterator[None]:
    """No search at all while this is loaded."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
