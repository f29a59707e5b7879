"""What a job has done so far, added up from the progress that Spark reports for each batch.

1. A batch counts once, however often its progress is seen; a batch that was run again after a crash counts in the run
   that finished it.
2. Rows and bytes are what passed through the query (observed.py); a query that is not observed counts its input rows.
3. Lag is in offsets, as of the last batch: what there was less what was read. None until Spark has reported a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ottla.light_dataclasses import dataclass

OBSERVED: Final = "ottla_job"
"""The name under which a query is observed."""


@dataclass(frozen=True, slots=True)
class Totals:
    """A job's figures, while it runs or at its end."""

    rows: int = 0
    size_bytes: int | None = 0
    """None where Spark does not tell it."""
    batches: int = 0
    elapsed_s: float = 0.0
    lag: int | None = None

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def bytes_per_s(self) -> float | None:
        if self.size_bytes is None:
            return None
        return self.size_bytes / self.elapsed_s if self.elapsed_s > 0 else 0.0

    def __add__(self, later: Totals) -> Totals:
        """Two runs, one behind the other."""
        lag = self.lag if later.lag is None else later.lag
        return Totals(
            self.rows + later.rows,
            added(self.size_bytes, later.size_bytes),
            self.batches + later.batches,
            self.elapsed_s + later.elapsed_s,
            lag,
        )

    def as_json(self) -> dict[str, float | None]:
        return {
            "rows": self.rows,
            "bytes": self.size_bytes,
            "batches": self.batches,
            "seconds": round(self.elapsed_s, 3),
            "rows_per_second": round(self.rows_per_s, 1),
            "bytes_per_second": None if self.bytes_per_s is None else round(self.bytes_per_s, 1),
            "lag": self.lag,
        }


class Tally:
    """Adds up the batches of one query."""

    def __init__(self) -> None:
        self._last_batch = -1
        self._rows = self._batches = 0
        self._size_bytes: int | None = 0
        self._lag: int | None = None

    def add(self, reported: Iterable[Any]) -> bool:
        """The last reports of a query, oldest first; returns whether there was a new one."""
        news = False
        for progress in reported:
            if progress.batchId <= self._last_batch or not _is_done(progress):
                continue
            self._last_batch, news = progress.batchId, True
            rows, size_bytes = _passed(progress)
            self._rows += rows
            self._size_bytes = added(self._size_bytes, size_bytes)
            self._batches += 1 if rows else 0
            self._lag = _lag(progress, self._lag)
        return news

    def totals(self, elapsed_s: float) -> Totals:
        return Totals(self._rows, self._size_bytes, self._batches, elapsed_s, self._lag)


def _is_done(progress: Any) -> bool:
    """Spark also reports that nothing happened, under the number of the batch that is still to come."""
    return "addBatch" in progress.durationMs


def added(one: int | None, other: int | None) -> int | None:
    """Both together; not known unless both are."""
    return None if one is None or other is None else one + other


def _passed(progress: Any) -> tuple[int, int | None]:
    observed = _observed(progress.observedMetrics.get(OBSERVED, ()))
    rows = observed.get("rows")
    if rows is None:
        return progress.numInputRows, None if progress.numInputRows else 0
    return rows, observed.get("bytes") or 0


def _observed(row: Any) -> dict[str, Any]:
    """The observed numbers by name. Spark Connect (4.3) gives a row with the columns `values` and `schema` instead of
    the row itself, and one without columns when nothing was observed."""
    found = dict(zip(getattr(row, "__fields__", ()), row, strict=False))
    if found.keys() != {"values", "schema"}:
        return found
    return dict(zip((each["name"] for each in found["schema"]["fields"]), found["values"], strict=True))


def _lag(progress: Any, before: int | None) -> int | None:
    # Loaded here, so that the sums can be tested without PySpark.
    from ottla.spark.source.lag import lag_of

    found = lag_of(progress)
    return before if found is None else found.total
