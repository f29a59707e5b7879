"""A KafkaCluster whose truth is in a real ZooKeeper: one of its brokers is the controller and gives orders.

    with ZooKeeperCluster(chroot) as cluster:             # "127.0.0.1:2181/a-path": the fixture `chroot` makes one up
        cluster.crash(1, session_stays=True)              # ZooKeeper does not notice
        cluster.end_session(1)                            # now it does
        cluster.cut_off(2); cluster.reconnect(2)          # it lives, and ZooKeeper cannot be reached

Every broker reaches ZooKeeper by a proxy of its own. A session outlives its broker when the proxy is cut before the
broker closes it; it is ended by a client of ZooKeeper that says good-bye in its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.cuttable import Cuttable

from ottla.broker.server import Server
from ottla.broker.settings import BrokerSettings
from ottla.broker.world import World
from ottla.clock import SystemClock
from ottla.net.transport import TcpTransport
from ottla.testing import KafkaCluster
from ottla.testing.broker import TEST_SETTINGS
from ottla.testing.cluster import QUICK, Place, copied

SESSION_MS = 10_000
"""Longer than any story needs to end a session by hand."""
WORKERS = 2
"""Who waits for ZooKeeper: the loop is that of all brokers."""


class ZooKeeperCluster(KafkaCluster):
    """See the module."""

    def __init__(
        self,
        chroot: str,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        directory: Path | str | None = None,
        racks: Sequence[str] = (),
    ) -> None:
        super().__init__(0, controllers=0, directory=directory)
        self._address, _, self._path = chroot.partition("/")
        port = int(self._address.rpartition(":")[2])
        self._proxies = {number: Cuttable(port) for number in range(brokers)}
        self._kept_sessions: dict[int, Any] = {}
        """Of brokers that crashed: id and password."""
        quick = {**QUICK, "zookeeper.session.timeout.ms": SESSION_MS}
        common = {**TEST_SETTINGS, **quick, **copied(min(brokers, 3)), **(settings or {})}
        racks_of = {number: {"broker.rack": rack} for number, rack in enumerate(racks)}
        self._places = {
            number: self._place(f"broker-{number}", {**common, **racks_of.get(number, {}), "broker.id": number})
            for number in range(brokers)
        }

    def start(self) -> ZooKeeperCluster:
        for proxy in self._proxies.values():
            proxy.__enter__()
        super().start()
        return self

    def stop(self) -> None:
        super().stop()
        for proxy in self._proxies.values():
            proxy.__exit__(None, None, None)

    def controller(self) -> int:
        """The broker that gives orders; -1 while nobody does."""

        def find() -> int:
            members = [(number, self.server(number).broker.member) for number in self.running]
            return next((number for number, member in members if member is not None and member.role.is_active), -1)

        return self.call(find)

    def connect(self, broker_id: int) -> str:
        """The zookeeper.connect of a broker."""
        return f"127.0.0.1:{self._proxies[broker_id].port}/{self._path}"

    # --- coming and going ---

    def cut_off(self, broker_id: int) -> None:
        """ZooKeeper is out of a broker's reach; its session goes on for a while."""
        self._proxies[broker_id].cut()

    def reconnect(self, broker_id: int) -> None:
        self._proxies[broker_id].heal()

    def crash(self, broker_id: int, *, machine: bool = False, session_stays: bool = False) -> None:
        if session_stays:
            self._kept_sessions[broker_id] = self._session_of(broker_id)
            self.cut_off(broker_id)
        super().crash(broker_id, machine=machine, session_stays=session_stays)
        if session_stays:
            self.reconnect(broker_id)

    def _session_of(self, broker_id: int) -> Any:
        link: Any = self.server(broker_id).broker.link
        return link._store._session._client.client_id

    def end_session(self, broker_id: int) -> None:
        from kazoo.client import KazooClient

        if (kept := self._kept_sessions.pop(broker_id, None)) is not None:
            twin = KazooClient(self._address, client_id=kept)
            twin.start()
            twin.stop()
            twin.close()

    async def _start(self, broker_id: int) -> None:
        place = self._places[broker_id]
        settings = BrokerSettings({**place.settings, "zookeeper.connect": self.connect(broker_id)})
        server = Server(settings, self._world(place))
        place.took(server, await server.start())

    def _world(self, place: Place) -> World:
        boot_id = f"boot {place.boots}"
        return World(place.files, TcpTransport(), SystemClock(), self._random, workers=WORKERS, boot_id=boot_id)
