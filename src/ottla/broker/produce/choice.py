"""How produce requests are read and answered: native where ottla.native says so, in Python otherwise."""

from __future__ import annotations

from ottla.native import is_native

if is_native("ottla.broker.produce._frames"):
    from ottla.broker.produce._frames import (
        scan,
        scan_plain_run,
        scan_run,
        scan_simple,
        write,
        write_appended,
        write_placed,
        write_run,
    )
else:
    from ottla.broker.produce.frames import (
        scan,
        scan_plain_run,
        scan_run,
        scan_simple,
        write,
        write_appended,
        write_placed,
        write_run,
    )

__all__ = [
    "scan",
    "scan_plain_run",
    "scan_run",
    "scan_simple",
    "write",
    "write_appended",
    "write_placed",
    "write_run",
]
