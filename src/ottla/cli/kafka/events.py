"""Events of the verifiable producer and consumer: a JSON object on each line, with its time and its name first."""

from __future__ import annotations

import json
import threading

from ottla.clock import SystemClock

_LOCK = threading.Lock()
_CLOCK = SystemClock()


def print_event(name: str, **fields: object) -> None:
    """One line, whole, from whatever thread; at once, because others wait for it."""
    text = json.dumps({"timestamp": _CLOCK.now_ms(), "name": name, **fields}, separators=(",", ":"))
    with _LOCK:
        print(text, flush=True)
