"""Registration, election and fencing of one member, as Kafka does them.

1. A broker is registered by a node that lives as long as its session; the transaction that made the node (czxid) is
   the epoch of the broker.
2. Who stands for election makes /controller and counts /controller_epoch up, in one transaction that only succeeds
   when both are as they were read. An answer that was lost is no lost election: the node says whose it is.
3. The version that /controller_epoch got by that transaction is what every later write of the controller checks.
4. Forgetting the office (`dismiss`) needs no ensemble: a session that ended has taken it away already.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.clock import Clock
from ottla.cluster.model import Broker
from ottla.cluster.store.events import Controller
from ottla.cluster.store.interface import BrokerIdTaken, ControllerMoved, NoSession
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.reading import brokers_in
from ottla.cluster.store.zookeeper.session import Refused, Session
from ottla.cluster.store.zookeeper.writes import Check, Create, Delete, Ensure, SetData
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple

_ATTEMPTS: Final = 10
"""Others come and go between our questions; ten times in a row they do not."""

log = logging.getLogger(__name__)


class Elected(NamedTuple):
    """An election that was won, and the version of /controller_epoch that goes with it."""

    controller: Controller
    version: int


class Office:
    """See above; every method but `dismiss` and `check` waits for ZooKeeper."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self.elected: Elected | None = None

    # --- registration ---

    def register(self, broker: Broker) -> Broker:
        path, data = paths.broker(broker.id), znodes.broker_json(broker, timestamp_ms=self._clock.now_ms())
        for _ in range(_ATTEMPTS):
            try:
                self._session.make([Create(path, ephemeral=True), SetData(path, data, 0)])
            except Refused:
                if not self._write_again(path, data):
                    continue
            if (node := self._session.get(path)) is not None:
                return replace(broker, epoch=node.czxid)
        raise NoSession(f"the registration of broker {broker.id} does not stay in ZooKeeper")

    def _write_again(self, path: str, data: bytes) -> bool:
        """The node was there already: it may be ours, from a call whose answer was lost."""
        node = self._session.get(path)
        if node is None:
            return False
        if node.owner != self._session.id:
            raise BrokerIdTaken(f"{path} belongs to session 0x{node.owner:x}, and ours is 0x{self._session.id:x}")
        self._session.make([SetData(path, data)])
        return True

    def holder_of(self, broker_id: int) -> str | None:
        """Which session the broker's node belongs to, when that is another one."""
        node = self._session.get(paths.broker(broker_id))
        return None if node is None or node.owner == self._session.id else f"session 0x{node.owner:x}"

    def registered_brokers(self) -> tuple[Broker, ...]:
        ids = self._session.children(paths.BROKER_IDS)
        nodes = self._session.get_many(paths.broker(int(each)) for each in ids)
        return tuple(each.broker for each in brokers_in(nodes))

    def leave(self, broker_id: int) -> None:
        path = paths.broker(broker_id)
        node = self._session.get(path)
        if node is not None and node.owner == self._session.id:
            try:
                self._session.make([Delete(path)])
            except Refused:
                log.debug("the registration of broker %d was gone already", broker_id)

    def next_broker_id(self, reserved_max_id: int) -> int:
        self._session.make([Ensure(paths.BROKER_SEQUENCE)])
        versions = self._session.make([SetData(paths.BROKER_SEQUENCE, b"")])
        return reserved_max_id + versions[paths.BROKER_SEQUENCE]

    # --- election ---

    def controller(self) -> Controller | None:
        """Who is controller. Node and epoch are two nodes, so the epoch must be the same before and after."""
        for _ in range(_ATTEMPTS):
            before = self._session.get(paths.CONTROLLER_EPOCH)
            node = self._session.get(paths.CONTROLLER)
            if node is None or before is None:
                return None
            after = self._session.get(paths.CONTROLLER_EPOCH)
            if after is not None and after.version == before.version:
                return Controller(znodes.read_controller(node), znodes.read_epoch(before))
        raise NoSession("the controller changes faster than it can be read")

    def stand(self, broker_id: int) -> Controller:
        for _ in range(_ATTEMPTS):
            if (present := self.controller()) is not None:
                return self._remember(present, broker_id)
            try:
                self.elected = self._win(broker_id)
            except Refused:
                continue
            return self.elected.controller
        raise NoSession("no election came to an end")

    def _win(self, broker_id: int) -> Elected:
        epoch = self._session.get(paths.CONTROLLER_EPOCH)
        if epoch is None:
            self._session.make([Create(paths.CONTROLLER_EPOCH, b"0")])
            epoch = znodes.Znode(b"0", 0)
        number = znodes.read_epoch(epoch) + 1
        versions = self._session.make(
            [
                Create(
                    paths.CONTROLLER,
                    znodes.controller_json(broker_id, timestamp_ms=self._clock.now_ms()),
                    ephemeral=True,
                ),
                SetData(paths.CONTROLLER_EPOCH, b"%d" % number, epoch.version),
            ]
        )
        return Elected(Controller(broker_id, number), versions[paths.CONTROLLER_EPOCH])

    def _remember(self, present: Controller, broker_id: int) -> Controller:
        """Somebody is controller; it may be us, by a call whose answer was lost."""
        if present.broker_id != broker_id:
            self.elected = None
        elif self.elected is None or self.elected.controller != present:
            node, epoch = self._session.get(paths.CONTROLLER), self._session.get(paths.CONTROLLER_EPOCH)
            is_ours = node is not None and epoch is not None and node.owner == self._session.id
            if is_ours and epoch is not None and znodes.read_epoch(epoch) == present.epoch:
                self.elected = Elected(present, epoch.version)
        return present

    def resign(self, broker_id: int) -> None:
        if self.elected is None or self.elected.controller.broker_id != broker_id:
            return
        check = self.check()
        self.dismiss()
        try:
            self._session.make([Delete(paths.CONTROLLER)], check=check)
        except (Refused, NoSession) as reason:
            log.info("the office of controller was taken away already: %s", reason)

    def dismiss(self) -> None:
        self.elected = None

    def check(self, controller_epoch: int | None = None) -> Check:
        """What a controller's write begins with; ControllerMoved when this member is none."""
        elected = self.elected
        if elected is None:
            raise ControllerMoved("this broker is not controller")
        if controller_epoch not in (None, elected.controller.epoch):
            raise ControllerMoved(f"this was decided in epoch {controller_epoch}, now it is {elected.controller.epoch}")
        return Check(paths.CONTROLLER_EPOCH, elected.version)
