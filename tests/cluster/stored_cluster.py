"""A KafkaCluster whose brokers have a store in the place of ZooKeeper: one of them is the controller and gives orders.

What is only there for clusters in ZooKeeper (orders, sessions, a first view before clients are answered) is tried with
it; what users see is tried on the quorum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ottla.broker.security.first_users import FirstUser
from ottla.broker.server import Server
from ottla.broker.settings import BrokerSettings
from ottla.cluster.features import first_features
from ottla.cluster.store.shared_memory import MemoryMember, SharedMemory
from ottla.testing import KafkaCluster
from ottla.testing.broker import TEST_SETTINGS
from ottla.testing.cluster import QUICK, copied


class StoredCluster(KafkaCluster):
    """See the module."""

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        directory: Path | str | None = None,
        racks: Sequence[str] = (),
        seed: int | None = None,
        users: Sequence[FirstUser] = (),
    ) -> None:
        super().__init__(0, {}, controllers=0, directory=directory, seed=seed, users=users)
        self.shared = SharedMemory(self.cluster_id, first_features())
        self._members: dict[int, MemoryMember] = {}
        common = {**TEST_SETTINGS, **QUICK, **copied(min(brokers, 3)), **(settings or {})}
        rack_of = {number: {"broker.rack": rack} for number, rack in enumerate(racks)}
        self._places = {
            number: self._place(f"broker-{number}", {**common, **rack_of.get(number, {}), "broker.id": number})
            for number in range(brokers)
        }

    def controller(self) -> int:
        """The broker that gives orders; -1 while nobody does."""

        def find() -> int:
            members = [(each, self.server(each).broker.member) for each in self.running]
            return next((each for each, member in members if member is not None and member.role.is_active), -1)

        return self.call(find)

    def crash(self, broker_id: int, *, machine: bool = False, session_stays: bool = False) -> None:
        self._members[broker_id].outlives_close = session_stays
        super().crash(broker_id, machine=machine, session_stays=session_stays)

    def end_session(self, broker_id: int) -> None:
        for member in self.call(lambda: [each for each in self.shared.members if each.outlives_close]):
            self.call(partial(self.shared.end_outlived, member, broker_id))

    async def _crash(self, broker_id: int, server: Server) -> None:
        member = self._members[broker_id]
        if not member.outlives_close:
            self.shared.end_session(member, is_notified=False)
        await server.crash()

    async def _start(self, broker_id: int) -> None:
        place = self._places[broker_id]
        member = self._members[broker_id] = self.shared.join()
        server = Server(BrokerSettings(place.settings), self._world(place), shared_store=member)
        place.took(server, await server.start())
