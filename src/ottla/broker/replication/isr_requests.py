"""AlterPartition requests to the controller: what leaders of this broker propose, in one request at a time.

1. One request is under way per broker; what is proposed meanwhile goes with the next. A partition has one proposal.
2. What the controller refused as a whole, or what got no answer, is asked again after RETRY_MS, because nobody knows
   whether it was made true. A partition that an answer does not name is asked again as well.
3. What becomes of one partition's proposal is an IsrDecision by its error code:

       none                                     ACCEPTED: the set in the answer is true
       OPERATION_NOT_ATTEMPTED,
       INELIGIBLE_REPLICA                       WITHDRAWN: what was true before still is
       FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, NEW_LEADER_ELECTED,
       UNKNOWN_TOPIC_OR_PARTITION,
       UNKNOWN_TOPIC_ID                         LEFT: the controller's next order says what is true; until then both
                                                sets count
       anything else                            asked again

4. A leader may get another session, and with it another registration, and lead on. So it speaks of itself under the
   registration that each request is sent under: with an older one it would be taken for a broker that came back.

Plain state: requests are returned as messages, responses come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from ottla.broker.replication.in_sync import Member, Proposal
from ottla.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    OperationNotAttempted,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from ottla.values import TopicPartition

RETRY_MS: Final = 50

_WITHDRAWN: Final = {OperationNotAttempted.code, IneligibleReplica.code}
_LEFT: Final = {
    each.code
    for each in (
        FencedLeaderEpoch,
        InvalidUpdateVersion,
        InvalidRequest,
        NewLeaderElected,
        UnknownTopicOrPartition,
        UnknownTopicId,
    )
}


class IsrVerdict(Enum):
    ACCEPTED = "accepted"
    WITHDRAWN = "withdrawn"
    LEFT = "left"


class IsrDecision(NamedTuple):
    """What became of a proposal; the last three are the truth when it is ACCEPTED."""

    name: TopicPartition
    proposal: Proposal
    verdict: IsrVerdict
    isr: tuple[int, ...] = ()
    leader_epoch: int = -1
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True)
class _Waiting:
    name: TopicPartition
    topic_id: bytes
    proposal: Proposal


class IsrRequests:
    """The proposals of this broker that have no answer yet, oldest first."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._waiting: dict[tuple[bytes, int], _Waiting] = {}
        self._in_flight: dict[tuple[bytes, int], _Waiting] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, name: TopicPartition, topic_id: bytes, proposal: Proposal) -> bool:
        """False when this partition's last proposal has no answer yet; the new one is then not made."""
        key = topic_id, name.partition
        known = self._waiting.get(key)
        if known is not None and known.proposal.leader_epoch >= proposal.leader_epoch:
            return False
        self._waiting[key] = _Waiting(name, topic_id, proposal)
        return True

    def forget(self, name: TopicPartition, topic_id: bytes) -> None:
        """The partition is not led from here any more."""
        self._waiting.pop((topic_id, name.partition), None)

    def request(self, broker_epoch: int) -> AlterPartitionRequest | None:
        """What to send now; None while one is under way, or when there is nothing."""
        if self._in_flight is not None or not self._waiting:
            return None
        self._in_flight = dict(self._waiting)
        ourselves = Member(self._broker_id, broker_epoch)
        topics: dict[bytes, TopicData] = {}
        for each in self._in_flight.values():
            topic = topics.setdefault(each.topic_id, TopicData(topic_id=each.topic_id, partitions=[]))
            topic.partitions.append(_asked(each, ourselves))
        return AlterPartitionRequest(broker_id=self._broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))

    def failed(self) -> None:
        """There was no answer: all of it is asked again."""
        self._in_flight = None

    def answered(self, response: AlterPartitionResponse) -> list[IsrDecision]:
        """What the answer decides; the rest is asked again."""
        sent, self._in_flight = self._in_flight or {}, None
        if response.error_code:
            return []
        outcomes = []
        for topic_id, answer in _answers(response):
            key = topic_id, answer.partition_index
            asked = sent.get(key)
            verdict = _verdict(answer.error_code)
            if asked is None or verdict is None or self._waiting.get(key) is not asked:
                continue
            del self._waiting[key]
            truth = (tuple(answer.isr), answer.leader_epoch, answer.partition_epoch)
            outcomes.append(IsrDecision(asked.name, asked.proposal, verdict, *truth))
        return outcomes


def _asked(each: _Waiting, ourselves: Member) -> PartitionData:
    """One proposal, under the registration that we have now (see 4)."""
    members = [ourselves if member.broker_id == ourselves.broker_id else member for member in each.proposal.members]
    return PartitionData(
        partition_index=each.name.partition,
        leader_epoch=each.proposal.leader_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=member.broker_id, broker_epoch=member.broker_epoch) for member in members
        ],
        partition_epoch=each.proposal.partition_epoch,
    )


def _answers(response: AlterPartitionResponse) -> Iterator[tuple[bytes, ResponsePartitionData]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield topic.topic_id, partition


def _verdict(error_code: int) -> IsrVerdict | None:
    if error_code == 0:
        return IsrVerdict.ACCEPTED
    if error_code in _WITHDRAWN:
        return IsrVerdict.WITHDRAWN
    return IsrVerdict.LEFT if error_code in _LEFT else None
