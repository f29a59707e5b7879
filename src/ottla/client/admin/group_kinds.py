"""Calls about groups that are not of ordinary consumers: classic ones of any kind, share groups, Kafka Streams.

Part of AdminCalls (calls.py), in a file of its own because few clusters have such groups. What is the same for every
kind of group in the protocol (deleting it, offsets of Streams groups) is done by the calls for consumer groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.admin.arguments import raise_failed, several
from ottla.client.admin.later import loaded_when_used
from ottla.client.admin.plans import Carrier
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import groups, share_groups, streams_groups
else:
    groups, share_groups, streams_groups = map(loaded_when_used, ("groups", "share_groups", "streams_groups"))


class GroupKinds(Carrier):
    """The calls; whoever inherits them carries out plans."""

    async def describe_classic_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[str, groups.GroupDescription]:
        """Groups of the classic protocol, whatever their members do: consumers, Connect, schema registries."""
        plan = groups.DescribeClassicGroups(include_authorized_operations)
        return await self._carry_out(plan, several(group_ids), timeout)

    # --- share groups ---

    async def describe_share_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[str, share_groups.ShareGroupDescription]:
        """Share groups with their members."""
        plan = share_groups.DescribeShareGroups(include_authorized_operations)
        return await self._carry_out(plan, several(group_ids), timeout)

    async def list_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, share_groups.ShareOffset | None]:
        """Where a share group starts to look for records: everywhere, or in these partitions."""
        wanted: Sequence[TopicPartition] | None = None if partitions is None else list(partitions)
        found = await self._carry_out(share_groups.ListShareOffsets({group_id: wanted}), [group_id], timeout)
        return found[group_id]

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> None:
        """Let a share group that has no members start elsewhere."""
        raise_failed((await self._carry_out(share_groups.AlterShareOffsets(offsets), [group_id], timeout))[group_id])

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Let a share group that has no members forget topics."""
        plan = share_groups.DeleteShareOffsets(several(topics))
        raise_failed((await self._carry_out(plan, [group_id], timeout))[group_id])

    async def delete_share_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete share groups that have no members."""
        await self._carry_out(groups.DeleteGroups(), several(group_ids), timeout)

    # --- Kafka Streams ---

    async def describe_streams_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[str, streams_groups.StreamsGroupDescription]:
        """Groups of Kafka Streams with their topology, members and tasks."""
        plan = streams_groups.DescribeStreamsGroups(include_authorized_operations)
        return await self._carry_out(plan, several(group_ids), timeout)

    async def delete_streams_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete groups of Kafka Streams that have no members, with their committed offsets."""
        await self._carry_out(groups.DeleteGroups(), several(group_ids), timeout)
