"""One schedule of a quorum: a seed decides how many nodes there are, what is appended, and what goes wrong.

    print(play(seed=7).counts)

For a while everything happens: power cuts, stops, pauses, lost disks, nodes and directions of the network that are cut
off, slow disks, answers that are lost, leaders that resign, snapshots, voters that are added and removed, and, where
settings name the voters, the upgrade after which the log does. Then all is healed, and within HEALED_MS there must be
one leader whom all follow, with everything that was ever promised.

A lost disk is one voter less for good: a schedule never takes so many that what was committed could be gone, and never
one while settings name the voters, whose directories nobody knows then.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

from ottla.cluster.raft.format import write_first_voters
from ottla.cluster.raft.node import RaftSettings, Response, Sent
from ottla.cluster.raft.snapshots import Voters
from ottla.cluster.raft.voters import VoterSet, voters_by_settings
from ottla.errors import InvalidUpdateVersion, OttlaError
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.metadata_log import encode_record
from ottla.protocol.metadata_log.control import VotersRecord
from ottla.protocol.metadata_log.settings import ConfigRecord
from ottla.simulation.quorum.invariants import Invariants, Violated
from ottla.simulation.quorum.node import CLUSTER, DATA, LISTENER, Node, address_of
from ottla.values import Address

TROUBLE_MS: Final = 15_000
HEALED_MS: Final = 20_000
QUIET_MS: Final = 5_000
"""Before the end nothing is appended any more."""
ANSWER_MS: Final = 2_000
LATENCY_MS: Final = (0.2, 5.0)
EVENTS_LIMIT: Final = 200_000


class Schedule:
    """See above."""

    def __init__(self, seed: int, *, trouble_ms: int = TROUBLE_MS) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.invariants = Invariants()
        self.counts: Counter[str] = Counter()
        self._now = 0.0
        self._trouble_ms = trouble_ms
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._cut: set[tuple[int, int]] = set()  # from whom to whom nothing arrives
        self._loss = self.random.choice((0.0, 0.0, 0.02, 0.1))
        self._value = 0
        self.begins_dynamic = self.random.random() < 0.75
        voters = self.random.randint(1, 5)
        self._make_nodes(voters, self.random.randint(0, 2), self.random.randint(0, 2))

    def _make_nodes(self, voters: int, observers: int, spares: int) -> None:
        """`spares` are controllers that do not vote yet."""
        static = VoterSet()
        if not self.begins_dynamic:
            static = voters_by_settings([(number, address_of(number)) for number in range(1, voters + 1)], LISTENER)
        self.nodes = {
            number: Node(
                number,
                self.random,
                can_vote=number <= voters + spares,
                now_ms=lambda: int(self._now),
                later=self._later,
                send=self._send,
                checked=self.invariants.check,
                settings=RaftSettings(),
                static=static,
            )
            for number in range(1, voters + spares + observers + 1)
        }
        if self.begins_dynamic:
            first = Voters(1, VotersRecord(voters=[self.nodes[number].as_voter() for number in range(1, voters + 1)]))
            for number in range(1, voters + 1):
                write_first_voters(self.nodes[number].files, DATA, first, lambda: 0)

    # --- time and network ---------------------------------------------------------------------------------------------

    def _later(self, delay_ms: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + delay_ms, next(self._numbers), call))

    def _send(self, sender: Node, sent: Sent) -> None:
        target = self._node_at(sent.address)
        life = sender.life
        is_answered = False

        def back(response: Response | None, *, is_refused: bool = False) -> None:
            nonlocal is_answered
            if is_answered or sender.life != life or not sender.is_running:
                return
            is_answered = True
            if target is not None:
                target.asking.pop(broken, None)
            sender.answered(sent, response, is_refused=is_refused)

        def broken() -> None:
            self._later(self.random.uniform(*LATENCY_MS), lambda: back(None))

        self._later(ANSWER_MS, lambda: back(None))
        if target is not None and self._is_lost(sender, target):
            return
        if target is None or not target.is_running:
            if target is None or target.has_power:
                self._later(self.random.uniform(*LATENCY_MS), lambda: back(None, is_refused=True))
            return
        target.asking[broken] = None

        def reply(response: Response | None) -> None:
            if not self._is_lost(target, sender):
                self._later(self.random.uniform(*LATENCY_MS), lambda: back(response))

        def arrive() -> None:
            if target.is_running:
                target.ask(sent, reply)

        self._later(self.random.uniform(*LATENCY_MS), arrive)

    def _node_at(self, address: Address) -> Node | None:
        return next((node for node in self.nodes.values() if address_of(node.id) == address), None)

    def _is_lost(self, sender: Node, target: Node) -> bool:
        return (sender.id, target.id) in self._cut or self.random.random() < self._loss

    # --- playing ------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        for node in self.nodes.values():
            node.start()
        self._append_on()
        self._trouble()
        self._run_until(self._trouble_ms)
        self._heal()
        self._run_until(self._trouble_ms + HEALED_MS)
        self.invariants.check_end(list(self.nodes.values()))
        self.counts["leader changes"] = self.invariants.leader_changes

    def _run_until(self, end_ms: float) -> None:
        for _ in range(EVENTS_LIMIT):
            if not self._events or self._events[0][0] > end_ms:
                self._now = end_ms
                return
            self._now, _, call = heapq.heappop(self._events)
            call()
        raise Violated(f"{EVENTS_LIMIT} events until {self._now:.0f} ms: {[node.story() for node in self.running]}")

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_running]

    @property
    def is_dynamic(self) -> bool:
        """Whether every log tells who votes."""
        return all(node.is_running and node.raft.kraft_version for node in self.nodes.values())

    @property
    def leaders(self) -> list[Node]:
        return [node for node in self.running if node.raft.leads]

    def _append_on(self) -> None:
        if self._now > self._trouble_ms + HEALED_MS - QUIET_MS:
            return
        for leader in self.leaders:
            if leader.raft.is_established and leader.paused_until_ms <= self._now:
                self._append(leader)
        self._later(self.random.expovariate(1 / 200), self._append_on)

    def _append(self, leader: Node) -> None:
        self._value += 1
        record = ConfigRecord(resource_type=4, resource_name="", name="x", value=str(self._value))
        values = [encode_record(record, 0)] * self.random.randint(1, 3)
        end = leader.raft.append([values] * self.random.randint(1, 2), int(self._now))
        self.counts["batches"] += 1
        raft, epoch = leader.raft, leader.raft.epoch

        def is_committed_yet() -> None:
            if leader.is_running and leader.raft is raft and raft.leads and raft.epoch == epoch:
                leadership = raft.leadership
                if leadership is not None and (leadership.high_watermark or 0) >= end:
                    self.invariants.promised(end)
                else:
                    self._later(50, is_committed_yet)

        leader.step()
        self._later(20, is_committed_yet)

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        if self._now >= self._trouble_ms:
            return
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._power_cut, 4),
            (self._stop, 2),
            (self._pause, 3),
            (self._cut_node, 3),
            (self._cut_one_way, 3),
            (self._mend_network, 4),
            (self._slow_disk, 2),
            (self._resign, 2),
            (self._snapshot, 5),
            (self._lose_disk, 1),
            (self._remove_voter, 2),
        ]
        if not self.begins_dynamic:
            kinds.append((self._upgrade, 6))
        kind = self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        kind()
        self.counts[kind.__name__.strip("_").replace("_", " ")] += 1
        self._later(self.random.expovariate(1 / 1_000), self._trouble)

    def _any(self) -> Node | None:
        running = self.running
        if self.leaders and self.random.random() < 0.4:
            return self.random.choice(self.leaders)
        return self.random.choice(running) if running else None

    def _power_cut(self) -> None:
        self._take_down(power_cut=True)

    def _stop(self) -> None:
        self._take_down(power_cut=False)

    def _take_down(self, *, power_cut: bool) -> None:
        node = self._any()
        if node is not None:
            node.stop(power_cut=power_cut)
            self._later(self.random.expovariate(1 / 2_000), lambda: self._start(node))

    def _start(self, node: Node) -> None:
        if not node.is_running:
            node.start()

    def _pause(self) -> None:
        node = self._any()
        if node is not None:
            node.paused_until_ms = int(self._now + self.random.expovariate(1 / 3_000))

    def _cut_node(self) -> None:
        node = self._any()
        if node is not None:
            others = [other for other in self.nodes if other != node.id]
            self._cut |= {(node.id, other) for other in others} | {(other, node.id) for other in others}

    def _cut_one_way(self) -> None:
        numbers = list(self.nodes)
        self._cut.add((self.random.choice(numbers), self.random.choice(numbers)))

    def _mend_network(self) -> None:
        self._cut.clear()

    def _slow_disk(self) -> None:
        node = self._any()
        if node is not None:
            node.sync_ms = self.random.choice((1.0, 20.0, 500.0))

    def _resign(self) -> None:
        for leader in self.leaders:
            leader.raft.resign(int(self._now))
            leader.step()

    def _snapshot(self) -> None:
        node = self._any()
        if node is not None:
            node.make_snapshot()

    def _lose_disk(self) -> None:
        """Only while a majority of the others has everything: then one may be lost at any time."""
        node = self._any()
        if node is None or not self.is_dynamic or not self._can_lose(node):
            return
        node.stop(power_cut=True)
        node.lose_disk()
        self._later(self.random.expovariate(1 / 2_000), lambda: self._start(node))

    def _can_lose(self, node: Node) -> bool:
        """Whether all voters that anybody knows of, but this one, have everything that is committed: so nothing is
        lost with it, whoever leads next."""
        views = {tuple(other.raft.voters) for other in self.running}
        if len(self.running) < len(self.nodes) or len(views) != 1:
            return False  # a change of voters is on its way, and one less could be one too many
        voters = set(views.pop())
        if node.key not in voters:
            return True
        holders = [other for other in self.running if other.key in voters and other is not node]
        end = self.invariants.committed_end
        has_all = all(other.raft.log.flushed_offset >= end for other in holders)
        return len(voters) >= 3 and len(holders) == len(voters) - 1 and has_all

    def _remove_voter(self) -> None:
        for leader in self.leaders:
            voters = list(leader.raft.voters)
            lost = [voter for voter in voters if voter != self.nodes[voter.id].key]
            if len(voters) > 2 and leader.raft.changes is not None:
                gone = self.random.choice(lost or voters)  # with a disk lost, one voter less could be one too many
                request = RemoveRaftVoterRequest(
                    cluster_id=CLUSTER, voter_id=gone.id, voter_directory_id=gone.directory_id
                )
                leader.raft.changes.remove(request, int(self._now))
                leader.step()

    def _upgrade(self) -> None:
        for leader in self.leaders:
            if leader.raft.is_established and leader.raft.changes is not None and not leader.raft.kraft_version:
                try:
                    leader.raft.changes.upgrade(1, int(self._now))
                except InvalidUpdateVersion:
                    self.counts["upgrades refused"] += 1  # not all of the voters have told what they know
                else:
                    self.counts["upgrades"] += 1
                    leader.step()

    def _heal(self) -> None:
        self._cut.clear()
        self._loss = 0.0
        for node in self.nodes.values():
            node.sync_ms = 1.0
            node.paused_until_ms = 0
            self._start(node)


def play(seed: int, *, trouble_ms: int = TROUBLE_MS) -> Schedule:
    """Play one schedule; Violated says what was wrong."""
    schedule = Schedule(seed, trouble_ms=trouble_ms)
    try:
        schedule.play()
    except (Violated, OttlaError, AssertionError) as problem:
        problem.add_note(f"seed {seed}")
        raise
    return schedule


class Outcome(NamedTuple):
    """Of one schedule; `problem` is empty where no promise was broken."""

    seed: int
    problem: str
    counts: Counter[str]


def outcome_of(seed: int) -> Outcome:
    """Play one; whatever goes wrong is its outcome."""
    logging.disable(logging.CRITICAL)
    try:
        return Outcome(seed, "", play(seed).counts)
    except Exception as problem:
        return Outcome(seed, f"{type(problem).__name__}: {problem}", Counter())
