"""`ottla cluster members`: who is a node of the cluster, what for, and how it is. Pure, of what admin calls return.

1. Nodes are those that brokers know (also fenced ones) and those that the leader of the metadata log knows: voters, and
   whoever reads it.
2. How long somebody has been silent is told by the leader's clock alone: when it was asked, less when the other one
   fetched last. Who reads the log does so at least twice a second.
3. The leader remembers for some minutes who followed the log: who does not any more, and is no broker, is not shown.
4. Who follows the log without a vote is a controller where its controllers' listeners are told, and a broker where one
   is registered with its id. One that is neither was forgotten (`ottla cluster remove`) and runs on; or Apache's
   controllers do not say that it is one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.light_dataclasses import dataclass
from ottla.quorum_health import SILENT_MS, lag, silent_ms

if TYPE_CHECKING:
    from ottla.client.admin.cluster import ClusterDescription
    from ottla.quorum_health import QuorumInfo, QuorumReplica

LEADER: Final = "leader"
VOTER: Final = "voter"
OBSERVER: Final = "observer"
BROKER: Final = "broker"
CONTROLLER: Final = "controller"


@dataclass(frozen=True, slots=True)
class Member:
    """One node."""

    id: int
    roles: tuple[str, ...]
    vote: str | None
    """leader, voter or observer; None of a broker that the leader of the log has not heard of."""
    address: str | None
    controller_address: str | None
    rack: str | None
    end_offset: int | None
    lag: int | None
    silent_ms: int | None
    is_fenced: bool
    directory_id: bytes | None = None

    @property
    def votes(self) -> bool:
        return self.vote in (LEADER, VOTER)

    @property
    def is_registered(self) -> bool:
        """As what it is: a broker, or a controller."""
        return bool(self.roles)

    @property
    def is_alive(self) -> bool:
        """As far as anybody can tell: it serves as a broker, or reads the log."""
        if BROKER in self.roles:
            return not self.is_fenced
        return self.silent_ms is not None and self.silent_ms < SILENT_MS

    @property
    def state(self) -> str:
        said = []
        if not self.is_registered:
            said.append("not registered")
        if self.is_fenced:
            said.append("fenced")
        if self.silent_ms is None:
            said.append("not heard of")
        elif self.silent_ms >= SILENT_MS:
            from ottla.cli.show import shown_duration

            said.append(f"silent for {shown_duration(self.silent_ms / 1000)}")
        return ", ".join(said) or "ok"


def members_of(cluster: ClusterDescription, quorum: QuorumInfo) -> list[Member]:
    """All nodes, by their ids."""
    brokers = {node.id: node for node in cluster.nodes}
    voters = {each.node_id: each for each in quorum.voters}
    # A node that came back with another directory may be listed twice; the newer one is the one that fetched last.
    observers: dict[int, QuorumReplica] = {}
    for each in sorted(quorum.observers, key=lambda replica: replica.last_fetch_timestamp_ms or -1):
        if each.node_id in brokers or (silent_ms(quorum, each) or 0) < SILENT_MS:
            observers[each.node_id] = each
    found = []
    for node_id in sorted({*brokers, *voters, *observers}):
        broker, replica = brokers.get(node_id), voters.get(node_id) or observers.get(node_id)
        endpoints = quorum.endpoints.get(node_id, ())
        knows_end = replica is not None and replica.log_end_offset >= 0
        found.append(
            Member(
                id=node_id,
                roles=_roles(
                    is_broker=broker is not None, is_controller=node_id in voters or node_id in quorum.endpoints
                ),
                vote=_vote(quorum, node_id, is_voter=node_id in voters, is_observer=node_id in observers),
                address=None if broker is None else str(broker.address),
                controller_address=f"{endpoints[0].host}:{endpoints[0].port}" if endpoints else None,
                rack=None if broker is None else broker.rack,
                end_offset=replica.log_end_offset if replica is not None and knows_end else None,
                lag=None if replica is None else lag(quorum, replica),
                silent_ms=None if replica is None else silent_ms(quorum, replica),
                is_fenced=node_id in cluster.fenced,
                directory_id=None if replica is None else replica.directory_id,
            )
        )
    return found


def _roles(*, is_broker: bool, is_controller: bool) -> tuple[str, ...]:
    return (*((BROKER,) if is_broker else ()), *((CONTROLLER,) if is_controller else ()))


def _vote(quorum: QuorumInfo, node_id: int, *, is_voter: bool, is_observer: bool) -> str | None:
    if node_id == quorum.leader:
        return LEADER
    return VOTER if is_voter else OBSERVER if is_observer else None
