"""Who waits for the answers to acknowledgements, and what they are told. Plain.

A commit is about what was acknowledged before it. Its result has every partition of those records: None when all went
well, else the first error. Callbacks hear of offsets, one call for each error and one for what went well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.share.in_flight import GAP, AcknowledgeType, Held, NotHeld, Outcome, State
from ottla.errors import OttlaError, RequestTimedOut
from ottla.light_dataclasses import dataclass
from ottla.values import TopicPartition

CommitResult = dict[TopicPartition, "OttlaError | None"]
AcknowledgementCallback = Callable[[dict[TopicPartition, frozenset[int]], "OttlaError | None"], Any]


@dataclass(frozen=True, slots=True)
class AcknowledgementsDue:
    """What a callback is told by the next call of the application."""

    offsets: dict[TopicPartition, frozenset[int]]
    error: OttlaError | None


class PendingCommit:
    """One commit."""

    def __init__(self, acks: Iterable[Held]) -> None:
        self._waiting = set(acks)
        self.result: CommitResult = dict.fromkeys(sorted({held.name for held in self._waiting}))

    @property
    def is_done(self) -> bool:
        return not self._waiting

    def answered(self, outcomes: Iterable[Outcome]) -> None:
        """Some acknowledgements were answered, ours or others."""
        for held, _, error in outcomes:
            if held in self._waiting and not _is_open(held):
                self._end(held, error)
        for held in [each for each in self._waiting if not _is_open(each)]:
            self._end(held, NotHeld(f"{held.name} at offset {held.offset} was delivered again before it was answered"))

    def time_out(self, timeout_ms: float) -> None:
        for held in list(self._waiting):
            self._end(held, RequestTimedOut(f"no answer about {held.name} within {timeout_ms:.0f} ms"))

    def _end(self, held: Held, error: OttlaError | None) -> None:
        self._waiting.discard(held)
        if error is not None and self.result[held.name] is None:
            self.result[held.name] = error


def _is_open(held: Held) -> bool:
    return held.state in (State.ACKNOWLEDGED, State.SENDING)


def notices(outcomes: Iterable[Outcome]) -> list[AcknowledgementsDue]:
    """What callbacks hear: final acknowledgements, and renewals that failed."""
    by_error: dict[tuple[type | None, str], tuple[OttlaError | None, dict[TopicPartition, set[int]]]] = {}
    for held, ack, error in outcomes:
        if ack == GAP or (ack == AcknowledgeType.RENEW and error is None):
            continue
        _, offsets = by_error.setdefault((type(error), str(error)), (error, {}))
        offsets.setdefault(held.name, set()).add(held.offset)
    return [
        AcknowledgementsDue({name: frozenset(found) for name, found in offsets.items()}, error)
        for error, offsets in by_error.values()
    ]
