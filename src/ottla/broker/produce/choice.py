"""How produce requests are read and answered: native where ottla.native says so, in Python otherwise."""

from __future__ import annotations

from ottla.native import is_native

if is_native("ottla.broker.produce._frames"):
    from ottla.broker.produce._frames import (
        scan,
        scan_run,
        write,
        write_run,
    )
else:
    from ottla.broker.produce.frames import (
        scan,
        scan_run,
        write,
        write_run,
    )

__all__ = [
    "scan",
    "scan_run",
    "write",
    "write_run",
]
