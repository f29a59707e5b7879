"""When Python looks for garbage in a command: loading modules makes many objects and no garbage.

1. A command that asks, writes or reads once makes 20,000 to 50,000 objects that stay. Python would look through them a
   hundred times, which took a fourth of the time to start. With `collect_rarely` it begins to look after RARELY more
   objects than were freed: never in a short command, and soon enough in one that goes on for ever.
2. A broker looks for young garbage as usual: many small searches make requests wait for less than one large search
   (`collect_for_service`). What a full search leaves is frozen, so no search ever looks at it again: each of them has
   only what was made since the one before, 30 to 50 ms after FULL_AFTER of the larger searches. Without that a search
   took half a second when 10,000 partitions had been made (decision 0200).
3. What is frozen and ends later must not know itself in a circle, for nobody would find it. Connections, requests,
   syncs, topics and groups do not (tests/unit/broker/test_garbage.py).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

RARELY: Final = 100_000
FULL_AFTER: Final = 5
OLDEST: Final = 2  # the generation that holds everything
_USUAL: Final = gc.get_threshold()


def collect_rarely() -> None:
    """For a process that is one command."""
    gc.set_threshold(RARELY, *_USUAL[1:])


def collect_for_service() -> None:
    """For a process that serves."""
    gc.set_threshold(*_USUAL[:2], FULL_AFTER)
    if freeze_survivors not in gc.callbacks:
        gc.callbacks.append(freeze_survivors)


def freeze_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == OLDEST:
        gc.freeze()


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
