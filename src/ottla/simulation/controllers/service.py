"""All controllers of a simulated cluster: which of them is active, and who follows when it is killed.

    controllers = Controllers(network, Random(7), cluster_id, count=3, settings=..., session_s=1.5, timeline=...)
    controllers.start()
    controllers.kill(controllers.active)          # another one leads ELECTION_S later, if one lives
    controllers.restart(101)

1. A node that is killed comes back by `restart` only; who lives then is elected, one node drawn among them.
2. With each election the epoch grows, what was not committed is lost in part (truth.py), and all sessions of brokers
   begin anew.
3. The settings of the cluster (what a new topic has, how many must be in sync) are those that are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from ottla.broker.settings import BrokerSettings
from ottla.cluster.features import first_features
from ottla.simulation.controllers.decisions import Decisions
from ottla.simulation.controllers.node import PORT, ControllerNode
from ottla.simulation.controllers.truth import NOBODY, Quorum
from ottla.simulation.machine import Machine
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.timeline import Timeline

FIRST_ID: Final = 100
ELECTION_S: Final = (0.05, 1.0)
BEAT_S: Final = 0.1


class Controllers:
    """See the module."""

    def __init__(
        self,
        network: SimulatedNetwork,
        random: Random,
        cluster_id: str,
        *,
        count: int,
        settings: BrokerSettings,
        session_s: float,
        timeline: Timeline,
    ) -> None:
        self.loop = network.loop
        self.quorum = Quorum(self.loop, Random(random.getrandbits(64)), cluster_id)
        self._random = random
        self._settings = settings
        self._session_s = session_s
        self._timeline = timeline
        hosts = {FIRST_ID + number: f"10.0.9.{number + 1}" for number in range(count)}
        self.nodes = {
            node_id: ControllerNode(
                node_id,
                Machine(self.loop, network, host, Random(random.getrandbits(64))),
                self.quorum,
                hosts,
                lambda: self._decisions,
            )
            for node_id, host in hosts.items()
        }
        self._decisions: Decisions

    @property
    def hosts(self) -> Sequence[str]:
        return [node.machine.host for node in self.nodes.values()]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{PORT}" for host in self.hosts)

    @property
    def active(self) -> int:
        """The node that leads; NOBODY while none does."""
        return self.quorum.leader

    def start(self) -> None:
        """All nodes, one of which leads; the cluster is new."""
        for node_id in self.nodes:
            self.restart(node_id)
        self._elect(self._random.choice(list(self.nodes)))
        self.quorum.append(first_features())
        self._beat()

    # --- coming and going ---------------------------------------------------------------------------------------------

    def restart(self, node_id: int) -> None:
        """Start the node's process, unless it lives."""
        machine = self.nodes[node_id].machine
        if machine.process is None or machine.process.is_dead:
            machine.power_on()
            process = machine.boot(f"controller {node_id}")
            self._timeline.add(f"controller {node_id}", "started", process.name)
            self.loop.start(process, self.nodes[node_id].serve(), f"controller {node_id}")

    def kill(self, node_id: int) -> None:
        """kill -9; when it led, another one does after a while."""
        self._timeline.add(f"controller {node_id}", "killed")
        self.nodes[node_id].machine.kill()
        if self.active == node_id:
            self.quorum.depose()
            self._elect_later()

    def _elect_later(self) -> None:
        low_s, high_s = ELECTION_S
        delay_s = low_s + (high_s - low_s) * self._random.random()
        self.loop.call_later(delay_s, self._elect_one, context=self.loop.outside.context.copy())

    def _elect_one(self) -> None:
        if self.active != NOBODY:
            return
        live = [
            each for each, node in self.nodes.items() if (it := node.machine.process) is not None and not it.is_dead
        ]
        if live:
            self._elect(self._random.choice(live))
        else:
            self._elect_later()

    def _elect(self, node_id: int) -> None:
        self.quorum.elect(node_id)
        self._decisions = Decisions(self.quorum, self._settings, self._random, self._session_s)
        self._timeline.add(f"controller {node_id}", "leads", f"the metadata log in epoch {self.quorum.epoch}")

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        if self.active != NOBODY:
            self._decisions.fence_the_silent()
        self.loop.call_later(BEAT_S, self._beat, context=self.loop.outside.context.copy())

    def expire(self, broker_id: int) -> None:
        """End the session of a broker that lives."""
        if self.active != NOBODY:
            self._decisions.expire(broker_id)
