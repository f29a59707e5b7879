"""Raft as Kafka does it: a node of the quorum that keeps the metadata log, whether it votes or only follows.

    raft = Raft(files, log, node, settings, random, now_ms)
    raft.tick(now_ms)                                     # what time does: elections, patience that ends
    for sent in raft.requests(now_ms): ...                # whom to ask what; then raft.answered(sent, response, now_ms)
    response = raft.on_vote(request, now_ms)                 # what others ask: votes, epochs, the log and its snapshots
    raft.append(batches, now_ms)                          # who leads: what the controller has decided
    raft.saved(state); raft.synced(now_ms)                # quorum-state and the log are on the disk up to here

    unattached ──► prospective ──► candidate ──► leader ──► resigned ──► unattached, an epoch later
        ▲ │  ◄────────┘  │  ◄─────────┘            │
        │ └──► follower ─┘ (a pre-vote is refused: back to the leader that is known)
        └───── a higher epoch makes everybody unattached, or a follower where the leader is known

No sockets, clock, threads or sleeps; the driver (broker/cluster/kraft/raft_loop.py) has those.

1. Epochs only grow, and a node gives one vote in an epoch. What it says may leave only when `state` is on the disk
   (`is_saved`), and nobody fetches behind, or counts, what is not synced.
2. Before it stands for election a node asks whether it would be elected (pre-vote, KIP-996), which changes nothing: who
   was cut off does not disturb a quorum that works. A follower that has heard of its leader refuses, unless
   it has seen that the process of the leader has ended (`is_refused`, decision 0241): then it stands itself.
3. A leader begins its epoch with a LeaderChangeMessage. The high watermark moves only with that; before, it does not
   know what is committed, `is_established` is false, and it decides nothing.
4. The log is pulled (fetching.py). A leader that a majority has not asked for 1.5 * fetch_timeout_ms resigns
   (leading.py); so does one that stops, and says who should stand first.
5. Who votes is said by the log (voters.py), one change at a time, and holds when it is appended (KIP-853); before
   kraft.version 1 by settings, and every voter tells each leader of itself (voter_changes.py). Who is not in it votes
   all the same when asked, because the log may be behind; it never stands.
6. A node that was the leader when it stopped does not lead on: it resigns from that epoch first.
7. To one address at most one request is on its way, and after one that failed there is a pause.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, Protocol

from ottla.cluster.metadata_log.batches import MetadataBatch, control_batch, data_batch
from ottla.cluster.raft import wire
from ottla.cluster.raft.fetching import SNAPSHOT_GONE, Fetching
from ottla.cluster.raft.leading import Leadership
from ottla.cluster.raft.log import MetadataLog
from ottla.cluster.raft.log_answers import answer_fetch, answer_fetch_snapshot
from ottla.cluster.raft.node import RaftNode, RaftSettings, Request, Response, Sent
from ottla.cluster.raft.peers import Peers
from ottla.cluster.raft.quorum_state import NOBODY, QuorumState, read_quorum_state
from ottla.cluster.raft.snapshots import Voters
from ottla.cluster.raft.voter_changes import VoterChanges
from ottla.cluster.raft.voters import VoterHistory, VoterKey, VoterSet
from ottla.cluster.raft.wire import EpochError, LeaderView
from ottla.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    InvalidVoterKey,
    NotController,
)
from ottla.protocol.messages import fetch, fetch_snapshot, vote
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from ottla.protocol.metadata_log.control import ControlMessage, LeaderChangeMessage, Voter
from ottla.storage.files import Files
from ottla.values import ZERO_UUID, Address

logger = logging.getLogger(__name__)

INCONSISTENT_CLUSTER_ID: Final = InconsistentClusterId.code
NOT_THE_LEADER: Final = (6, 8)
"""NOT_LEADER_OR_FOLLOWER and BROKER_NOT_AVAILABLE: it does not lead, or not any more."""
CHECK_QUORUM: Final = 1.5
"""So many times fetch_timeout_ms a leader leads on without a majority."""
EPOCHS_LIMIT: Final = 2**31 - 2**16
"""An epoch from there on is refused: it is nobody's who counts, and nobody could be elected many times after it."""
BACKOFF_STEP_MS: Final = 100
ENDED_BACKOFF_MS: Final = 200
"""Within that time who has seen the process of the leader end stands for election, so that not all do so at once."""
NEVER: Final = float("inf")


class Role(enum.Enum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


MOVES: Final = {
    Role.UNATTACHED: {Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.RESIGNED},
    Role.FOLLOWER: {Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE},
    Role.PROSPECTIVE: {Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.CANDIDATE},
    Role.CANDIDATE: {Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.LEADER},
    Role.LEADER: {Role.UNATTACHED, Role.FOLLOWER, Role.RESIGNED},
    Role.RESIGNED: {Role.UNATTACHED, Role.FOLLOWER},
}


class Election:
    """Who was asked for a vote, or a pre-vote, and what they said."""

    def __init__(self, me: VoterKey, voters: VoterSet) -> None:
        self.granted = {me.id}
        self.rejected: set[int] = set()
        self._voters = voters

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self._voters.majority

    @property
    def is_lost(self) -> bool:
        return len(self._voters) - len(self.rejected) < self._voters.majority

    def unheard(self, me: VoterKey) -> list[VoterKey]:
        return [voter for voter in self._voters if voter.id != me.id and voter.id not in self.granted | self.rejected]


class Raft:
    """See the module."""

    def __init__(
        self, files: Files, log: MetadataLog, node: RaftNode, settings: RaftSettings, random: Random, now_ms: int
    ) -> None:
        self.log = log
        self.node = node
        self.settings = settings
        self.role = Role.UNATTACHED
        self.fetching = Fetching(files, log, node.identity, settings.limits)
        self.leadership: Leadership | None = None
        self.changes: VoterChanges | None = None  # of voters, while it leads
        self.leader: Address | None = None
        """Where the leader is reached; None while nobody is known, and of who leads itself."""
        self._files = files
        self._random = random
        self._peers = Peers(node.bootstrap, settings.retry_backoff_ms)
        self._deadline_ms: float = 0.0
        self._election: Election | None = None
        self._lost_elections = 0
        self._candidates: list[VoterKey] = []  # who should stand first, after this leader
        self._ended: set[int] = set()  # who knows that this epoch is over
        self._update_ms = now_ms + 3 * settings.fetch_timeout_ms
        self._updated_epoch = 0  # whose leader knows where we are reached, where only settings name the voters
        self._has_voted = False  # in this life; who was taken out since does not come back by itself
        self.state = self._saved = read_quorum_state(files, log.directory) or QuorumState()
        self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        """What quorum-state and the log remember."""
        if self.log.last_epoch > self.state.leader_epoch:
            self.state = QuorumState(self.log.last_epoch)
        self._deadline_ms = now_ms + self._election_timeout_ms()
        leader_id = self.state.leader_id
        if leader_id == self.node.key.id:
            if self.votes and self.state.leader_epoch and not self.is_only_voter:
                self._move(Role.RESIGNED)
                self._candidates = self._other_voters()
            else:
                self.state = QuorumState(self.epoch, NOBODY, self.state.voted_id, self.state.voted_directory_id)
        elif leader_id != NOBODY and self._address_of(leader_id) is not None:
            self._follow(self.epoch, leader_id, self._address_of(leader_id), now_ms)

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def is_saved(self) -> bool:
        """Whether what was decided about elections is on the disk: nothing may be said before."""
        return self._saved == self.state

    @property
    def voters(self) -> VoterSet:
        record = self.fetching.voters.newest.record
        return self.node.voters if record is None else VoterSet(record.voters)

    @property
    def voter_history(self) -> VoterHistory:
        return self.fetching.voters

    @property
    def kraft_version(self) -> int:
        return self.fetching.voters.newest.kraft_version

    @property
    def votes(self) -> bool:
        """Whether this node is a voter now."""
        return bool(self.node.endpoints) and self.node.key in self.voters

    @property
    def is_only_voter(self) -> bool:
        return self.votes and len(self.voters) == 1

    @property
    def leads(self) -> bool:
        return self.role is Role.LEADER

    @property
    def is_established(self) -> bool:
        """Whether it leads, and knows what is committed."""
        return self.leadership is not None and self.leadership.is_established

    @property
    def leader_view(self) -> LeaderView:
        leader_id = self.state.leader_id
        address = self.node.endpoints[0][1] if self.leads and self.node.endpoints else self.leader
        if self.role is Role.RESIGNED or leader_id == NOBODY:
            return LeaderView(NOBODY, self.epoch)
        return LeaderView(leader_id, self.epoch, address)

    @property
    def leader_high_watermark(self) -> int | None:
        """What a leader has said is committed, this node or another one; None before the first has."""
        return self.fetching.leader_high_watermark if self.leadership is None else self.leadership.high_watermark

    def committed(self, offset: int) -> Iterator[MetadataBatch]:
        """The committed batches from an offset on."""
        yield from self.log.batches(offset, self.log.high_watermark)

    # --- the disk -----------------------------------------------------------------------------------------------------

    def saved(self, state: QuorumState) -> None:
        """quorum-state has this now."""
        self._saved = state

    def synced(self, now_ms: int) -> None:
        """More of the log is on the disk (its `flushed_offset`)."""
        self._advance(now_ms)

    # --- moving -------------------------------------------------------------------------------------------------------

    def _move(self, role: Role) -> None:
        assert role in MOVES[self.role], f"{self.role.name} does not become {role.name} in epoch {self.epoch}"
        self.role = role
        if role is not Role.LEADER:
            self.leadership = None
            if self.changes is not None:
                self.changes.end()
                self.changes = None
        if role not in (Role.PROSPECTIVE, Role.CANDIDATE):
            self._election = None

    def _unattach(self, epoch: int, now_ms: int) -> None:
        if epoch > self.epoch:
            self.state = QuorumState(epoch)
        else:
            self.state = QuorumState(epoch, NOBODY, self.state.voted_id, self.state.voted_directory_id)
        self.leader = None
        self.fetching.drop_snapshot()
        self._move(Role.UNATTACHED)
        self._deadline_ms = now_ms + self._election_timeout_ms()

    def _follow(self, epoch: int, leader_id: int, address: Address | None, now_ms: int) -> None:
        if epoch > self.epoch:
            self.state = QuorumState(epoch, leader_id)
        else:
            self.state = QuorumState(epoch, leader_id, self.state.voted_id, self.state.voted_directory_id)
        logger.info("node %d follows node %d in epoch %d of the metadata log", self.node.key.id, leader_id, epoch)
        self.leader = address
        self.fetching.drop_snapshot()
        self.fetching.has_fetched = False
        self._lost_elections = 0
        self._move(Role.FOLLOWER)
        self._deadline_ms = now_ms + self.settings.fetch_timeout_ms
        self._peers.stop_fetching(address)

    def _stand(self, role: Role, now_ms: int) -> None:
        """Ask for votes; first whether they would be given."""
        self._move(role)
        if role is Role.CANDIDATE:
            self.state = QuorumState(self.epoch + 1, NOBODY, *self.node.key)
            logger.info("node %d stands for election in epoch %d of the metadata log", self.node.key.id, self.epoch)
        self._election = Election(self.node.key, self.voters)
        self._deadline_ms = now_ms + self._election_timeout_ms()
        self._peers.stop_voting(self._voter_addresses())
        self._count_votes(now_ms)

    def _count_votes(self, now_ms: int) -> None:
        election = self._election
        if election is None:
            return
        if election.is_won:
            if self.role is Role.PROSPECTIVE:
                self._stand(Role.CANDIDATE, now_ms)
            else:
                self._lead(now_ms)
        elif election.is_lost and self.role is Role.PROSPECTIVE:
            self._return_to_leader(now_ms)
        elif election.is_lost:
            self._lost_elections += 1
            backoff_ms = BACKOFF_STEP_MS * self._random.randint(1, 2 ** min(self._lost_elections, 8))
            self._deadline_ms = now_ms + min(backoff_ms, self.settings.election_backoff_max_ms)

    def _return_to_leader(self, now_ms: int) -> None:
        """Nobody wants an election: the leader that is known may be well, and only we do not hear of it."""
        if self.state.leader_id not in (NOBODY, self.node.key.id):
            self._follow(self.epoch, self.state.leader_id, self.leader, now_ms)
        else:
            self._unattach(self.epoch, now_ms)

    def _lead(self, now_ms: int) -> None:
        me, voters = self.node.key, self.voters
        granted = self._election.granted if self._election is not None else {me.id}
        self._move(Role.LEADER)
        self.state = QuorumState(self.epoch, me.id, *me)
        self.leader = None
        self._lost_elections = 0
        self._deadline_ms = NEVER
        start = self.log.end_offset
        self.leadership = Leadership(me, start, now_ms)
        self.changes = VoterChanges(self)
        change = LeaderChangeMessage(
            leader_id=me.id,
            voters=[Voter(voter_id=voter.id) for voter in voters],
            granting_voters=[Voter(voter_id=voter_id) for voter_id in sorted(granted)],
        )
        self.append_controls([change, *self._first_controls()], now_ms)
        logger.info("node %d is elected leader in epoch %d of the metadata log", me.id, self.epoch)

    def _first_controls(self) -> list[ControlMessage]:
        """Who votes, where only a snapshot of nothing has said it, or we are reached elsewhere than the log says."""
        newest = self.fetching.voters.newest
        if not newest.kraft_version or newest.record is None:
            return []
        mine, known = self.node.as_voter(), self.voters.find(self.node.key.id)
        if self.log.end_offset == 0:
            return Voters(newest.kraft_version, self.voters.with_voter(mine)).controls()
        return [] if known == mine else [self.voters.with_voter(mine)]

    def resign(self, now_ms: int) -> None:
        """Lead no more: this node stops, or is no voter any more. Others are told, who is furthest stands first."""
        if self.leadership is None:
            return
        self._candidates = self.leadership.most_caught_up(self.voters)
        self._ended.clear()
        self._move(Role.RESIGNED)
        self._deadline_ms = now_ms + self._election_timeout_ms()
        logger.info("node %d resigned as leader of epoch %d of the metadata log", self.node.key.id, self.epoch)

    # --- time ---------------------------------------------------------------------------------------------------------

    @property
    def wake_ms(self) -> float:
        """When `tick` or `requests` have something to do, if nothing happens before; of the time after both."""
        times = self._peers.wake_times()
        if self.votes or self.role in (Role.FOLLOWER, Role.RESIGNED):
            times.append(self._deadline_ms)
        if self.leadership is not None:
            times.append(self.leadership.quorum_ends_ms(self.voters, self._check_quorum_ms))
            for voter in self._other_voters():
                address = self._address_of(voter.id)
                free_ms = None if address is None else self._peers.free_ms(address)
                if free_ms is not None:
                    times.append(max(free_ms, self.leadership.begin_quorum_epoch_ms(voter, self._begin_again_ms)))
        if self.changes is not None:
            times.append(self.changes.wake_ms)
        return min(times, default=NEVER)

    @property
    def _check_quorum_ms(self) -> float:
        return CHECK_QUORUM * self.settings.fetch_timeout_ms

    @property
    def _begin_again_ms(self) -> int:
        return self.settings.fetch_timeout_ms // 2

    def tick(self, now_ms: int) -> None:
        """What time does."""
        self._peers.tick(now_ms)
        self._has_voted = self._has_voted or self.votes
        match self.role:
            case Role.UNATTACHED if self.votes and (self.is_only_voter or now_ms >= self._deadline_ms):
                self._stand(Role.PROSPECTIVE, now_ms)
            case Role.FOLLOWER if now_ms >= self._deadline_ms:
                self._miss_leader(now_ms)
            case Role.PROSPECTIVE if now_ms >= self._deadline_ms:
                self._return_to_leader(now_ms)
            case Role.CANDIDATE if now_ms >= self._deadline_ms:
                self._stand(Role.PROSPECTIVE, now_ms)
            case Role.RESIGNED if now_ms >= self._deadline_ms:
                self._unattach(self.epoch + 1, now_ms)
            case Role.LEADER:
                self._check_quorum(now_ms)

    def _miss_leader(self, now_ms: int) -> None:
        if self.votes:
            logger.info("node %d has not heard of the leader of epoch %d for too long", self.node.key.id, self.epoch)
            self._stand(Role.PROSPECTIVE, now_ms)
        else:
            self.leader = None
            self.fetching.drop_snapshot()
            self._deadline_ms = now_ms + self.settings.fetch_timeout_ms

    def _check_quorum(self, now_ms: int) -> None:
        assert self.leadership is not None
        assert self.changes is not None
        self.leadership.forget_silent_observers(now_ms)
        self.changes.tick(now_ms)
        if now_ms >= self.leadership.quorum_ends_ms(self.voters, self._check_quorum_ms):
            logger.warning(
                "node %d resigns as leader of epoch %d: no majority of the voters has fetched for %d ms",
                self.node.key.id,
                self.epoch,
                self._check_quorum_ms,
            )
            self.resign(now_ms)

    def _election_timeout_ms(self) -> float:
        return self.settings.election_timeout_ms * self._random.uniform(1, 2)

    # --- whom to ask what ---------------------------------------------------------------------------------------------

    def requests(self, now_ms: int) -> list[Sent]:
        """What is to be sent now. Nothing while the disk does not know what was decided."""
        if not self.is_saved:
            return []
        sent = list(self._requests(now_ms))
        for each in sent:
            self._peers.send(each)
        return sent

    def _requests(self, now_ms: int) -> Iterator[Sent]:
        match self.role:
            case Role.UNATTACHED | Role.FOLLOWER:
                yield from self._fetch(now_ms)
            case Role.PROSPECTIVE | Role.CANDIDATE:
                yield from self._ask_for_votes(now_ms)
            case Role.RESIGNED:
                yield from self._end_quorum_epoch(now_ms)
            case Role.LEADER:
                yield from self._begin_quorum_epoch(now_ms)
                assert self.changes is not None
                yield from self.changes.requests(now_ms)

    def can_ask(self, address: Address, now_ms: int) -> bool:
        return self._peers.can_ask(address, now_ms)

    def _address_of(self, voter_id: int) -> Address | None:
        return self.voters.address(voter_id, self.node.listener)

    def _other_voters(self) -> list[VoterKey]:
        return [voter for voter in self.voters if voter.id != self.node.key.id]

    def _fetch(self, now_ms: int) -> Iterator[Sent]:
        """From the leader, or from anybody who may know it; not behind what is not synced."""
        if self.log.flushed_offset < self.log.end_offset or not self._peers.may_fetch(now_ms):
            return
        address = self.leader or self._peers.bootstrap(self._voter_addresses())
        if address is None or not self.can_ask(address, now_ms):
            return
        if self.role is Role.FOLLOWER and self.leader is not None and now_ms >= self._update_ms and self.node.endpoints:
            self._update_ms = now_ms + 3 * self.settings.fetch_timeout_ms
            if (request := self._about_this_voter()) is not None:
                yield Sent(address, self.epoch, request)
                return
        yield Sent(address, self.epoch, self.fetching.request(self.epoch))

    def _voter_addresses(self) -> list[Address]:
        addresses = [self._address_of(voter.id) for voter in self._other_voters()]
        return [address for address in addresses if address is not None]

    def _about_this_voter(self) -> Request | None:
        """What the leader should know of us: where we are reached now, or that we want to vote (auto-join)."""
        if not self.kraft_version:
            return self.node.update_request(self.epoch) if self.votes and self._updated_epoch != self.epoch else None
        me, known = self.node.key, self.voters.find(self.node.key.id)
        if known is not None and known.voter_directory_id == me.directory_id:
            return None if known == self.node.as_voter() else self.node.update_request(self.epoch)
        if not self.node.joins_by_itself:
            return None
        if known is not None:
            return self.node.remove_request(known)
        if self.node.voters_max and (self._has_voted or len(self.voters) >= self.node.voters_max):
            return None
        return self.node.add_request(self.settings.fetch_timeout_ms)

    def _ask_for_votes(self, now_ms: int) -> Iterator[Sent]:
        if self._election is None or self._election.is_lost:
            return
        for voter in self._election.unheard(self.node.key):
            address = self._address_of(voter.id)
            if address is None or not self.can_ask(address, now_ms):
                continue
            request = wire.vote_request(
                self.node.identity.cluster_id,
                epoch=self.epoch,
                candidate=self.node.key,
                voter=voter,
                last_epoch=self.log.last_epoch,
                end_offset=self.log.end_offset,
                is_pre_vote=self.role is Role.PROSPECTIVE,
            )
            yield Sent(address, self.epoch, request, voter)

    def _begin_quorum_epoch(self, now_ms: int) -> Iterator[Sent]:
        assert self.leadership is not None
        for voter in self._other_voters():
            address = self._address_of(voter.id)
            if address is None or not self.can_ask(address, now_ms):
                continue
            if now_ms >= self.leadership.begin_quorum_epoch_ms(voter, self._begin_again_ms):
                self.leadership.began_quorum_epoch(voter, now_ms)
                request = wire.begin_request(
                    self.node.identity.cluster_id,
                    epoch=self.epoch,
                    leader_id=self.node.key.id,
                    voter=voter,
                    endpoints=self.node.endpoints,
                )
                yield Sent(address, self.epoch, request, voter)

    def _end_quorum_epoch(self, now_ms: int) -> Iterator[Sent]:
        for voter in self._other_voters():
            address = self._address_of(voter.id)
            if voter.id in self._ended or address is None or not self.can_ask(address, now_ms):
                continue
            request = wire.end_request(
                self.node.identity.cluster_id,
                epoch=self.epoch,
                leader_id=self.node.key.id,
                candidates=self._candidates,
                endpoints=self.node.endpoints,
            )
            yield Sent(address, self.epoch, request, voter)

    # --- answers ------------------------------------------------------------------------------------------------------

    def unanswered(self, sent: Sent, now_ms: int, *, is_refused: bool = False) -> None:
        """The connection could not be made, or broke, or nothing came in time. `is_refused`: the machine says that
        nothing listens there."""
        if not self._peers.is_open(sent):
            return
        self._peers.pause(sent.address, now_ms)
        if self.changes is not None:
            self.changes.not_answered(sent.address)
        if is_refused and self.role is Role.FOLLOWER and sent.address == self.leader:
            self._leader_has_ended(now_ms)

    def _leader_has_ended(self, now_ms: int) -> None:
        """Nothing listens where the leader was: it is missed now, and not after `fetch_timeout_ms`. Once for each time
        that it was followed: where only the way to it is closed, the others refuse, and it is waited for as usual."""
        if not self.votes:
            self._miss_leader(now_ms)
        elif self.fetching.has_fetched:
            self.fetching.has_fetched = False  # it does not lead any more, so a pre-vote need not be refused
            self._deadline_ms = min(self._deadline_ms, now_ms + self._random.uniform(0, ENDED_BACKOFF_MS))

    def answered(self, sent: Sent, response: Response, now_ms: int) -> None:
        """Take an answer in. Raises what must stop the node; everything else is asked again."""
        if not self._peers.is_open(sent):
            return
        if response.error_code == INCONSISTENT_CLUSTER_ID and isinstance(response, fetch.FetchResponse):
            self._refuse_cluster(sent, now_ms)
        elif isinstance(response, fetch.FetchResponse):
            self._fetch_answered(sent, response, now_ms)
        elif isinstance(response, fetch_snapshot.FetchSnapshotResponse):
            self._snapshot_answered(sent, response, now_ms)
        elif isinstance(response, vote.VoteResponse):
            self._vote_answered(sent, response, now_ms)
        elif isinstance(response, BeginQuorumEpochResponse | EndQuorumEpochResponse):
            self._epoch_answered(sent, response, now_ms)
        elif isinstance(response, UpdateRaftVoterResponse):
            self._updated_epoch = self._updated_epoch if response.error_code else sent.epoch
        elif isinstance(response, ApiVersionsResponse) and self.changes is not None:
            self.changes.versions_answered(sent.address, response, now_ms)

    def _refuse_cluster(self, sent: Sent, now_ms: int) -> None:
        if not self.fetching.has_fetched:
            raise InconsistentClusterId(
                f"{sent.address} is a controller of another cluster than {self.node.identity.cluster_id}"
            )
        self._peers.pause(sent.address, now_ms)

    def _heard_of(self, leader_id: int, epoch: int, address: Address | None, now_ms: int) -> bool:
        """What somebody says about the leader; whether it is of our epoch, and not of an earlier or later."""
        known, me = self.epoch, self.node.key.id
        if epoch > known:
            if leader_id in (NOBODY, me):
                self._unattach(epoch, now_ms)
            else:
                self._follow(epoch, leader_id, address or self._address_of(leader_id), now_ms)
        elif epoch == known and leader_id not in (NOBODY, me) and self.role not in (Role.LEADER, Role.RESIGNED):
            is_news = self.state.leader_id == NOBODY or (
                self.role is Role.UNATTACHED and self.state.leader_id == leader_id
            )
            if self.role is not Role.FOLLOWER and is_news:
                self._follow(epoch, leader_id, address or self._address_of(leader_id), now_ms)
            elif leader_id == self.state.leader_id and address is not None:
                self.leader = address  # who stands for election knows it already, and misses it
        return epoch in (known, NOBODY)

    def _fetch_answered(self, sent: Sent, response: fetch.FetchResponse, now_ms: int) -> None:
        partition = response.responses[0].partitions[0] if response.responses else None
        if partition is None:
            self._peers.pause(sent.address, now_ms)
            return
        leader = partition.current_leader
        address = _address(response.node_endpoints, leader.leader_id)
        is_ours = self._heard_of(leader.leader_id, leader.leader_epoch, address, now_ms)
        if partition.error_code in NOT_THE_LEADER and leader.leader_id == NOBODY:
            self.leader = None
            self.fetching.drop_snapshot()
        if partition.error_code or not is_ours or self.role is not Role.FOLLOWER or sent.epoch != self.epoch:
            self._peers.pause(sent.address, now_ms)
            return
        self._deadline_ms = now_ms + self.settings.fetch_timeout_ms
        if not self.fetching.fetch_answered(partition, self.epoch, now_ms):
            self._peers.pause(sent.address, now_ms)

    def _snapshot_answered(self, sent: Sent, response: fetch_snapshot.FetchSnapshotResponse, now_ms: int) -> None:
        partition = response.topics[0].partitions[0] if response.topics else None
        if partition is None:
            self._peers.pause(sent.address, now_ms)
            return
        leader = partition.current_leader
        address = _address(response.node_endpoints, leader.leader_id)
        is_ours = self._heard_of(leader.leader_id, leader.leader_epoch, address, now_ms)
        if partition.error_code in SNAPSHOT_GONE:
            self.fetching.drop_snapshot()
        if partition.error_code or not is_ours or self.role is not Role.FOLLOWER or sent.epoch != self.epoch:
            self._peers.pause(sent.address, now_ms)
            return
        self._deadline_ms = now_ms + self.settings.fetch_timeout_ms
        if not self.fetching.snapshot_answered(partition, now_ms):
            self._peers.pause(sent.address, now_ms)

    def _vote_answered(self, sent: Sent, response: vote.VoteResponse, now_ms: int) -> None:
        partition = response.topics[0].partitions[0] if response.topics else None
        if response.error_code or partition is None or sent.voter is None:
            self._peers.pause(sent.address, now_ms)
            return
        address = _address(response.node_endpoints, partition.leader_id)
        is_ours = self._heard_of(partition.leader_id, partition.leader_epoch, address, now_ms)
        asked = wire.vote_partition(sent.request) if isinstance(sent.request, vote.VoteRequest) else None
        election = self._election
        if partition.error_code or not is_ours or election is None or asked is None or sent.epoch != self.epoch:
            self._peers.pause(sent.address, now_ms)
            return
        if asked.pre_vote is (self.role is Role.PROSPECTIVE) and sent.voter.id in self.voters.ids:
            (election.granted if partition.vote_granted else election.rejected).add(sent.voter.id)
            self._count_votes(now_ms)

    def _epoch_answered(
        self,
        sent: Sent,
        response: BeginQuorumEpochResponse | EndQuorumEpochResponse,
        now_ms: int,
    ) -> None:
        partition = response.topics[0].partitions[0] if response.topics else None
        if response.error_code or partition is None:
            self._peers.pause(sent.address, now_ms)
            return
        address = _address(response.node_endpoints, partition.leader_id)
        is_ours = self._heard_of(partition.leader_id, partition.leader_epoch, address, now_ms)
        if not partition.error_code and is_ours and sent.epoch == self.epoch and sent.voter is not None:
            self._ended.add(sent.voter.id)

    # --- what others ask ----------------------------------------------------------------------------------------------

    def check_cluster(self, cluster_id: str | None) -> None:
        """Who is of another cluster is refused. Who does not say is taken for one of ours, as in Kafka."""
        if cluster_id is not None and cluster_id != self.node.identity.cluster_id:
            raise InconsistentClusterId(f"this is a controller of cluster {self.node.identity.cluster_id}")

    def on_vote(self, request: vote.VoteRequest, now_ms: int) -> vote.VoteResponse:
        """A vote, or whether it would be given."""
        self.check_cluster(request.cluster_id)
        asked = wire.vote_partition(request)
        last_epoch, epoch = asked.last_offset_epoch, asked.replica_epoch
        if (
            min(asked.last_offset, last_epoch, epoch) < 0
            or epoch >= EPOCHS_LIMIT
            or (last_epoch > epoch if asked.pre_vote else last_epoch >= epoch)
        ):
            return wire.vote_response(self.said(InvalidRequest.code), is_granted=False)
        if epoch < self.epoch:
            return wire.vote_response(self.said(FencedLeaderEpoch.code), is_granted=False)
        if epoch > self.epoch:
            self._unattach(epoch, now_ms)
        if not self._is_me(request.voter_id, asked.voter_directory_id):
            return wire.vote_response(self.said(InvalidVoterKey.code), is_granted=False)
        candidate = VoterKey(asked.replica_id, asked.replica_directory_id)
        is_up_to_date = (last_epoch, asked.last_offset) >= (self.log.last_epoch, self.log.end_offset)
        is_granted = self._would_vote(candidate, is_pre_vote=asked.pre_vote, is_up_to_date=is_up_to_date)
        if is_granted and not asked.pre_vote and self.state.voted_id == NOBODY:
            self.state = QuorumState(self.epoch, self.state.leader_id, *candidate)
            self._deadline_ms = now_ms + self._election_timeout_ms()
        return wire.vote_response(self.said(wire.OK), is_granted=is_granted)

    def _would_vote(self, candidate: VoterKey, *, is_pre_vote: bool, is_up_to_date: bool) -> bool:
        match self.role:
            case Role.UNATTACHED | Role.PROSPECTIVE if not is_pre_vote:
                if self.state.voted_id != NOBODY:
                    directories = ZERO_UUID, candidate.directory_id  # with kraft.version 0 they are not remembered
                    return self.state.voted_id == candidate.id and self.state.voted_directory_id in directories
                return self.state.leader_id == NOBODY and is_up_to_date
            case Role.UNATTACHED | Role.PROSPECTIVE | Role.CANDIDATE | Role.RESIGNED:
                return is_pre_vote and is_up_to_date
            case Role.FOLLOWER:
                return is_pre_vote and is_up_to_date and not self.fetching.has_fetched
            case _:
                return False

    def _is_me(self, voter_id: int, directory_id: bytes) -> bool:
        """Whether a request means this node; an older one does not say whom it means."""
        me = self.node.key
        return voter_id == NOBODY or (voter_id == me.id and directory_id in (ZERO_UUID, me.directory_id))

    def said(self, error_code: int) -> EpochError:
        """An error code, with what is known here of the leader."""
        return EpochError(error_code, self.leader_view)

    def on_begin_quorum_epoch(self, request: BeginQuorumEpochRequest, now_ms: int) -> BeginQuorumEpochResponse:
        """A leader says that its epoch has begun."""
        self.check_cluster(request.cluster_id)
        asked = wire.begin_partition(request)
        epoch, leader_id = asked.leader_epoch, asked.leader_id
        if epoch < self.epoch:
            return wire.begin_response(self.said(FencedLeaderEpoch.code))
        if epoch >= EPOCHS_LIMIT:
            return wire.begin_response(self.said(InvalidRequest.code))
        if leader_id in (NOBODY, self.node.key.id) or (
            epoch == self.epoch and self.state.leader_id not in (NOBODY, leader_id)
        ):
            logger.error("node %d says that it leads epoch %d, whose leader is another node", leader_id, epoch)
            return wire.begin_response(self.said(InvalidRequest.code))
        endpoints = {each.name: Address(each.host, each.port) for each in request.leader_endpoints}
        address = endpoints.get(self.node.listener) or next(iter(endpoints.values()), None)
        if epoch > self.epoch or self.role is not Role.FOLLOWER:
            self._follow(epoch, leader_id, address or self._address_of(leader_id), now_ms)
        else:
            self.leader = address or self.leader or self._address_of(leader_id)
            self._deadline_ms = now_ms + self.settings.fetch_timeout_ms
        is_me = self._is_me(request.voter_id, asked.voter_directory_id)
        return wire.begin_response(self.said(wire.OK if is_me else InvalidVoterKey.code))

    def on_end_quorum_epoch(self, request: EndQuorumEpochRequest, now_ms: int) -> EndQuorumEpochResponse:
        """A leader resigns: who is named first stands at once, the others a while later."""
        self.check_cluster(request.cluster_id)
        asked = wire.end_partition(request)
        if asked.leader_epoch < self.epoch:
            return wire.end_response(self.said(FencedLeaderEpoch.code))
        if asked.leader_epoch >= EPOCHS_LIMIT:
            return wire.end_response(self.said(InvalidRequest.code))
        if asked.leader_epoch > self.epoch or (self.role is not Role.FOLLOWER and self.state.leader_id == NOBODY):
            self._heard_of(asked.leader_id, asked.leader_epoch, None, now_ms)
        if self.role is Role.FOLLOWER and self.state.leader_id == asked.leader_id:
            candidates = [
                VoterKey(each.candidate_id, each.candidate_directory_id) for each in asked.preferred_candidates
            ]
            self.fetching.has_fetched = False  # it does not lead any more, so a pre-vote need not be refused
            self._deadline_ms = now_ms + self._place_backoff_ms(
                candidates or [VoterKey(i) for i in asked.preferred_successors]
            )
        return wire.end_response(self.said(wire.OK))

    def _place_backoff_ms(self, candidates: Sequence[VoterKey]) -> float:
        place = next((at for at, key in enumerate(candidates) if key.id == self.node.key.id), len(candidates))
        if not place:
            return 0
        share: int = 2 ** max(0, len(candidates) - place)
        return self.settings.election_backoff_max_ms / share + self._random.uniform(0, BACKOFF_STEP_MS)

    # --- the log, for who follows -------------------------------------------------------------------------------------

    def on_fetch(self, request: fetch.FetchRequest, version: int, now_ms: int) -> tuple[fetch.FetchResponse, bool]:
        """What is in the log from an offset on; and whether it is worth waiting for more."""
        self.check_cluster(request.cluster_id)
        return answer_fetch(self, request, version, now_ms)

    def on_fetch_snapshot(
        self, request: fetch_snapshot.FetchSnapshotRequest, now_ms: int
    ) -> fetch_snapshot.FetchSnapshotResponse:
        """A piece of a snapshot."""
        self.check_cluster(request.cluster_id)
        return answer_fetch_snapshot(self, self._files, request, self.settings.limits.snapshot_max_bytes, now_ms)

    def fetched(self, replica: VoterKey, offset: int, now_ms: int) -> None:
        """A replica has everything before an offset."""
        assert self.leadership is not None, "it leads"
        self.leadership.fetched(replica, self.voters, offset, self.log.end_offset, now_ms)
        self._advance(now_ms)

    # --- leading ------------------------------------------------------------------------------------------------------

    def append(self, batches: Sequence[Sequence[bytes]], now_ms: int) -> int:
        """Records that the controller has decided, a batch for each sequence; where the log ends then. They are
        committed when the high watermark has passed that."""
        if not self.leads:
            raise NotController(f"node {self.node.key.id} does not lead the metadata log")
        for values in batches:
            offset = self.log.end_offset
            batch = data_batch(values, base_offset=offset, epoch=self.epoch, timestamp_ms=now_ms)
            self.log.append(batch, epoch=self.epoch, now_ms=now_ms)
        return self.log.end_offset

    def append_controls(self, controls: Sequence[ControlMessage], now_ms: int) -> int:
        offset = self.log.end_offset
        batch = control_batch(controls, base_offset=offset, epoch=self.epoch, timestamp_ms=now_ms)
        self.log.append(batch, epoch=self.epoch, now_ms=now_ms)
        self.fetching.appended(offset)
        if self.leadership is not None:
            self.leadership.voters_are(self.voters)
        return self.log.end_offset

    def _advance(self, now_ms: int) -> None:
        """The high watermark, after somebody got further."""
        leadership = self.leadership
        if leadership is None or not leadership.advance(self.voters, self.log.flushed_offset):
            return
        assert leadership.high_watermark is not None, "it has just moved"
        self.log.update_high_watermark(leadership.high_watermark)
        if self.changes is not None:
            self.changes.committed(leadership.high_watermark)
        if leadership.high_watermark >= self.fetching.voters.newest_offset and not self.votes:
            self.resign(now_ms)  # it was taken out of the voters, and that is committed


class HasAddress(Protocol):
    """An endpoint in an answer."""

    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def _address(endpoints: Sequence[HasAddress], leader_id: int) -> Address | None:
    found = next((each for each in endpoints if each.node_id == leader_id), None)
    return None if found is None else Address(found.host, found.port)
