"""More partitions for a topic."""

from __future__ import annotations

from collections.abc import Sequence


class NewPartitions:
    """How many in all, and where the new ones go."""

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments
