"""ZooKeeper as a service of the simulation: sessions that end by themselves, calls and watches that take time.

It stands at the interface of a shared store (cluster/store/interface.py): the truth is `SharedMemory`, which is also
the specification of the store on ZooKeeper. The wire and the znodes of ZooKeeper are not simulated.

1. Every call of a broker is work of a thread (`blocks`), and fails with NoSession while the broker cannot reach the
   ensemble, or has lost its session.
2. A session ends `session_timeout_ms` after the ensemble last heard of its broker: one that is killed, paused or cut
   off. Its registration is gone then, and the others are told; the broker itself hears of it when it can be reached.
3. `expire` ends a session while its broker lives and is connected; with `after_commit` it ends with the next commit of
   the broker, which is made, and whose answer is lost.
4. Events reach a broker after the network's delay, in its own process, and wait for as long as it is cut off.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Final

from ottla.cluster.changes import Change
from ottla.cluster.store.events import Controller
from ottla.cluster.store.interface import NoSession
from ottla.cluster.store.shared_memory import MemoryMember, SharedMemory
from ottla.cluster.store.truth import Seat
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.process import Life, Process

HOST: Final = "10.0.9.1"
BEAT_S: Final = 0.5


class Ensemble(SharedMemory):
    """See the module."""

    def __init__(self, network: SimulatedNetwork, cluster_id: str, first: tuple[object, ...] = ()) -> None:
        super().__init__(cluster_id, first)  # type: ignore[arg-type]
        self.network = network
        self.loop = network.loop
        self._watched: list[SimulatedMember] = []
        self._is_beating = False

    def connect(self, process: Process, host: str) -> SimulatedMember:
        """A new session, of the broker that is this process."""
        member = SimulatedMember(self, process, host)
        self.members.append(member)
        self.seats.append(member)
        self._watched.append(member)
        if not self._is_beating:
            self._is_beating = True
            self._beat()
        return member

    def _beat(self) -> None:
        now_s = self.loop.time()
        for member in list(self._watched):
            if member.is_reachable:
                self._hear(member, now_s)
            elif now_s - member.heard_s > self.session_timeout_ms / 1000:
                self._give_up(member)
        self.loop.call_later(BEAT_S, self._beat, context=self.loop.outside.context.copy())

    def expire(self, process: Process, *, after_commit: bool = False) -> None:
        """End the session of this broker; it gets another one with its next heartbeat."""
        for member in [each for each in self._watched if each.process is process and each.has_session]:
            if after_commit:
                member.loses_next_answer = True
            else:
                self.end_session(member, is_notified=False)

    def commit(self, changes: Sequence[Change], elected: Controller | None, by: Seat) -> None:
        super().commit(changes, elected, by)
        if isinstance(by, SimulatedMember) and by.loses_next_answer:
            by.loses_next_answer = False
            self.end_session(by, is_notified=False)
            raise NoSession("the answer was lost, and then the session")

    def _hear(self, member: SimulatedMember, now_s: float) -> None:
        member.heard_s = now_s
        if not member.has_session and member.is_open:
            member.session_ended()
            self.begin_session(member)
        member.deliver()

    def _give_up(self, member: SimulatedMember) -> None:
        if member.has_session:
            self.end_session(member, is_notified=False)
        if member.process.is_dead or not member.is_open:
            self._watched.remove(member)
            if member in self.members:
                self.forget(member)


class SimulatedMember(MemoryMember):
    """One broker's store."""

    blocks = True

    def __init__(self, ensemble: Ensemble, process: Process, host: str) -> None:
        super().__init__(ensemble)
        self._service = ensemble
        self.process = process
        self.host = host
        self.heard_s = ensemble.loop.time()
        self._owner_wake: Callable[[], None] | None = None
        self._context: contextvars.Context = process.context
        self._is_waking = False
        self._is_owed = False
        self.loses_next_answer = False

    @property
    def is_open(self) -> bool:
        return not self._closed

    @property
    def is_reachable(self) -> bool:
        network = self._service.network
        is_cut_off = network.is_blocked(self.host, HOST) or network.is_blocked(HOST, self.host)
        return self.process.life is Life.RUNNING and not is_cut_off and not self._closed

    def wake_with(self, wake: Callable[[], None]) -> None:
        self._owner_wake = wake
        super().wake_with(self._owe)

    def _owe(self) -> None:
        """The broker must be told: also when what it does meanwhile takes the events out of the queue."""
        self._is_owed = True
        self.deliver()

    def deliver(self) -> None:
        """Tell the broker, after a while and in its own process, that events wait."""
        if self._owner_wake is None or self._is_waking or not self._is_owed or not self.is_reachable:
            return
        self._is_waking = True
        network = self._service.network
        delay_s = network.passage_s(HOST, self.host, 0)
        network.loop.call_later(delay_s, self._wake_owner, context=self._context.copy())

    def _wake_owner(self) -> None:
        self._is_waking = self._is_owed = False
        if self._owner_wake is not None and not self._closed:
            self._owner_wake()

    def _refuse_without_session(self) -> None:
        super()._refuse_without_session()
        if not self.is_reachable:
            raise NoSession(f"the ensemble cannot be reached from {self.host}")
