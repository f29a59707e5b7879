"""The words of the sink: what is asked of the cluster, what tasks report to the driver, and what can go wrong.

transactions.py and staging.py decide with them, steps.py carries out.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, TypeAlias

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.sink.markers import Decision, Marker

# --- steps: what is asked of the cluster, and what comes back ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """Markers of some tasks: {task: Marker}. `is_final`: wait for ends that are being written."""

    tasks: tuple[int, ...]
    is_final: bool


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Make the transactional id of the task ours: None."""

    task: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Make the transactional id of the task ours, with nothing in it yet: the PreparedTransaction."""

    task: int


@dataclass(frozen=True, slots=True)
class Write:
    """Write the rows of the task and leave the transaction open: Written, or TimedOut."""

    task: int


@dataclass(frozen=True, slots=True)
class Stage:
    """Put the rows of the task into the staging topic of the batch, as those of this identity: the number of rows."""

    task: int
    batch_id: int
    prepared: PreparedTransaction


@dataclass(frozen=True, slots=True)
class AddMarker:
    """Put a marker into an open transaction: the PreparedTransaction, or the OttlaError that refuses it."""

    task: int
    prepared: PreparedTransaction
    marker: Marker


@dataclass(frozen=True, slots=True)
class End:
    """End a transaction: None, or the OttlaError that refuses it."""

    task: int
    prepared: PreparedTransaction
    commit: bool = True


@dataclass(frozen=True, slots=True)
class Together:
    """Several steps at the same time: the list of what comes back."""

    steps: tuple[AddMarker | End, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """Abort whatever these tasks have open, and fence who wrote it: None."""

    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BeginCopy:
    """Fence whoever copies staged rows of this query, and see how far it came: whether the batch is copied."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class CopyPart:
    """Copy some of the staged rows that were decided, in one transaction: whether it was the last."""

    batch_id: int
    decision: Decision


@dataclass(frozen=True, slots=True)
class Clear:
    """Delete the staging topic of the batch: None."""

    batch_id: int


Step: TypeAlias = (
    Look | TakeOver | Claim | Write | Stage | AddMarker | End | Together | Fence | BeginCopy | CopyPart | Clear
)
Steps: TypeAlias = Generator[Step, Any, Any]


# --- what a task reports to the driver --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """The rows are in a transaction that waits for its end, until `ends_s` (Unix time) at the latest."""

    task: int
    prepared: PreparedTransaction
    row_count: int
    ends_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows are in the staging topic, under this identity."""

    task: int
    prepared: PreparedTransaction
    row_count: int


@dataclass(frozen=True, slots=True)
class Finished:
    """An earlier run has committed what there was to write."""

    task: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """There were no rows."""

    task: int


TaskResult: TypeAlias = Written | Staged | Finished | Nothing


@dataclass(frozen=True, slots=True)
class TimedOut:
    """What Write comes to when the transaction was over before the rows were."""

    reason: str


# --- errors -----------------------------------------------------------------------------------------------------------


class BatchTooLong(OttlaError):
    """The batch took longer than its transactions may stay open (kafka.transaction.timeout.ms), and the brokers aborted
    them; nothing of it was committed. Start the query again: it writes this batch by way of a staging topic, where time
    does not count. Smaller batches (maxTimePerTrigger, maxOffsetsPerTrigger) or a longer time-out spare the detour."""


class BatchNotCommitted(OttlaError):
    """Nothing of the batch was committed, because another attempt has taken a transaction of it over: a second driver
    with the same checkpoint, or speculation. Start the query again, once; it repeats the batch."""


class TransactionLost(OttlaError):
    """The batch is decided, but a transaction of it was aborted before it could be ended: it timed out in this moment,
    or another attempt took it over. Start the query again, it writes these rows again."""


class StagedRowsLost(OttlaError):
    """The batch is decided, and rows of it that waited in its staging topic are not there any more. Was the topic
    deleted? The rows that were not copied yet are to be written by hand; then start with a new checkpoint."""


class LayoutChanged(OttlaError):
    """A part of this batch is committed and the rest must be written again, but its rows are spread over another
    number of tasks now. Start the query again with the partitions it had (same shuffle partitions, same options of the
    source), at least for this batch."""


class BatchSuperseded(OttlaError):
    """A later batch of this query was written already. The checkpoint was set back, or another driver runs the same
    query. Use one driver; to write again on purpose choose a new checkpoint or another transactionalIdPrefix."""


class MarkersContradict(OttlaError):
    """The markers of this sink do not fit together. Were offsets of its group deleted or reset, or the marker topic
    made again? Choose another transactionalIdPrefix and a new checkpoint."""
