"""RowWriter: rows of an Arrow table into open batches, as TopicState does it with lists. The readable twin.

`put` begins at a row and goes on until one finds no room: its index is given, and whoever called makes room and calls
again. `runs`, when somebody wants to know, gets (delivery, first index there, count) for neighbours that lie side by
side. A row without a timestamp has the `now_ms` of its table.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.producer.batches.arrow_columns import ArrowRows
from ottla.client.producer.batches.delivery import Delivery
from ottla.client.producer.batches.topic_state import TopicState, extend_runs


class RowWriter:
    """The rows of one piece of a table, and the states of the topics they name."""

    def __init__(self, rows: ArrowRows, states: Sequence[TopicState], now_ms: int) -> None:
        self._rows = rows
        self._states = states
        self._now_ms = now_ms

    def put(self, start: int, runs: list[tuple[Delivery, int, int]] | None) -> int:
        """Write rows from `start` on until one finds no room; returns the index of that one, or the count."""
        rows = self._rows
        for row in range(start, rows.count):
            state = self._states[rows.place_at(row)]
            time_ms = rows.time_at(row)
            placed = state.place(
                rows.key_at(row),
                rows.value_at(row),
                rows.headers_at(row),
                self._now_ms if time_ms is None else time_ms,
                rows.partition_at(row),
            )
            if placed is None:
                return row
            if runs is not None:
                extend_runs(runs, *placed, is_first=row == start)
        return rows.count
