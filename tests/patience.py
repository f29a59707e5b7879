"""How long a test waits for something that must happen: longer than any machine needs.

A test decides by events: a record came, a process ended, a future has its result. HANG_S only guards against waiting
for ever, so that a hang becomes a failure with a name. It is never a measure of speed: a test passes with fifteen
others on two cores as it does alone. What measures speed stands in bench/, what must really wait is marked `long`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HANG_S = 300
FAR_MS = HANG_S * 10_000  # for settings that must not be what ends a wait
STEP_S = 0.01


def wait_until(
    condition: Callable[[], object], what: str = "what the test waits for", *, step_s: float = STEP_S
) -> None:
    """Return as soon as the condition holds; fail with its name when it does not come at all."""
    give_up_s = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < give_up_s, f"{what} did not happen within {HANG_S} s"
        time.sleep(STEP_S)


@contextmanager
def bounded() -> Iterator[None]:
    """What is done inside has a bound of its own, and every other clock is at FAR_MS: it ends long before HANG_S."""
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < HANG_S, "it was another clock that ended this"
