"""Reassignments carried out and taken back: `--execute` and `--cancel`, with their throttles."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.java_errors import message_of
from ottla.cli.kafka.reassign_checks import (
    DIRECTORY_RATE,
    clear_throttles,
    directory_states,
)
from ottla.cli.kafka.reassign_plans import Plan, Refused, as_json, check_plan, current_replicas, replica_directories
from ottla.cli.moves import RATES, throttled
from ottla.clock import SystemClock
from ottla.errors import OttlaError, ReplicaNotAvailable, UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster import Replica
    from ottla.client.admin.replicas import PartitionReassignment

PAUSE_S: Final = 0.1
EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)


class Limits(NamedTuple):
    """Bytes a second between brokers and between directories (None: no limit), and how long a move may wait."""

    between_brokers: int | None
    between_directories: int | None
    timeout_ms: int


def execute(admin: Admin, plan: Plan, limits: Limits, *, additional: bool, may_change_copies: bool) -> None:
    check_plan(plan)
    going_on = admin.list_partition_reassignments()
    if going_on and not additional:
        raise Refused(EXISTING)
    wanted = plan.by_partition()
    live = {node.id for node in admin.describe_cluster().nodes}
    for broker in sorted({broker for brokers in wanted.values() for broker in brokers} - live):
        raise ValueError(f"Unknown broker id {broker}")
    current = _current(admin, plan)
    print(f"Current partition replica assignment\n\n{as_json(current, replica_directories(admin, current))}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    _throttle(admin, plan, limits, going_on, current)
    _start(admin, wanted, may_change_copies)
    names = ",".join(map(str, sorted(wanted)))
    print(f"Successfully started partition reassignment{'s' * (len(wanted) != 1)} for {names}")
    if plan.directories:
        move_directories(admin, plan.directories, limits.timeout_ms)


def _current(admin: Admin, plan: Plan) -> dict[TopicPartition, list[int]]:
    wanted = plan.by_partition()
    found = current_replicas(admin, plan.topics())
    if missing := [each for each in wanted if each not in found]:
        raise UnknownTopicOrPartition(f"Unable to find partition: {', '.join(map(str, missing))}")
    return {each: found[each] for each in wanted}


def _start(admin: Admin, wanted: Mapping[TopicPartition, Sequence[int]], may_change_copies: bool) -> None:
    errors = _alter(admin, wanted, may_change_copies)
    if errors:
        lines = "\n".join(f"{each}: {message_of(errors[each], each.topic)}" for each in sorted(errors))
        raise Refused(f"Error reassigning partition(s):\n{lines}")


def _alter(
    admin: Admin, wanted: Mapping[TopicPartition, Sequence[int] | None], may_change_copies: bool = True
) -> dict[TopicPartition, OttlaError]:
    from ottla.client.admin.plans import PartlyFailed

    try:
        admin.alter_partition_reassignments(wanted, allow_replication_factor_change=may_change_copies)
    except PartlyFailed as error:
        return dict(error.failed)
    except OttlaError as error:
        if len(wanted) != 1:
            raise
        return dict.fromkeys(wanted, error)
    return {}


# --- throttles -------------------------------------------------------------------------------------------------------


def _throttle(
    admin: Admin,
    plan: Plan,
    limits: Limits,
    going_on: Mapping[TopicPartition, PartitionReassignment],
    current: Mapping[TopicPartition, Sequence[int]],
) -> None:
    if limits.between_brokers is None and limits.between_directories is None:
        return
    print(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed."
    )
    if limits.between_brokers is not None:
        moves = move_map(plan, going_on, current)
        _set(admin, "TOPIC", throttled(moves))
        brokers = sorted({broker for sources, targets in moves.values() for broker in sources | targets})
        rate = str(limits.between_brokers)
        _set(admin, "BROKER", {str(each): dict.fromkeys(RATES, rate) for each in brokers})
        print(f"The inter-broker throttle limit was set to {rate} B/s")
    if limits.between_directories is not None:
        rate = str(limits.between_directories)
        movers = sorted({each.broker for each in plan.directories})
        _set(admin, "BROKER", {str(each): {DIRECTORY_RATE: rate} for each in movers})
        print(f"The replica-alter-dir throttle limit was set to {rate} B/s")


Moves = dict[TopicPartition, tuple[set[int], set[int]]]
"""From which brokers to which new ones partitions are copied."""


def move_map(
    plan: Plan,
    going_on: Mapping[TopicPartition, PartitionReassignment],
    current: Mapping[TopicPartition, Sequence[int]],
) -> Moves:
    """The moves that are going on, and those of the plan; a partition that moves already comes from where it was."""
    found: Moves = {each: (set(move.replicas) - set(move.adding), set(move.adding)) for each, move in going_on.items()}
    for partition, brokers in plan.replicas:
        sources = found[partition][0] if partition in found else set(current[partition])
        found[partition] = (sources, set(brokers) - sources)
    return found


def _set(admin: Admin, kind: str, settings: Mapping[str, Mapping[str, str]]) -> None:
    from ottla.cli.operations.configs import alter, resource, setting

    alter(admin, {resource(kind, name): setting(values) for name, values in settings.items()})


# --- directories -----------------------------------------------------------------------------------------------------


def move_directories(admin: Admin, wanted: Mapping[Replica, str], timeout_ms: int) -> None:
    """Begin moves into directories; a copy that is not on its broker yet is asked for again until time is over."""
    clock = SystemClock()
    end_ms = clock.monotonic_ms() + timeout_ms
    left = dict(wanted)
    while True:
        for each in sorted(_begun(admin, left), key=_by_broker):
            print(
                f"Successfully started moving log directory to {left.pop(each)} for replica "
                f"{each.topic}-{each.partition} with broker {each.broker} "
            )
        if not left:
            return
        if clock.monotonic_ms() >= end_ms:
            names = ",".join(f"{each.topic}-{each.partition}-{each.broker}" for each in sorted(left, key=_by_broker))
            raise Refused(f"Timed out before log directory move{'s' * (len(left) != 1)} could be started for: {names}")
        time.sleep(PAUSE_S)


def _by_broker(replica: Replica) -> tuple[int, str, int]:
    return replica.broker, replica.topic, replica.partition


def _begun(admin: Admin, wanted: Mapping[Replica, str]) -> Iterable[Replica]:
    from ottla.client.admin.plans import PartlyFailed

    try:
        admin.alter_replica_log_dirs(wanted)
    except PartlyFailed as error:
        for cause in error.failed.values():
            if not isinstance(cause, ReplicaNotAvailable):
                raise cause from None
        return list(error.succeeded)
    except ReplicaNotAvailable:
        return []
    return list(wanted)


def cancel(admin: Admin, plan: Plan, timeout_ms: int, *, preserve: bool) -> None:
    wanted = list(plan.by_partition())
    found = admin.list_partition_reassignments(wanted)
    active = [each for each in wanted if each in found and (found[each].adding or found[each].removing)]
    if active:
        plural = "s" * (len(active) != 1)
        errors = _alter(admin, dict.fromkeys(active))
        if errors:
            lines = "\n".join(f"{each}: {message_of(errors[each], each.topic)}" for each in sorted(errors))
            raise Refused(f"Error cancelling partition reassignment{'s' * (len(errors) != 1)} for:\n{lines}")
        print(f"Successfully cancelled partition reassignment{plural} for: {','.join(map(str, sorted(active)))}")
    else:
        print("None of the specified partition reassignments are active.")
    states = directory_states(admin, plan)
    back = {each: place.current for each, place in states.items() if place.future is not None and place.current}
    if back:
        move_directories(admin, back, timeout_ms)
    else:
        print("None of the specified partition moves are active.", end="")
    if not preserve:
        clear_throttles(admin, plan)
