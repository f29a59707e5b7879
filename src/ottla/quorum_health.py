"""What DescribeQuorum tells of a metadata quorum, and what is wrong with it: for the doctors of clients and of brokers.

    quorum = quorum_of(response)                     # raises what the answer says is wrong
    for trouble in troubles_of(quorum, brokers=3): print(trouble.what, trouble.still, trouble.remedy)

1. A Trouble says what happened, what still works, and what to do. It is a function of what was answered: nothing is
   asked or tried here, and there is no clock. How long somebody has been silent is told by the leader's clock alone.
2. A voter is there when it has asked for the log within SILENT_MS; voters and brokers do so twice a second. The leader
   is there: it answered.
3. Where nobody answers, NOBODY_LEADS is what that means.
4. Answers of before Kafka 3.3 have no times, those of before 3.9 and of fixed voters (controller.quorum.voters) no
   directories: what cannot be seen is no trouble.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.errors import (
    BrokerNotAvailable,
    NotController,
    NotLeaderOrFollower,
    RequestTimedOut,
    raise_for_code,
)
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.values import ZERO_UUID, uuid_to_text

if TYPE_CHECKING:
    from ottla.protocol.messages.describe_quorum import DescribeQuorumResponse, ReplicaState

SILENT_MS: Final = 3_000
"""Who has not fetched for so long is told to be silent."""
BEHIND_MS: Final = 10_000
"""Who has not had everything for so long does not keep up."""
CLOCK_MS: Final = 5_000
"""Clocks that differ by more than that are told."""


class QuorumReplica(NamedTuple):
    """One node of the metadata quorum."""

    node_id: int
    log_end_offset: int
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None
    directory_id: bytes | None = None


class QuorumEndpoint(NamedTuple):
    """Where a member of the quorum listens."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The metadata quorum of a KRaft cluster."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[QuorumEndpoint, ...]] = field(default_factory=dict)

    @property
    def leading(self) -> QuorumReplica | None:
        """The leader's own row."""
        return next((each for each in self.voters if each.node_id == self.leader), None)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def has_times(self) -> bool:
        """Whether it was told when somebody fetched."""
        return self.leading is not None and self.leading.last_fetch_timestamp_ms is not None


def quorum_of(response: DescribeQuorumResponse) -> QuorumInfo:
    """What was answered; raises the BrokerError where it is one."""
    raise_for_code(response.error_code, response.error_message)
    partition = response.topics[0].partitions[0]
    raise_for_code(partition.error_code, partition.error_message)
    return QuorumInfo(
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(_replica(each) for each in partition.current_voters),
        observers=tuple(_replica(each) for each in partition.observers),
        endpoints={
            node.node_id: tuple(QuorumEndpoint(each.name, each.host, each.port) for each in node.listeners)
            for node in response.nodes
        },
    )


def _replica(each: ReplicaState) -> QuorumReplica:
    fetched = None if each.last_fetch_timestamp < 0 else each.last_fetch_timestamp
    caught_up = None if each.last_caught_up_timestamp < 0 else each.last_caught_up_timestamp
    directory = None if each.replica_directory_id == ZERO_UUID else each.replica_directory_id
    return QuorumReplica(each.replica_id, each.log_end_offset, fetched, caught_up, directory)


# --- how somebody is -------------------------------------------------------------------------------------------------


def silent_ms(quorum: QuorumInfo, replica: QuorumReplica) -> int | None:
    """For how long a replica has not fetched; None when it never did in this leadership."""
    return _ago(quorum, replica, replica.last_fetch_timestamp_ms)


def caught_up_ms(quorum: QuorumInfo, replica: QuorumReplica) -> int | None:
    """How long ago a replica had everything; None when it never had in this leadership."""
    return _ago(quorum, replica, replica.last_caught_up_timestamp_ms)


def _ago(quorum: QuorumInfo, replica: QuorumReplica, then_ms: int | None) -> int | None:
    leader = quorum.leading
    if leader is not None and replica == leader:
        return 0
    if leader is None or leader.last_fetch_timestamp_ms is None or then_ms is None:
        return None
    return max(leader.last_fetch_timestamp_ms - then_ms, 0)


def lag(quorum: QuorumInfo, replica: QuorumReplica) -> int | None:
    """So many records the leader has and it has not, as far as the leader knows; None when it never fetched."""
    end_offset = quorum.high_watermark if quorum.leading is None else quorum.leading.log_end_offset
    return None if replica.log_end_offset < 0 else max(end_offset - replica.log_end_offset, 0)


def is_silent(quorum: QuorumInfo, replica: QuorumReplica) -> bool:
    if not quorum.has_times:
        return False
    silent = silent_ms(quorum, replica)
    return silent is None or silent >= SILENT_MS


# --- what is wrong ---------------------------------------------------------------------------------------------------


class Trouble(NamedTuple):
    """What happened, what still works, and what to do. `node` is the voter that it is about, -1 where it is about all
    of them; `is_bad`: nothing can be decided now."""

    node: int
    is_bad: bool
    what: str
    still: str
    remedy: str
    is_silence: bool = False
    """It is about a voter that nothing is heard of: somebody may look whether it runs."""


WITHOUT_DECISIONS: Final = (
    "What is led goes on: partitions whose leaders live are written and read, groups commit. Nothing is decided: no "
    "topic is created or changed, no leader elected, no in-sync set changed (acks=all waits for a copy that is gone), "
    "no user, rule or setting is written, no broker is let in"
)
BRING_BACK: Final = (
    "Start controllers until more than half of the voters run, and see that they reach each other's controller "
    "listeners; the rest goes on by itself"
)
NOBODY_LEADS: Final = Trouble(
    -1, True, "nobody leads the metadata log, or whoever does cannot be reached", WITHOUT_DECISIONS, BRING_BACK
)


UNLED: Final = (NotLeaderOrFollower, NotController, BrokerNotAvailable, RequestTimedOut, TimeoutError)
"""What a question to the active controller ends with while there is none."""


def troubles_of(quorum: QuorumInfo, *, brokers: int) -> list[Trouble]:
    """All that can be seen, what is bad first. `brokers` is how many there are."""
    return sorted((*_of_all(quorum, brokers), *_of_voters(quorum)), key=lambda each: not each.is_bad)


def _of_all(quorum: QuorumInfo, brokers: int) -> Iterator[Trouble]:
    there = [each.node_id for each in quorum.voters if not is_silent(quorum, each)]
    count = len(quorum.voters)
    if len(there) < quorum.majority:
        what = f"of {count} voters only {_listed(there)} is heard of, and {quorum.majority} are a majority"
        yield Trouble(-1, True, what, WITHOUT_DECISIONS, BRING_BACK)
    if count == 2:
        yield Trouble(
            -1,
            False,
            "there are two voters: when either is gone, nothing can be decided",
            "Everything works while both run",
            "Add a third (`ottla broker start --join`, or `kafka-metadata-quorum add-controller`), or go to one "
            "(`kafka-metadata-quorum remove-controller`), which bears as much",
        )
    elif count and not count % 2:
        yield Trouble(
            -1,
            False,
            f"there are {count} voters, which bear the loss of {(count - 1) // 2}, as {count - 1} do",
            "Everything works; there is one more that may be missing from a majority",
            f"Add one: {count + 1} voters bear the loss of {count // 2}. Or take the vote of one: "
            "`kafka-metadata-quorum remove-controller`",
        )
    elif count == 1 and brokers > 2 and quorum.voters[0].directory_id is not None:
        yield Trouble(
            quorum.leader,
            False,
            f"node {quorum.leader} alone votes, for {brokers} brokers: while it is gone, nothing can be decided",
            "Everything works while it runs",
            "Add two voters (`ottla broker start --join`, or `kafka-metadata-quorum add-controller`)",
        )


def _of_voters(quorum: QuorumInfo) -> Iterator[Trouble]:
    for voter in quorum.voters:
        others = [each for each in quorum.observers if each.node_id == voter.node_id]
        moved = next((each for each in others if _is_another(each, voter) and not is_silent(quorum, each)), None)
        if moved is not None:
            yield _with_another_directory(quorum, voter, moved)
        elif is_silent(quorum, voter):
            yield _silent(quorum, voter)
        elif (trouble := _behind(quorum, voter)) is not None:
            yield trouble


def _is_another(observer: QuorumReplica, voter: QuorumReplica) -> bool:
    known = observer.directory_id is not None and voter.directory_id is not None
    return known and observer.directory_id != voter.directory_id


def _with_another_directory(quorum: QuorumInfo, voter: QuorumReplica, moved: QuorumReplica) -> Trouble:
    assert voter.directory_id is not None
    assert moved.directory_id is not None
    votes, follows = uuid_to_text(voter.directory_id), uuid_to_text(moved.directory_id)
    return Trouble(
        voter.node_id,
        False,
        f"voter {voter.node_id} came back with another directory: {votes} votes, and {follows} only reads",
        f"It lost its disk, and has no vote with the new one. {_borne(quorum)}",
        f"With controller.quorum.auto.join.enable it takes its vote over by itself. Else: kafka-metadata-quorum "
        f"remove-controller --controller-id {voter.node_id} --controller-directory-id {votes}, then add-controller on "
        f"that node; or let another node take its place: ottla cluster replace {voter.node_id} --with NODE",
    )


def _silent(quorum: QuorumInfo, voter: QuorumReplica) -> Trouble:
    silent = silent_ms(quorum, voter)
    since = f"since node {quorum.leader} leads" if silent is None else f"for {shown(silent)}"
    if voter.directory_id is None:
        lost = "start it anew, by its id and at its address (voters of controller.quorum.voters have no directory)"
    else:
        lost = f"ottla cluster replace {voter.node_id} --with NODE"
    return Trouble(
        voter.node_id,
        False,
        f"voter {voter.node_id}{_place(quorum, voter)} has not asked for the log {since}",
        _borne(quorum),
        f"Start it again, and see that it reaches node {quorum.leader}{_place(quorum, quorum.leading)}. If it is lost: "
        f"{lost}",
        is_silence=True,
    )


def _behind(quorum: QuorumInfo, voter: QuorumReplica) -> Trouble | None:
    behind, had_all = lag(quorum, voter), caught_up_ms(quorum, voter)
    if not behind or not quorum.has_times or (had_all is not None and had_all < BEHIND_MS):
        return None
    last = f"since node {quorum.leader} leads" if had_all is None else f"for {shown(had_all)}"
    count = "1 record" if behind == 1 else f"{behind:,} records"
    return Trouble(
        voter.node_id,
        False,
        f"voter {voter.node_id}{_place(quorum, voter)} is {count} behind, and has not had everything {last}",
        "It asks for the log and does not keep up: what is decided waits for the other voters",
        "Look at its disk, its network and its own log; after a long time away it may only need some more",
    )


def _borne(quorum: QuorumInfo) -> str:
    """What the loss of voters that are there would do."""
    there = sum(not is_silent(quorum, each) for each in quorum.voters)
    spare = there - quorum.majority
    if spare < 0:
        return f"{there} of {len(quorum.voters)} voters are there, which is no majority"
    if spare:
        return f"Everything works, and the loss of {spare} more is borne"
    there_are = f"{there} of {len(quorum.voters)} voters are there"
    return f"Everything works; {there_are}, and when one more is gone nothing can be decided"


def soundness(quorum: QuorumInfo) -> str:
    """A quorum in a sentence."""
    count, ids = len(quorum.voters), _listed(each.node_id for each in quorum.voters)
    if count == 1:
        return f"node {ids} alone votes and leads, in epoch {quorum.leader_epoch}"
    there = sum(not is_silent(quorum, each) for each in quorum.voters)
    spare = there - quorum.majority
    borne = f"the loss of {spare}{' more' if there < count else ''} is borne" if spare > 0 else "no loss is borne"
    are_there = f", {there} of them are there" if there < count else ""
    led = f"led by node {quorum.leader} in epoch {quorum.leader_epoch}"
    return f"{count} voters ({ids}){are_there}, {led}; {borne}"


# --- words -----------------------------------------------------------------------------------------------------------


def _place(quorum: QuorumInfo, replica: QuorumReplica | None) -> str:
    endpoints = () if replica is None else quorum.endpoints.get(replica.node_id, ())
    return f" ({endpoints[0].host}:{endpoints[0].port})" if endpoints else ""


def _listed(ids: Iterator[int] | list[int]) -> str:
    return ", ".join(map(str, ids)) or "nobody"


def shown(duration_ms: int) -> str:
    """A duration for people."""
    seconds = duration_ms / 1000
    if seconds < 1:
        return f"{duration_ms} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.0f} h"
