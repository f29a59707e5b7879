"""What is counted where it happens and read when somebody asks: plain numbers, no instrument of the registry.

Each is written by one place, on the loop; state_metrics.py reads them.
"""

from __future__ import annotations

from ottla.broker.observe.time_buckets import Times


class BrokerCounts:
    """Of a broker since its start."""

    __slots__ = (
        "cleaner_looked_ms",
        "failed_isr_updates",
        "flushes",
        "isr_expands",
        "isr_shrinks",
        "last_clean_ms",
        "last_recopy_percent",
        "max_dirty_ratio",
        "uncleanable",
        "verification_passes",
        "verified_bytes",
    )

    def __init__(self) -> None:
        self.isr_shrinks = self.isr_expands = self.failed_isr_updates = 0
        self.flushes = Times()
        # Of compaction: the last pass that ended.
        self.cleaner_looked_ms: float | None = None
        self.last_clean_ms = 0.0
        self.last_recopy_percent = 0.0
        self.max_dirty_ratio = 0.0
        self.uncleanable: set[tuple[str, int]] = set()
        # Of the verification of CRCs: what was read, and passes over a log directory that ended.
        self.verified_bytes = self.verification_passes = 0

    def isr_changed(self, count_before: int, count_now: int) -> None:
        if count_now > count_before:
            self.isr_expands += 1
        elif count_now < count_before:
            self.isr_shrinks += 1


class ControllerCounts:
    """Of a broker while it is controller, since its start."""

    __slots__ = ("elections", "events", "queued", "unclean_elections")

    def __init__(self) -> None:
        self.elections = Times()
        self.events = Times()
        self.queued = Times()  # how long events waited for their turn
        self.unclean_elections = 0
