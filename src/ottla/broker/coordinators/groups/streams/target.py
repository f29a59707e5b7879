"""The target assignment: where each task of the group should be.

It is made anew when the group epoch has moved, not more often than the group's assignment interval allows, and not
while a group that was empty still waits for more members. A topology that is not ready has no tasks: every member
gets nothing, until its topics are there.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.broker.coordinators.groups.modern_group import Draft
from ottla.broker.coordinators.groups.streams.assignor import AssignmentSpec, MemberSpec, SubtopologySpec, assign
from ottla.broker.coordinators.groups.streams.configuring import ConfiguredTopology
from ottla.broker.coordinators.groups.streams.group import StreamsGroup
from ottla.broker.coordinators.groups.streams.records import target_epoch_record, target_record
from ottla.broker.coordinators.groups.streams.tasks import NO_TASKS
from ottla.broker.settings.group_level import StreamsGroupConfig

log = logging.getLogger(__name__)

STANDBYS: Final = "num.standby.replicas"


def assignment_configs(config: StreamsGroupConfig) -> dict[str, str]:
    """What the assignment depends on besides the group; kept in the log, so that a change of it is noticed."""
    return {STANDBYS: str(config.standby_replicas)}


def update_target(
    draft: Draft[StreamsGroup], configured: ConfiguredTopology, config: StreamsGroupConfig, now_ms: int
) -> str | None:
    """Make the target follow the group if it is behind; says why that must wait."""
    group = draft.group
    if now_ms < draft.live.delayed_until_ms:
        return "Assignment delayed due to the configured initial rebalance delay."
    if group.assignment_epoch >= group.epoch:
        return None
    last_ms, interval_ms = group.assignment_timestamp_ms, config.assignment_interval_ms
    if last_ms and now_ms < last_ms + interval_ms:
        return "Assignment delayed due to the configured assignment interval."
    write_target(draft, configured, now_ms)
    return None


def write_target(draft: Draft[StreamsGroup], configured: ConfiguredTopology, now_ms: int) -> None:
    group = draft.group
    targets = {}
    if configured.is_ready:
        found = assign(_spec(group, configured))
        targets = found.tasks
        if found.missing_standbys:
            log.warning(
                "group %s: %d standby tasks have no place; it needs more processes",
                group.group_id,
                found.missing_standbys,
            )
    for member_id in sorted(group.members):
        target = targets.get(member_id, NO_TASKS)
        if group.targets.get(member_id) != target:
            draft.write(target_record(group.group_id, member_id, target))
    draft.write(target_epoch_record(group.group_id, draft.group.epoch, now_ms))


def _spec(group: StreamsGroup, configured: ConfiguredTopology) -> AssignmentSpec:
    assert group.topology is not None, "a topology that is ready is there"
    members = {name: MemberSpec(each.process_id, group.target_of(name)) for name, each in group.members.items()}
    subtopologies = {
        name: SubtopologySpec(configured.tasks[name], bool(each.state_changelog_topics))
        for name, each in group.topology.subtopologies.items()
    }
    return AssignmentSpec(members, subtopologies, int(group.assignment_configs.get(STANDBYS, "0")))
