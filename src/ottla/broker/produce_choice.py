"""Chooses how produce requests are read and answered, native or Python, by the rule of ottla.records.implementation."""

from __future__ import annotations

import os

from ottla.broker import produce_frames
from ottla.records.implementation import CHOSEN, VARIABLE

scan = produce_frames.scan
write = produce_frames.write

if CHOSEN == "native":
    try:
        from ottla.broker._produce_frames import scan, write
    except ImportError as error:
        # Forced to be native, or there and not loading: a broken build, not a missing one.
        if os.environ.get(VARIABLE) == "native" or error.name not in ("ottla.broker._produce_frames", "ottla.broker"):
            raise

__all__ = ["scan", "write"]
