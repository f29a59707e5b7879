"""How simple fetch requests and answers are read and written: native where ottla.native says so, else in Python."""

from __future__ import annotations

from ottla.native import is_native

if is_native("ottla.broker.fetch._frames"):
    from ottla.broker.fetch._frames import scan_asked, scan_fetched, write_asked, write_fetched
else:
    from ottla.broker.fetch.frames import scan_asked, scan_fetched, write_asked, write_fetched

__all__ = ["scan_asked", "scan_fetched", "write_asked", "write_fetched"]
