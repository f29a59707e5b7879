"""What must be done so that a node can go for good, or another can take its place: decided here, done by departure.py.

1. First its vote: with a voter that is gone a quorum of three bears no other loss. Then its copies go to other brokers,
   the least loaded first and not two into one rack; where another node takes its place, to that one. Then, when it has
   stopped, it is forgotten.
2. What cannot work is refused before anything is done: copies that have no other broker to go to, data that only the
   lost node has, the only voter.
3. Who takes the place takes what there is to be taken: a broker the copies, a controller the vote. Copies do not go to
   a node that is a controller only.
4. Each step is left out where there is nothing to do, so the same command goes on where it was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.cli.output import Failure, counted
from ottla.cli.quorum.members import BROKER, CONTROLLER
from ottla.light_dataclasses import dataclass
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.quorum.members import Member

LISTED_LIMIT: Final = 5


class Partition(Protocol):
    """What is known of one."""

    @property
    def replicas(self) -> Sequence[int]: ...
    @property
    def in_sync(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Departure:
    """One node goes."""

    node: Member
    successor: Member | None
    moves: Mapping[TopicPartition, Sequence[int]]
    voters_left: Sequence[int]
    """After its vote was taken."""

    @property
    def takes_vote(self) -> bool:
        return self.node.votes

    @property
    def waits_for_stop(self) -> bool:
        return self.node.is_alive

    @property
    def forgets_broker(self) -> bool:
        return BROKER in self.node.roles

    def steps(self) -> list[str]:
        """What will be done, in sentences."""
        node_id, said = self.node.id, []
        if self.takes_vote:
            voters = ", ".join(map(str, self.voters_left))
            said.append(f"take the vote of node {node_id}; voters are then {voters}")
            if self.successor is not None and not self.successor.votes:
                said.append(f"wait until node {self.successor.id} votes")
        if self.moves:
            where = "other brokers" if self.successor is None else f"node {self.successor.id}"
            said.append(f"move its copies of {counted(len(self.moves), 'partition')} to {where}")
        if self.waits_for_stop:
            said.append(f"wait until you have stopped node {node_id}")
        if self.forgets_broker:
            said.append(f"forget broker {node_id}")
        return said

    def as_value(self) -> dict[str, Any]:
        """For programs."""
        moves = [
            {"topic": key.topic, "partition": key.partition, "replicas": list(replicas)}
            for key, replicas in sorted(self.moves.items())
        ]
        return {"node": self.node.id, "steps": self.steps(), "moves": moves}


def removal(members: Sequence[Member], node_id: int, partitions: Mapping[TopicPartition, Partition]) -> Departure:
    """A node goes for good, and the others take what it has."""
    return _departure(members, _member(members, node_id), None, partitions)


def replacement(
    members: Sequence[Member], lost_id: int, new_id: int, partitions: Mapping[TopicPartition, Partition]
) -> Departure:
    """A node that is lost, and the one in its place."""
    lost, new = _member(members, lost_id), _member(members, new_id)
    if lost_id == new_id:
        raise Failure(f"node {lost_id} cannot take its own place; start another node with --join first")
    if lost.is_alive:
        raise Failure(
            f"node {lost_id} lives, and replace is for a node that is lost. Stop it first; or let it go in order with "
            f"`ottla cluster remove {lost_id}`"
        )
    if not new.is_alive or not new.is_registered:
        raise Failure(f"node {new_id} is {new.state}; who takes the place of another must be a node that serves")
    copies = [key for key, partition in sorted(partitions.items()) if lost_id in partition.replicas]
    if copies and BROKER not in new.roles:
        raise Failure(
            f"node {lost_id} has copies of {_listed(copies)}, and node {new_id} is a controller only, which takes "
            "none. Let a broker take its place; or move the copies first (ottla reassign start), and then replace it"
        )
    if CONTROLLER not in new.roles and BROKER not in lost.roles:
        raise Failure(
            f"node {lost_id} is a controller only, and node {new_id} a broker only, which takes no vote. Let a "
            f"controller take its place; or make node {new_id} one (ottla broker start --voters on its machine)"
        )
    return _departure(members, lost, new, partitions)


def _member(members: Sequence[Member], node_id: int) -> Member:
    found = next((each for each in members if each.id == node_id), None)
    if found is None:
        there = ", ".join(str(each.id) for each in members)
        raise Failure(f"there is no node {node_id}; there is {there} (ottla cluster members)")
    return found


def _departure(
    members: Sequence[Member], node: Member, successor: Member | None, partitions: Mapping[TopicPartition, Partition]
) -> Departure:
    voters = [each.id for each in members if each.votes]
    if voters == [node.id]:
        raise Failure(
            f"node {node.id} is the only voter: without it there is no cluster. Let another node join first "
            "(ottla broker start --join), and wait until `ottla cluster members` shows it as a voter"
        )
    if not node.is_alive:
        _refuse_lost_data(node.id, partitions)
    racks = {
        member.id: member.rack
        for member in members
        if BROKER in member.roles and member.is_alive and member.id != node.id
    }
    moves = moves_away(node.id, {key: each.replicas for key, each in partitions.items()}, racks, successor)
    left = [each for each in voters if each != node.id]
    return Departure(node, successor, moves, left)


def _refuse_lost_data(node_id: int, partitions: Mapping[TopicPartition, Partition]) -> None:
    lost = sorted(key for key, each in partitions.items() if list(each.in_sync) == [node_id])
    if lost:
        raise Failure(
            f"only node {node_id} has the newest records of {_listed(lost)}, and it does not serve. Start it again "
            "if its disk is there. If it is not, delete these topics, or let another copy lead with what it has: "
            "ottla elect --unclean"
        )


def moves_away(
    node_id: int,
    current: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    successor: Member | None = None,
) -> dict[TopicPartition, list[int]]:
    """The new copies of each partition that has one on the node; its place in their order is kept."""
    load = dict.fromkeys(racks, 0)
    for replicas in current.values():
        for each in replicas:
            if each in load:
                load[each] += 1
    moves, nowhere = {}, []
    for key, replicas in sorted(current.items()):
        if node_id not in replicas:
            continue
        free = [each for each in racks if each not in replicas]
        if not free:
            nowhere.append(key)
            continue
        others = [racks.get(each) for each in replicas if each != node_id]
        chosen = min(
            free,
            key=lambda each: (
                successor is not None and each != successor.id,
                racks[each] is not None and racks[each] in others,
                load[each],
                each,
            ),
        )
        load[chosen] += 1
        moves[key] = [chosen if each == node_id else each for each in replicas]
    if nowhere:
        most = max(len(current[key]) for key in nowhere)
        raise Failure(
            f"{_listed(nowhere)} would have no broker for the copy of node {node_id}: {most} copies need {most} "
            f"brokers that serve, and {len(racks)} would be left. Let another node join and take its place (ottla "
            f"cluster replace {node_id} --with ID), or have fewer copies first (ottla reassign start --replication "
            f"{max(len(racks), 1)})"
        )
    return moves


def _listed(keys: Sequence[TopicPartition]) -> str:
    first = ", ".join(map(str, keys[:LISTED_LIMIT]))
    return first if len(keys) <= LISTED_LIMIT else f"{first} and {len(keys) - LISTED_LIMIT} more"
