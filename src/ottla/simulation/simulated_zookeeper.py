"""ZooKeeper as a service of the simulation: sessions that end by themselves, calls and watches that take time.

It is the model of ZooKeeper (zookeeper_model.py) behind the simulated network:

1. Every call of a broker fails with NoSession while the broker cannot reach ZooKeeper, or has lost its session.
2. A session ends `session_timeout_ms` after ZooKeeper last heard of its broker: one that is killed, paused or cut off.
   Its registration is gone then, and the others are told; the broker itself hears of it when it can be reached.
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
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.process import Life, Process
from ottla.simulation.zookeeper_model import ZooKeeperModel
from ottla.simulation.zookeeper_model_store import ModelStore

HOST: Final = "10.0.9.1"
BEAT_S: Final = 0.5


class SimulatedZooKeeper(ZooKeeperModel):
    """See the module."""

    def __init__(self, network: SimulatedNetwork, cluster_id: str, first: Sequence[Change] = ()) -> None:
        super().__init__(cluster_id, first)
        self.network = network
        self.loop = network.loop
        self._watched: list[SimulatedStore] = []
        self._is_beating = False

    def connect(self, process: Process, host: str) -> SimulatedStore:
        """A new session, of the broker that is this process."""
        store = SimulatedStore(self, process, host)
        self.stores.append(store)
        self._watched.append(store)
        if not self._is_beating:
            self._is_beating = True
            self._beat()
        return store

    def _beat(self) -> None:
        now_s = self.loop.time()
        for store in list(self._watched):
            if store.is_reachable:
                self._hear(store, now_s)
            elif now_s - store.heard_s > self.session_timeout_ms / 1000:
                self._give_up(store)
        self.loop.call_later(BEAT_S, self._beat, context=self.loop.outside.context.copy())

    def expire(self, process: Process, *, after_commit: bool = False) -> None:
        """End the session of this broker; it gets another one with its next heartbeat."""
        for store in [store for store in self._watched if store.process is process and store.has_session]:
            if after_commit:
                store.loses_next_answer = True
            else:
                self.end_session(store, is_notified=False)

    def commit(self, changes: Sequence[Change], elected: Controller | None, by: ModelStore) -> None:
        super().commit(changes, elected, by)
        if isinstance(by, SimulatedStore) and by.loses_next_answer:
            by.loses_next_answer = False
            self.end_session(by, is_notified=False)
            raise NoSession("the answer was lost, and then the session")

    def _hear(self, store: SimulatedStore, now_s: float) -> None:
        store.heard_s = now_s
        if not store.has_session and store.is_open:
            store.session_ended()
            self.begin_session(store)
        store.deliver()

    def _give_up(self, store: SimulatedStore) -> None:
        if store.has_session:
            self.end_session(store, is_notified=False)
        if store.process.is_dead or not store.is_open:
            self._watched.remove(store)
            if store in self.stores:
                self.stores.remove(store)


class SimulatedStore(ModelStore):
    """One broker's store."""

    def __init__(self, zookeeper: SimulatedZooKeeper, process: Process, host: str) -> None:
        super().__init__(zookeeper)
        self._network = zookeeper.network
        self.process = process
        self.host = host
        self.heard_s = zookeeper.loop.time()
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
        is_cut_off = self._network.is_blocked(self.host, HOST) or self._network.is_blocked(HOST, self.host)
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
        delay_s = self._network.passage_s(HOST, self.host, 0)
        self._network.loop.call_later(delay_s, self._wake_owner, context=self._context.copy())

    def _wake_owner(self) -> None:
        self._is_waking = self._is_owed = False
        if self._owner_wake is not None and not self._closed:
            self._owner_wake()

    def _refuse_without_session(self) -> None:
        super()._refuse_without_session()
        if not self.is_reachable:
            raise NoSession(f"ZooKeeper cannot be reached from {self.host}")
