"""The calls of KafkaAdminClient about groups and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.admin.groups import GroupDescription, GroupListing
from ottla.client.admin.plans import PartlyFailed
from ottla.compat.kafka.acls import ACLOperation
from ottla.compat.kafka.admin.values import GroupState, GroupType, MemberToRemove, OffsetSpec, place_of
from ottla.compat.kafka.errors import NoError, theirs
from ottla.compat.kafka.structs import OffsetAndMetadata
from ottla.errors import OttlaError
from ottla.values import OffsetAndMetadata as OurOffset
from ottla.values import TopicPartition


class GroupCalls:
    """A part of KafkaAdminClient."""

    _ours: Admin

    def list_groups(
        self,
        broker_ids: Sequence[int] | None = None,
        states_filter: Sequence[Any] | None = None,
        types_filter: Sequence[Any] | None = None,
    ) -> list[dict[str, Any]]:
        states = [GroupState.value_for(each) for each in states_filter or ()]
        types = [GroupType.value_for(each) for each in types_filter or ()]
        found = self._ours.list_groups(states=states, types=types)
        if broker_ids is not None:
            coordinators = self._coordinators([each.group_id for each in found])
            found = [each for each in found if coordinators.get(each.group_id) in broker_ids]
        return [_listing(each) for each in found]

    def _coordinators(self, group_ids: list[str]) -> dict[str, int | None]:
        found = self._ours.describe_consumer_groups(group_ids) if group_ids else {}
        return {name: each.coordinator for name, each in found.items()}

    def describe_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> dict[str, Any]:
        wanted = list(group_ids)
        failed: dict[Any, BaseException] = {}
        found: dict[str, GroupDescription] = {}
        try:
            found = self._ours.describe_consumer_groups(wanted, include_authorized_operations=True)
        except PartlyFailed as error:
            found, failed = error.succeeded, error.failed
        except OttlaError as error:
            failed = dict.fromkeys(wanted, error)
        return {name: _group(found[name]) if name in found else _missing(name, failed[name]) for name in wanted}

    def delete_groups(self, group_ids: Iterable[str], group_coordinator_id: int | None = None) -> dict[str, str]:
        wanted = list(group_ids)
        failed = failures(lambda: self._ours.delete_consumer_groups(wanted), wanted, lambda each: each)
        return {name: type(theirs(failed[name])).__name__ if name in failed else "OK" for name in wanted}

    def list_group_offsets(self, group_specs: Any) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        specs: dict[str, Any] = dict(group_specs) if isinstance(group_specs, Mapping) else {}
        if not specs:
            names = [group_specs] if isinstance(group_specs, str) else list(group_specs)
            specs = dict.fromkeys(names)
        if not specs:
            raise ValueError("Empty group_specs!")
        return {name: self._offsets(name, partitions) for name, partitions in specs.items()}

    def _offsets(self, group_id: str, partitions: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        wanted = None if partitions is None else [TopicPartition(*each) for each in partitions]
        found = self._ours.list_consumer_group_offsets(group_id, wanted)
        return {each: _theirs(offset) for each, offset in found.items()}

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, Any]:
        wanted: dict[TopicPartition, OurOffset | int] = {
            each: OurOffset(it.offset, it.metadata or "") for each, it in offsets.items()
        }
        if not wanted:
            return {}
        failed = failures(
            lambda: self._ours.alter_consumer_group_offsets(group_id, wanted), wanted, lambda each: each, spread=True
        )
        return {each: type(theirs(failed[each])) if each in failed else NoError for each in wanted}

    def reset_group_offsets(
        self, group_id: str, offset_specs: Mapping[TopicPartition, Any], group_coordinator_id: int | None = None
    ) -> dict[TopicPartition, dict[str, Any]]:
        wanted = list(offset_specs)
        if not wanted:
            return {}
        first = self._places(dict.fromkeys(wanted, OffsetSpec.EARLIEST))
        last = self._places(dict.fromkeys(wanted, OffsetSpec.LATEST))
        named = {each: spec for each, spec in offset_specs.items() if type(spec) is not int}
        found = self._places(named) if named else {}
        target = {}
        for each in wanted:
            raw = found.get(each, offset_specs[each]) if each in named else offset_specs[each]
            target[each] = last[each] if raw < 0 or raw > last[each] else max(raw, first[each])
        outcome = self.alter_group_offsets(group_id, {each: OffsetAndMetadata(it) for each, it in target.items()})
        return {each: {"error": outcome[each], "offset": target[each]} for each in wanted}

    def _places(self, specs: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
        found = self._ours.list_offsets({each: place_of(spec) for each, spec in specs.items()})
        return {each: it.offset for each, it in found.items()}

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], group_coordinator_id: int | None = None
    ) -> dict[TopicPartition, Any]:
        wanted = list(partitions)
        failed = failures(lambda: self._ours.delete_consumer_group_offsets(group_id, wanted), wanted, lambda each: each)
        return {each: type(theirs(failed[each])) if each in failed else NoError for each in wanted}

    def remove_group_members(
        self, group_id: str, members: Iterable[MemberToRemove], group_coordinator_id: int | None = None
    ) -> dict[str | None, Any]:
        wanted = list(members)
        failed = failures(
            lambda: self._ours.remove_members_from_consumer_group(group_id, [each.ours for each in wanted]),
            wanted,
            lambda each: each.ours,
        )
        return {
            each.member_id or each.group_instance_id: type(theirs(failed[each])) if each in failed else NoError
            for each in wanted
        }


def failures(call: Any, things: Iterable[Any], key: Any, *, spread: bool = False) -> dict[Any, OttlaError]:
    """What went wrong with which thing; an error of the whole request is raised, or everybody's when `spread`."""
    wanted = list(things)
    try:
        call()
    except PartlyFailed as error:
        return {each: error.failed[key(each)] for each in wanted if key(each) in error.failed}
    except OttlaError as error:
        if len(wanted) != 1 and not spread:
            raise
        return dict.fromkeys(wanted, error)
    return {}


def _listing(each: GroupListing) -> dict[str, Any]:
    return {
        "group_id": each.group_id,
        "protocol_type": each.protocol_type,
        "group_state": each.state,
        "group_type": each.type,
    }


def _theirs(offset: OurOffset | None) -> OffsetAndMetadata:
    if offset is None:
        return OffsetAndMetadata(-1, "", -1)
    return OffsetAndMetadata(offset.offset, offset.metadata, -1 if offset.leader_epoch is None else offset.leader_epoch)


def _group(found: GroupDescription) -> dict[str, Any]:
    allowed = found.authorized_operations
    return {
        "group_id": found.group_id,
        "group_state": found.state,
        "protocol_type": found.protocol_type,
        "protocol_data": found.assignor,
        "members": [
            {
                "member_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "client_id": each.client_id,
                "client_host": each.host,
                "member_assignment": {"assigned_partitions": _by_topic(each.assignment)},
            }
            for each in found.members
        ],
        "authorized_operations": None if allowed is None else {ACLOperation(int(each)) for each in allowed},
        "error": None,
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    found: dict[str, list[int]] = {}
    for each in sorted(partitions):
        found.setdefault(each.topic, []).append(each.partition)
    return [{"topic": name, "partitions": numbers} for name, numbers in found.items()]


def _missing(name: str, error: BaseException) -> dict[str, Any]:
    shown = str(theirs(error))
    return {"group_id": name, "group_state": "Dead", "protocol_type": "", "members": [], "error": shown}
