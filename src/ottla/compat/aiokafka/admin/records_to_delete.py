"""Which records of a partition go."""

from __future__ import annotations


class RecordsToDelete:
    """Everything before an offset."""

    def __init__(self, before_offset: int) -> None:
        self.before_offset = before_offset
