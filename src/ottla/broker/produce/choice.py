"""Chooses how produce requests are read and answered, native or Python, by the rule of ottla.records.implementation."""

from __future__ import annotations

import os

from ottla.broker.produce import frames as produce_frames
from ottla.records.implementation import CHOSEN, VARIABLE

scan = produce_frames.scan
scan_run = produce_frames.scan_run
write = produce_frames.write
write_run = produce_frames.write_run

if CHOSEN == "native":
    try:
        from ottla.broker.produce._frames import scan, scan_run, write, write_run
    except ImportError as error:
        # Forced to be native, or there and not loading: a broken build, not a missing one.
        if os.environ.get(VARIABLE) == "native" or error.name not in ("ottla.broker.produce._frames", "ottla.broker"):
            raise

__all__ = ["scan", "scan_run", "write", "write_run"]
