"""Does what leaving.py decided, with progress: the vote, the copies, the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.output import Failure, counted
from ottla.cli.progress import Progress
from ottla.cli.quorum.members import Member, members_of
from ottla.clock import SystemClock
from ottla.quorum_health import NOBODY_LEADS, UNLED

if TYPE_CHECKING:
    from ottla.cli.quorum.leaving import Departure
    from ottla.client.admin.admin import Admin
    from ottla.values import TopicPartition

LOOK_EVERY_S: Final = 0.5
QUORUM_TIMEOUT_S: Final = 10.0
"""An election takes a second or two."""
VOTES_WITHIN_MS: Final = 25_000
"""Who joins by itself asks every six seconds."""


def members(admin: Admin) -> list[Member]:
    """All nodes; Failure says what it means where nobody leads the metadata log, who alone knows how they are."""
    cluster = admin.describe_cluster(include_fenced_brokers=True)
    try:
        quorum = admin.describe_metadata_quorum(timeout=QUORUM_TIMEOUT_S)
    except UNLED as error:
        lost = NOBODY_LEADS
        raise Failure(f"{lost.what}. {lost.still}. {lost.remedy}. `ottla doctor` looks at every node") from error
    return members_of(cluster, quorum)


def depart(admin: Admin, plan: Departure, say: Callable[[str], None]) -> None:
    """To the end; Ctrl-C in between does no harm, and the same command goes on from there."""
    node = plan.node
    if plan.takes_vote:
        if node.directory_id is None:
            raise Failure(f"the controllers do not say with which directory node {node.id} votes; they are too old")
        admin.remove_raft_voter(node.id, node.directory_id)
        say(f"node {node.id} does not vote any more")
        if plan.successor is not None and not plan.successor.votes:
            _wait_for_vote(admin, plan.successor.id, len(plan.voters_left), say)
    if plan.moves:
        _move(admin, plan.moves)
        say(f"{counted(len(plan.moves), 'partition')} moved")
    if plan.waits_for_stop:
        _wait_for_stop(admin, node.id, say)
    if plan.forgets_broker:
        admin.unregister_broker(node.id)
        say(f"broker {node.id} is forgotten")


def _wait_for_vote(admin: Admin, node_id: int, voters: int, say: Callable[[str], None]) -> None:
    """A controller that joins by itself does so soon; who is only a broker never does."""
    clock = SystemClock()
    end_ms = clock.monotonic_ms() + VOTES_WITHIN_MS
    with Progress(f"until node {node_id} votes", unit="") as progress:
        while clock.monotonic_ms() < end_ms:
            if any(each.node_id == node_id for each in admin.describe_metadata_quorum().voters):
                say(f"node {node_id} votes")
                return
            progress.advance(0)
            time.sleep(LOOK_EVERY_S)
    say(
        f"node {node_id} does not vote: it is a broker only, or controller.quorum.auto.join.enable is not set. There "
        f"are {voters} voters; a start of it with --voters {voters + 1} makes it one"
    )


def _move(admin: Admin, moves: Mapping[TopicPartition, Sequence[int]]) -> None:
    admin.alter_partition_reassignments({key: list(replicas) for key, replicas in moves.items()})
    with Progress("moving copies", total=len(moves), unit="partitions") as progress:
        while left := admin.list_partition_reassignments(list(moves)):
            progress.reach(len(moves) - len(left))
            time.sleep(LOOK_EVERY_S)


def _wait_for_stop(admin: Admin, node_id: int, say: Callable[[str], None]) -> None:
    def lives() -> bool:
        return any(each.id == node_id and each.is_alive for each in members(admin))

    if not lives():
        return
    say(f"now stop node {node_id}: SIGTERM or Ctrl-C on its machine. This waits; ended here, the same command goes on")
    sys.stdout.flush()
    with Progress(f"until node {node_id} has stopped", unit="") as progress:
        while lives():
            progress.advance(0)
            time.sleep(LOOK_EVERY_S)
