"""DescribeGroups: a classic group as tools show it.

The metadata of members is shown only while the group is Stable: before, the protocol is not chosen. A group
that does not exist, or is of another kind, is Dead; from version 6 on with GROUP_ID_NOT_FOUND and a sentence.
"""

from __future__ import annotations

from ottla.broker.coordinators.groups.classic_group import ClassicGroup
from ottla.broker.coordinators.groups.classic_member import ClassicMember
from ottla.broker.coordinators.groups.group import Group
from ottla.broker.coordinators.groups.state import DEAD, STABLE
from ottla.errors import NONE, GroupIdNotFound
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

NOT_FOUND_SINCE = 6


def describe(group_id: str, group: Group | None, api_version: int) -> DescribedGroup:
    if not isinstance(group, ClassicGroup):
        return _not_found(group_id, group, api_version)
    protocol = group.protocol_name if group.state.current is STABLE else None
    return DescribedGroup(
        error_code=NONE,
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_member(each, protocol) for each in group.members.values()],
    )


def _not_found(group_id: str, group: Group | None, api_version: int) -> DescribedGroup:
    described = DescribedGroup(
        error_code=NONE, group_id=group_id, group_state=DEAD.value, protocol_type="", protocol_data="", members=[]
    )
    if api_version >= NOT_FOUND_SINCE:
        why = "not found" if group is None else "is not a classic group"
        described.error_code = GroupIdNotFound.code
        described.error_message = f"Group {group_id} {why}."
    return described


def _member(member: ClassicMember, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment,
    )
