"""How far reassignments are: `--verify` and `--list`; and the end of throttles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.java_maps import hash_order
from ottla.cli.kafka.reassign_plans import Plan
from ottla.cli.moves import FOLLOWERS, LEADERS, RATES
from ottla.errors import UnknownTopicOrPartition
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster import Replica, ReplicaLogDirs
    from ottla.client.admin.replicas import PartitionReassignment

DIRECTORY_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


def print_reassignments(admin: Admin) -> None:
    found = admin.list_partition_reassignments()
    if not found:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for each in sorted(found):
        move = found[each]
        adding = f" adding: {_joined(move.adding)}." if move.adding else ""
        removing = f" removing: {_joined(move.removing)}." if move.removing else ""
        print(f"{each}: replicas: {_joined(move.replicas)}.{adding}{removing}")


def _joined(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def verify(admin: Admin, plan: Plan, *, preserve: bool) -> None:
    moves = admin.list_partition_reassignments()
    lines = ["Status of partition reassignment:"]
    targets = plan.by_partition()
    lines += [_partition_line(admin, each, targets[each], moves) for each in sorted(targets)]
    print("\n".join(lines))
    lines, is_moving = [], False
    for replica, place in directory_states(admin, plan).items():
        lines.append(_directory_line(replica, place, plan.directories[replica]))
        is_moving = is_moving or place.future is not None
    print("\n".join(lines))
    if not moves and not is_moving and not preserve:
        clear_throttles(admin, plan)


def _partition_line(
    admin: Admin,
    partition: TopicPartition,
    target: Sequence[int],
    moves: Mapping[TopicPartition, PartitionReassignment],
) -> str:
    if partition in moves:
        return f"Reassignment of partition {partition} is still in progress."
    current = _replicas(admin, partition)
    if current == list(target):
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {_joined(current)} rather than "
        f"{_joined(target)}."
    )


def _replicas(admin: Admin, partition: TopicPartition) -> list[int]:
    try:
        described = admin.describe_topics([partition.topic])[partition.topic]
    except UnknownTopicOrPartition:
        return []
    return next((list(each.replicas) for each in described.partitions if each.partition == partition.partition), [])


# --- directories -----------------------------------------------------------------------------------------------------


def directory_states(admin: Admin, plan: Plan) -> dict[Replica, ReplicaLogDirs]:
    """Where the copies are that the plan wants in certain directories."""
    wanted = sorted(plan.directories, key=lambda each: (each.broker, each.topic, each.partition))
    return admin.describe_replica_log_dirs(wanted) if wanted else {}


def _directory_line(replica: Replica, place: ReplicaLogDirs, target: str) -> str:
    name = f"{replica.topic}-{replica.partition}"
    if place.current is None:
        return (
            f"Partition {name} is not found in any live log dir on broker {replica.broker}. There is likely an "
            "offline log directory on the broker."
        )
    if place.future is not None:
        if place.future == target:
            return f"Reassignment of replica {name}-{replica.broker} is still in progress."
        return (
            f"Partition {name} on broker {replica.broker} is being moved to log dir {place.future} instead of {target}."
        )
    if place.current == target:
        return f"Reassignment of replica {name}-{replica.broker} completed successfully."
    return f"Partition {name} on broker {replica.broker} is not being moved from log dir {place.current} to {target}."


# --- throttles -------------------------------------------------------------------------------------------------------


def clear_throttles(admin: Admin, plan: Plan) -> None:
    """Take all of them away: nobody knows any more which brokers had to do with it."""
    brokers = {node.id for node in admin.describe_cluster().nodes}
    brokers |= {broker for _, replicas in plan.replicas for broker in replicas}
    print(f"Clearing broker-level throttles on broker{'s' * (len(brokers) != 1)} {_joined(sorted(brokers))}")
    _clear(admin, "BROKER", map(str, sorted(brokers)), (*RATES, DIRECTORY_RATE))
    topics = hash_order(plan.topics())
    print(f"Clearing topic-level throttles on topic{'s' * (len(topics) != 1)} {','.join(topics)}")
    _clear(admin, "TOPIC", topics, (LEADERS, FOLLOWERS))


def _clear(admin: Admin, kind: str, names: Iterable[str], settings: Sequence[str]) -> None:
    from ottla.cli.operations.configs import alter, resetting, resource

    alter(admin, {resource(kind, name): resetting(settings) for name in names})
