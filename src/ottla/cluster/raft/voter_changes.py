"""Voters that come and go while the quorum works (KIP-853), as far as its leader has to do with it.

    add      ask the new voter which kraft.versions it knows ──► has it caught up? ──► append ──► commit ──► answer
    remove   append ──► commit ──► answer; a leader that took itself out resigns when that is committed
    update   append ──► answer at once: only where a voter is reached, or what it knows, has changed
    upgrade  append kraft.version and the voters ──► commit: from there on the log tells who votes, and not settings

1. One change at a time: the next waits until the one before is committed. Two majorities, of the voters before and
   after one change, always have a node in common; of those before and after two changes they need not.
2. What can be refused at once is refused in Kafka's order. The rest is a VoterChange, which is decided later, also by
   the end of the leadership.
3. While settings name the voters (kraft.version 0) there is nothing to append to: every voter tells each new leader
   where it is reached, in which directory its log is and which levels it knows (UpdateRaftVoter), and the leader keeps
   that. An upgrade writes it down, so it waits until all have told. There is no way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from ottla.cluster.raft.leading import Leadership
from ottla.cluster.raft.log import MetadataLog
from ottla.cluster.raft.node import RaftNode, Sent
from ottla.cluster.raft.voters import VoterHistory, VoterKey, VoterSet
from ottla.errors import (
    DuplicateVoter,
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownLeaderEpoch,
    UnsupportedVersion,
    VoterNotFound,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from ottla.protocol.metadata_log.control import (
    ControlMessage,
    KRaftVersionFeature,
    KRaftVersionRecord,
    VoterEndpoint,
    VoterNode,
    VotersRecord,
)
from ottla.values import ZERO_UUID, Address

KRAFT_VERSION: Final = "kraft.version"
CAUGHT_UP_WITHIN_MS: Final = 3_600_000
"""A new voter must have had the whole log not longer ago, as in Kafka."""
ADDING_LIMIT_MS: Final = 60_000
"""A voter that cannot be asked holds other changes up for no longer, whatever time-out who wants it says."""
LISTENERS_LIMIT: Final = 100
"""Of a voter. They stand in the log, and in every snapshot."""
NEVER: Final = float("inf")


class HasListener(Protocol):
    """Of a request of somebody who votes, or wants to."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class LeadingNode(Protocol):
    """What is needed of raft.py."""

    node: RaftNode
    log: MetadataLog
    leadership: Leadership | None

    @property
    def epoch(self) -> int: ...
    @property
    def voters(self) -> VoterSet: ...
    @property
    def voter_history(self) -> VoterHistory: ...
    @property
    def kraft_version(self) -> int: ...
    def can_ask(self, address: Address, now_ms: int) -> bool: ...
    def append_controls(self, controls: Sequence[ControlMessage], now_ms: int) -> int: ...


class VoterChange:
    """One change, decided or not."""

    def __init__(self, error_code: int | None = None, message: str | None = None) -> None:
        self.error_code = error_code
        """0 when it is done; None while it is not decided."""
        self.message = message

    def end(self, error_code: int, message: str | None = None) -> None:
        if self.error_code is None:
            self.error_code, self.message = error_code, message


class KnownVoters(NamedTuple):
    """The level of a quorum, and what its leader knows of the voters. A value: any thread may look at it."""

    kraft_version: int
    voters: VoterSet

    def check_upgrade(self, level: int) -> None:
        """InvalidUpdateVersion where the quorum cannot work at that level."""
        what = f"invalid update of {KRAFT_VERSION} from {self.kraft_version} to {level}"
        if level < self.kraft_version:
            raise InvalidUpdateVersion(f"{what}: it is never lowered, because who votes is told by the log alone now")
        if level == self.kraft_version:
            return
        silent = [key.id for key in self.voters if key.directory_id == ZERO_UUID]
        if silent:
            raise InvalidUpdateVersion(
                f"{what}: {_named(silent)} not told the leader yet in which directory the log is (UpdateRaftVoter). "
                "Voters that run do so some seconds after an election, those of Apache Kafka from 4.1 on; start or "
                "update them, and try again"
            )
        older = [node.voter_id for node in self.voters.nodes if not _knows(node, level)]
        if older:
            raise InvalidUpdateVersion(f"{what}: {_named(older)} no software that knows this level; update it first")


def _knows(voter: VoterNode, level: int) -> bool:
    levels = voter.k_raft_version_feature
    return levels.min_supported_version <= level <= levels.max_supported_version


def _named(voter_ids: Sequence[int]) -> str:
    """The subject of a sentence about what they have."""
    names = ", ".join(map(str, sorted(voter_ids)))
    return f"voter {names} has" if len(voter_ids) == 1 else f"voters {names} have"


class Adding:
    """A voter that is being added, before it is in the log."""

    def __init__(self, change: VoterChange, voter: VoterNode, address: Address, end_ms: int, *, waits: bool) -> None:
        self.change, self.voter, self.address, self.end_ms, self.waits = change, voter, address, end_ms, waits
        self.is_asked = False


class VoterChanges:
    """See above; of one leadership."""

    def __init__(self, raft: LeadingNode) -> None:
        self._raft = raft
        self._updates = {raft.node.key.id: raft.node.as_voter()}  # by the voters themselves, where settings name them
        self._adding: Adding | None = None
        self._uncommitted: tuple[int, VoterChange] | None = None

    # --- what is asked ------------------------------------------------------------------------------------------------

    def add(self, request: AddRaftVoterRequest, now_ms: int) -> VoterChange:
        if (refused := self._refused_by_version() or self._refused_now()) is not None:
            return refused
        if self._raft.voters.find(request.voter_id) is not None:
            return VoterChange(DuplicateVoter.code, f"node {request.voter_id} is a voter already")
        if not 0 < len(request.listeners) <= LISTENERS_LIMIT:
            return VoterChange(InvalidRequest.code, f"a voter has a listener, and at most {LISTENERS_LIMIT}")
        voter = _voter(VoterKey(request.voter_id, request.voter_directory_id), request.listeners, (0, 0))
        first = request.listeners[0]
        change = VoterChange()
        end_ms = now_ms + min(max(0, request.timeout_ms), ADDING_LIMIT_MS)
        self._adding = Adding(change, voter, Address(first.host, first.port), end_ms, waits=request.ack_when_committed)
        return change

    def remove(self, request: RemoveRaftVoterRequest, now_ms: int) -> VoterChange:
        if (refused := self._refused_by_version() or self._refused_now()) is not None:
            return refused
        key, voters = VoterKey(request.voter_id, request.voter_directory_id), self._raft.voters
        if key not in voters:
            return VoterChange(VoterNotFound.code, f"{key} is no voter")
        if len(voters) == 1:
            return VoterChange(InvalidRequest.code, f"{key} is the only voter; without it there is no quorum")
        return self._append(voters.without_voter(key.id), VoterChange(), now_ms)

    def update(self, request: UpdateRaftVoterRequest, now_ms: int) -> int:
        """The error code."""
        raft = self._raft
        if request.current_leader_epoch != raft.epoch:
            is_old = request.current_leader_epoch < raft.epoch
            return FencedLeaderEpoch.code if is_old else UnknownLeaderEpoch.code
        if (refused := self._refused_now()) is not None:
            return refused.error_code or 0
        key = VoterKey(request.voter_id, request.voter_directory_id)
        if key not in raft.voters:
            return VoterNotFound.code
        levels = request.kraft_version_feature
        if (
            not levels.min_supported_version <= raft.kraft_version <= levels.max_supported_version
            or not 0 < len(request.listeners) <= LISTENERS_LIMIT
        ):
            return InvalidRequest.code
        voter = _voter(key, request.listeners, (levels.min_supported_version, levels.max_supported_version))
        if not raft.kraft_version:
            self._updates[key.id] = voter
        elif raft.voters.find(key.id) != voter:
            self._append(raft.voters.with_voter(voter), VoterChange(), now_ms)
        return 0

    # --- the level of the quorum --------------------------------------------------------------------------------------

    def known_voters(self) -> KnownVoters:
        """What an upgrade of kraft.version is decided by."""
        voters = self._raft.voters
        if self._raft.kraft_version:
            return KnownVoters(self._raft.kraft_version, voters)
        return KnownVoters(0, VoterSet([self._updates.get(node.voter_id, node) for node in voters.nodes]))

    def upgrade(self, level: int, now_ms: int) -> int:
        """Append the level, and who votes; where the log ends then."""
        known = self.known_voters()
        known.check_upgrade(level)
        if self._raft.leadership is None or not self._raft.leadership.is_established:
            raise NotController("this node does not lead the quorum")
        voters = VotersRecord(voters=list(known.voters.nodes))
        return self._raft.append_controls([KRaftVersionRecord(k_raft_version=level), voters], now_ms)

    def _refused_by_version(self) -> VoterChange | None:
        raft = self._raft
        if raft.leadership is None or not raft.leadership.is_established or raft.kraft_version:
            return None
        return VoterChange(
            UnsupportedVersion.code,
            "kraft.version is 0: the voters are those of controller.quorum.voters. Raise it first: "
            "kafka-features upgrade --feature kraft.version=1",
        )

    def _refused_now(self) -> VoterChange | None:
        raft = self._raft
        if raft.leadership is None:
            return VoterChange(NotLeaderOrFollower.code)
        if raft.leadership.high_watermark is None:
            return VoterChange(RequestTimedOut.code, "the leader does not know yet what is committed; try again")
        if self._adding is not None or raft.voter_history.newest_offset > raft.leadership.high_watermark:
            return VoterChange(RequestTimedOut.code, "another change of the voters is not committed yet; try again")
        return None

    # --- what comes of it ---------------------------------------------------------------------------------------------

    def _append(self, voters: VotersRecord, change: VoterChange, now_ms: int) -> VoterChange:
        self._uncommitted = self._raft.append_controls([voters], now_ms), change
        return change

    def committed(self, high_watermark: int) -> None:
        """So much is committed now."""
        if self._uncommitted is not None and high_watermark >= self._uncommitted[0]:
            self._uncommitted[1].end(0)
            self._uncommitted = None

    def end(self) -> None:
        """Another node leads, or will."""
        pending = [self._adding.change] if self._adding is not None else []
        pending += [self._uncommitted[1]] if self._uncommitted is not None else []
        for change in pending:
            change.end(NotLeaderOrFollower.code, "this node does not lead the quorum any more")
        self._adding = self._uncommitted = None

    def tick(self, now_ms: int) -> None:
        if self._adding is not None and now_ms >= self._adding.end_ms:
            self._give_up(RequestTimedOut.code, f"{self._adding.address} did not say which kraft.versions it knows")

    @property
    def wake_ms(self) -> float:
        return NEVER if self._adding is None else self._adding.end_ms

    def requests(self, now_ms: int) -> Iterator[Sent]:
        adding = self._adding
        if adding is not None and not adding.is_asked and self._raft.can_ask(adding.address, now_ms):
            adding.is_asked = True
            asked = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
            yield Sent(adding.address, self._raft.epoch, asked)

    def not_answered(self, address: Address) -> None:
        """The new voter could not be asked: it is asked again, until the time is over."""
        if self._adding is not None and self._adding.address == address:
            self._adding.is_asked = False

    def versions_answered(self, address: Address, response: ApiVersionsResponse, now_ms: int) -> None:
        adding = self._adding
        if adding is None or adding.address != address:
            return
        levels = next((each for each in response.supported_features if each.name == KRAFT_VERSION), None)
        wanted = self._raft.kraft_version
        if response.error_code or levels is None or not levels.min_version <= wanted <= levels.max_version:
            self._give_up(InvalidRequest.code, f"{address} does not know kraft.version {wanted}")
            return
        key = VoterKey(adding.voter.voter_id, adding.voter.voter_directory_id)
        progress = self._raft.leadership.observers.get(key) if self._raft.leadership is not None else None
        if progress is None or progress.caught_up_ms < 0 or now_ms - progress.caught_up_ms > CAUGHT_UP_WITHIN_MS:
            self._give_up(RequestTimedOut.code, f"{key} has not read the metadata log to its end yet; try again")
            return
        adding.voter.k_raft_version_feature = KRaftVersionFeature(
            min_supported_version=levels.min_version, max_supported_version=levels.max_version
        )
        self._adding = None
        self._append(self._raft.voters.with_voter(adding.voter), adding.change, now_ms)
        if not adding.waits:
            adding.change.end(0)

    def _give_up(self, error_code: int, message: str) -> None:
        if self._adding is not None:
            self._adding.change.end(error_code, message)
            self._adding = None


def _voter(key: VoterKey, listeners: Sequence[HasListener], levels: tuple[int, int]) -> VoterNode:
    return VoterNode(
        voter_id=key.id,
        voter_directory_id=key.directory_id,
        endpoints=[VoterEndpoint(name=each.name, host=each.host, port=each.port) for each in listeners],
        k_raft_version_feature=KRaftVersionFeature(min_supported_version=levels[0], max_supported_version=levels[1]),
    )
