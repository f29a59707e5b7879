"""The quorum of the metadata log as the console shows it: who votes, who follows, who led when, and what is wrong.

1. How far everybody is, only the active controller knows; every node asks it by DescribeQuorum, as `ottla cluster
   members` does. A broker passes the question on in the name of the caller. A controller that does not lead asks in its
   own name, after the caller's right was checked here.
2. Whoever answers, the node's own log says who votes, where they are, and who was elected when (cluster/raft/
   past_elections.py). So the page says something when nobody leads, which is when it is looked at.
3. Nobody waits longer than ASK_LIMIT_MS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.console.findings import BAD, WARNING, Finding
from ottla.broker.console.needs import DESCRIBE_CLUSTER
from ottla.broker.console.reach import ASK_LIMIT_MS, within
from ottla.broker.console.survey import in_slices
from ottla.broker.http.call import Call
from ottla.broker.http.parts import Json
from ottla.cluster.raft.past_elections import Election, elections
from ottla.cluster.topic_names import CLUSTER_METADATA
from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from ottla.protocol.schema import Message
from ottla.quorum_health import (
    NOBODY_LEADS,
    UNLED,
    QuorumInfo,
    QuorumReplica,
    Trouble,
    caught_up_ms,
    lag,
    quorum_of,
    silent_ms,
    troubles_of,
)
from ottla.values import ZERO_UUID, uuid_to_text

if TYPE_CHECKING:
    from ottla.cluster.raft.log import LogState, MetadataLog
    from ottla.protocol.metadata_log.control import VoterNode

OBSERVERS_LIMIT: Final = 200
ELECTIONS_LIMIT: Final = 20
ELECTIONS_SLICE: Final = 5
NOBODY: Final = f"No active controller has answered within {ASK_LIMIT_MS // 1000} s"
PAGE: Final = "#/metadata"


class Described(NamedTuple):
    """What the active controller said, or why there is nothing."""

    quorum: QuorumInfo | None
    failure: OttlaError | None

    @property
    def silence(self) -> str:
        if self.failure is None:
            return ""
        return NOBODY if isinstance(self.failure, UNLED) else f"{self.failure.what}: {self.failure.detail}"


async def describe(call: Call) -> Described:
    """Ask the active controller."""
    topic = TopicData(topic_name=CLUSTER_METADATA, partitions=[PartitionData(partition_index=0)])
    request, link = DescribeQuorumRequest(topics=[topic]), call.broker.link
    try:
        if link.is_controller and link.controller_for_clients != call.broker.id:
            call.check(DESCRIBE_CLUSTER)
            limit_ms = call.broker.settings.controller_socket_timeout_ms
            answer: Message = await within(call, controller_link(call.broker).ask_active(request, limit_ms))
        else:
            answer = await within(call, call.ask(request, DescribeQuorumResponse))
        assert isinstance(answer, DescribeQuorumResponse)
        return Described(quorum_of(answer), None)
    except OttlaError as error:
        return Described(None, error)


def troubles(call: Call, said: Described) -> list[Trouble]:
    """What is wrong with the quorum of this node."""
    if said.quorum is not None:
        return troubles_of(said.quorum, brokers=len(call.broker.image.brokers))
    return [NOBODY_LEADS] if isinstance(said.failure, UNLED) else []


async def quorum_findings(call: Call) -> list[Finding]:
    """The same for the doctor's page; none where there is no metadata log."""
    if call.broker.link.log_state() is None:
        return []
    found = troubles(call, await describe(call))
    return [
        Finding("quorum", BAD if trouble.is_bad else WARNING, trouble.what, trouble.still, trouble.remedy, PAGE)
        for trouble in found
    ]


async def quorum(call: Call, state: LogState, log: MetadataLog) -> dict[str, Json]:
    """The part of the page that is about nodes."""
    said = await describe(call)
    found = [election async for election in in_slices(elections(log, ELECTIONS_LIMIT), ELECTIONS_SLICE)]
    leader, epoch = (state.leader_id, state.epoch) if said.quorum is None else _leading(said.quorum)
    votes = {call.broker.id: state.voted_id} if state.epoch == epoch and state.voted_id >= 0 else {}
    if found and found[0].epoch == epoch:
        votes |= dict.fromkeys(found[0].granted, found[0].leader_id)
    return {
        "node": call.broker.id,
        "leader": leader,
        "epoch": epoch,
        "silence": said.silence,
        "voters": _voters(state, said.quorum, votes),
        **_observers(call, said.quorum),
        "elections": [_election(election, after) for election, after in zip(found, (None, *found), strict=False)],
        "troubles": [
            {
                "severity": BAD if trouble.is_bad else WARNING,
                "what": trouble.what,
                "still": trouble.still,
                "remedy": trouble.remedy,
            }
            for trouble in troubles(call, said)
        ],
    }


def _leading(found: QuorumInfo) -> tuple[int, int]:
    return found.leader, found.leader_epoch


def _voters(state: LogState, found: QuorumInfo | None, votes: dict[int, int]) -> Sequence[Json]:
    """As the leader tells them; where nobody does, as this node's log names them."""
    if found is None:
        return [_unheard(each, votes) for each in state.voters]
    return [{**_row(found, each), "voted_for": votes.get(each.node_id)} for each in found.voters]


def _observers(call: Call, found: QuorumInfo | None) -> dict[str, Json]:
    known = () if found is None else found.observers
    brokers = call.broker.image.brokers
    rows: list[Json] = [
        {**_row(found, each), "is_broker": each.node_id in brokers}
        for each in sorted(known)[:OBSERVERS_LIMIT]
        if found is not None
    ]
    return {"observers": rows, "observers_count": len(known)}


def _row(found: QuorumInfo, replica: QuorumReplica) -> dict[str, Json]:
    return {
        "id": replica.node_id,
        "directory": None if replica.directory_id is None else uuid_to_text(replica.directory_id),
        "endpoints": [
            f"{each.listener}://{each.host}:{each.port}" for each in found.endpoints.get(replica.node_id, ())
        ],
        "is_leader": replica == found.leading,
        "end_offset": None if replica.log_end_offset < 0 else replica.log_end_offset,
        "lag": lag(found, replica),
        "silent_ms": silent_ms(found, replica),
        "caught_up_ms": caught_up_ms(found, replica),
    }


def _unheard(voter: VoterNode, votes: dict[int, int]) -> dict[str, Json]:
    known = voter.voter_directory_id != ZERO_UUID
    return {
        "id": voter.voter_id,
        "directory": uuid_to_text(voter.voter_directory_id) if known else None,
        "endpoints": [f"{each.name}://{each.host}:{each.port}" for each in voter.endpoints],
        "is_leader": False,
        "end_offset": None,
        "lag": None,
        "silent_ms": None,
        "caught_up_ms": None,
        "voted_for": votes.get(voter.voter_id),
    }


def _election(each: Election, after: Election | None) -> dict[str, Json]:
    """`after` is the next one: until then it led."""
    return {
        "epoch": each.epoch,
        "offset": each.offset,
        "timestamp_ms": each.timestamp_ms,
        "leader": each.leader_id,
        "voters": each.voters,
        "granted": each.granted,
        "quiet_ms": each.quiet_ms,
        "led_ms": None if after is None else max(after.timestamp_ms - each.timestamp_ms, 0),
    }
