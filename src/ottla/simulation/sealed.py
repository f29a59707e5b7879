"""The real world, closed: code under simulation that reaches for it is found out.

    with sealed_world() as leaks:
        run_plan(plan)
    assert leaks == []

1. Inside, a step of a simulated process that asks for real time, real randomness, a thread, a socket or a file fails
   with `WorldLeak`; that it did is also kept in `leaks`, because code may swallow errors.
2. What is outside of all processes (the run itself, pytest) has the world as it was.
3. Log records carry real time; nobody decides by that, so the `logging` module may ask for it.

It finds what goes through Python's modules. Native code that asks the system by itself is not seen; two runs of one
seed that differ are (`digest`).
"""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from ottla.simulation.process import PROCESS

OUTSIDE: Final = "outside"
DOORS: Final[tuple[tuple[Any, str], ...]] = (
    *((time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")),
    (time, "sleep"),
    (os, "urandom"),
    (os, "open"),
    (os, "fsync"),
    (os, "fdatasync"),
    (random, "_urandom"),  # what SystemRandom and secrets call
    *((random, name) for name in ("random", "randint", "randrange", "choice", "shuffle", "getrandbits", "randbytes")),
    (threading.Thread, "start"),
    (socket.socket, "__init__"),
)


class WorldLeak(RuntimeError):
    """Code under simulation asked the real world for something."""


@contextmanager
def sealed_world() -> Iterator[list[str]]:
    """See the module; gives the list of leaks."""
    leaks: list[str] = []
    with ExitStack() as stack:
        for owner, name in DOORS:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, _guarded(getattr(owner, name), f"{owner.__name__}.{name}", leaks))
        unseeded = random.Random.__init__
        stack.callback(setattr, random.Random, "__init__", unseeded)
        random.Random.__init__ = _seeded_only(unseeded, leaks)  # type: ignore[method-assign]
        yield leaks


def _guarded(real: Callable[..., Any], door: str, leaks: list[str]) -> Callable[..., Any]:
    def guarded(*arguments: Any, **keywords: Any) -> Any:
        _refuse_inside(door, leaks)
        return real(*arguments, **keywords)

    return guarded


def _seeded_only(real: Callable[..., None], leaks: list[str]) -> Callable[..., None]:
    def init(self: random.Random, x: Any = None) -> None:
        if x is None and type(self) is random.Random:
            _refuse_inside("random.Random() without a seed", leaks)
        real(self, x)

    return init


def _refuse_inside(door: str, leaks: list[str]) -> None:
    process = PROCESS.get(None)
    if process is None or process.name == OUTSIDE:
        return
    caller = sys._getframe(2)
    if caller.f_globals.get("__name__") == "logging":
        return
    leaks.append(f"{process.name} called {door} at {caller.f_code.co_filename}:{caller.f_lineno}")
    raise WorldLeak(leaks[-1])
