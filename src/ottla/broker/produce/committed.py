"""A produce request waits until every partition has committed what it wrote, or its time is over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.broker.produce.frames import ProduceResult, ProduceResults
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.running import Work
from ottla.errors import (
    BrokerError,
    MessageTooLarge,
    NotEnoughReplicasAfterAppend,
    RecordListTooLarge,
    RequestTimedOut,
)
from ottla.light_dataclasses import dataclass
from ottla.metrics import OTHER
from ottla.protocol.api import APIS

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PRODUCE: Final = APIS[0]


@dataclass(slots=True)
class Uncommitted:
    """One partition's part of the request."""

    partition: Partition
    next_offset: int  # committed when the high watermark is here
    outcome: ProduceResult
    wants_all: bool = True  # acks=all; with acks=1 only the leader's own disk is waited for

    def is_over(self) -> bool:
        """Whether it is committed, or cannot be any more, which its answer then says."""
        partition = self.partition
        try:
            # In whichever epoch: a leader that goes on in a new one (a follower died) has what it wrote in the old one,
            # and one that lost its office in between was asked when that happened.
            partition.check_leader()
        except BrokerError as error:
            self.outcome.refuse(error)
            return True
        if partition.high_watermark < self.next_offset:
            return False
        if self.wants_all and partition.in_sync_count < partition.min_in_sync_count:
            self.outcome.refuse(NotEnoughReplicasAfterAppend())
        return True


def wait_until_committed(
    broker: Broker, answers: ProduceResults, uncommitted: list[Uncommitted], timeout_ms: int
) -> ProduceResults | Work[ProduceResults]:
    """The answers, if nothing has to be waited for."""
    waiting = [each for each in uncommitted if not each.is_over()]
    if not waiting:
        _count_failures(broker, uncommitted)
        return answers
    deadline_ms = broker.clock.monotonic_ms() + timeout_ms
    commits = broker.progress.commits
    # They stand in line from now on, whenever the coroutine takes its first step.
    waits = [(each, commits.wait(each, deadline_ms)) for each in waiting]
    return _answer_when_over(broker, answers, uncommitted, waits)


async def _answer_when_over(
    broker: Broker,
    answers: ProduceResults,
    uncommitted: list[Uncommitted],
    waiting: list[tuple[Uncommitted, asyncio.Future[bool]]],
) -> ProduceResults:
    for each, is_over in waiting:
        if not await is_over:
            each.outcome.refuse(RequestTimedOut())
    _count_failures(broker, uncommitted)
    return answers


def _count_failures(broker: Broker, uncommitted: list[Uncommitted]) -> None:
    for each in uncommitted:
        if each.outcome.error is not None:
            count_unacknowledged(broker, each.partition.name.topic, each.outcome.error)


# -- what is not acknowledged, counted by topic and by the error that the producer gets ------------------------------


def count_refusal(broker: Broker, topic: str | None, error: BrokerError, size_bytes: int) -> None:
    """So many bytes for a partition of this topic were not appended."""
    rejected_bytes = size_bytes if isinstance(error, MessageTooLarge | RecordListTooLarge) else 0
    broker.topic_metrics.produce_failed(_known(broker, topic), rejected_bytes)
    broker.request_metrics.failed(PRODUCE, error.code)


def count_unacknowledged(broker: Broker, topic: str, error: BrokerError) -> None:
    """What was appended is not known to be committed."""
    broker.topic_metrics.of(_known(broker, topic)).failed_produces.value += 1
    broker.request_metrics.failed(PRODUCE, error.code)


def _known(broker: Broker, topic: str | None) -> str:
    """The names of topics that do not exist are the client's invention."""
    return OTHER if topic is None or broker.image.topic(topic) is None else topic
