"""Calls of the admin clients that coordinators answer: groups of consumers with their offsets, and transactions.

Part of AdminCalls (calls.py). Groups of other kinds are in group_kinds.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.admin.arguments import raise_failed, several
from ottla.client.admin.group_kinds import GroupKinds
from ottla.client.admin.later import loaded_when_used
from ottla.client.admin.plans import PartlyFailed
from ottla.client.arguments import by_partition, offset_of, partitions_of
from ottla.errors import GroupIdNotFound, OttlaError, UnsupportedVersion, Unwritable
from ottla.light_dataclasses import replace
from ottla.values import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import cluster, groups, transactions
    from ottla.client.producer.transactions.prepared import PreparedTransaction
else:
    cluster, groups, transactions = map(loaded_when_used, ("cluster", "groups", "transactions"))


class CoordinatorCalls(GroupKinds):
    """The calls; whoever inherits them carries out plans."""

    # --- groups ---

    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), timeout: float | None = None
    ) -> list[groups.GroupListing]:
        """The groups of all brokers; if one of them does not answer, PartlyFailed has what the others said."""
        brokers = await self._broker_ids(timeout)
        found = await self._carry_out(groups.ListGroups(states, types), brokers, timeout)
        return sorted((each for part in found.values() for each in part), key=lambda each: each.group_id)

    async def list_consumer_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), timeout: float | None = None
    ) -> list[groups.GroupListing]:
        """The groups of consumers; those of Connect and of share groups are left out."""
        found = await self.list_groups(states=states, types=types, timeout=timeout)
        return [each for each in found if each.protocol_type in (groups.CONSUMER_PROTOCOL, "")]

    async def describe_consumer_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[str, groups.GroupDescription]:
        """Groups of either protocol with their members."""
        wanted = several(group_ids)
        found, left = await self._described_groups(wanted, include_authorized_operations, timeout)
        if left:
            plan = groups.DescribeClassicGroups(include_authorized_operations)
            try:
                found |= await self._carry_out(plan, left, timeout)
            except PartlyFailed as error:
                raise PartlyFailed(found | error.succeeded, error.failed) from None
            except OttlaError as error:
                if len(wanted) == 1:
                    raise
                raise PartlyFailed(found, dict.fromkeys(left, error)) from None
        return {group: found[group] for group in wanted}

    async def delete_consumer_groups(self, group_ids: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete groups that have no members, with their committed offsets."""
        await self._carry_out(groups.DeleteGroups(), several(group_ids), timeout)

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: Iterable[groups.MemberToRemove | str] | None = None,
        *,
        reason: str = "removed by an administrator",
        timeout: float | None = None,
    ) -> None:
        """Let members leave; a plain name is a static id. Without members all of them."""
        if members is None:
            described = (await self.describe_consumer_groups([group_id], timeout=timeout))[group_id]
            wanted = [
                groups.MemberToRemove(each.group_instance_id, "" if each.group_instance_id else each.member_id)
                for each in described.members
            ]
        else:
            wanted = [groups.MemberToRemove(each) if isinstance(each, str) else each for each in members]
        if wanted:
            plan = groups.RemoveMembers(wanted, reason)
            raise_failed((await self._carry_out(plan, [group_id], timeout))[group_id])

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What a group has committed: all of it, or for these partitions, None where there is nothing."""
        several([group_id])
        wanted = None if partitions is None else partitions_of(partitions)
        plan = groups.ListGroupOffsets({group_id: wanted}, require_stable)
        try:
            return (await self._carry_out(plan, [group_id], timeout))[group_id]
        except Unwritable:
            old = replace(plan, is_old=True)
            return (await self._carry_out(old, [group_id], timeout))[group_id]

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        new_offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit for a group that has no members."""
        committed = by_partition(new_offsets, offset_of)
        found = await self._carry_out(groups.AlterGroupOffsets(committed), several([group_id]), timeout)
        raise_failed(found[group_id])

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None:
        """Forget what a group committed for partitions that no member is subscribed to."""
        plan = groups.DeleteGroupOffsets(partitions_of(partitions))
        found = await self._carry_out(plan, several([group_id]), timeout)
        raise_failed(found[group_id])

    # --- transactions ---

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        running_longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[transactions.TransactionListing]:
        """The transactional ids of all coordinators."""
        longer = -1 if running_longer_than_ms is None else running_longer_than_ms
        plan = transactions.ListTransactions(states, producer_ids, longer, transactional_id_pattern)
        found = await self._carry_out(plan, await self._broker_ids(timeout), timeout)
        return sorted((each for part in found.values() for each in part), key=lambda each: each.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, transactions.TransactionDescription]:
        """State, producer and partitions of transactional ids."""
        return await self._carry_out(transactions.DescribeTransactions(), several(transactional_ids), timeout)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker: int | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, list[transactions.ProducerState]]:
        """Who writes into partitions, and since where a transaction is open: as leaders know it, or one broker."""
        plan = transactions.DescribeProducers() if broker is None else transactions.DescribeProducersOn(broker)
        return await self._carry_out(plan, partitions, timeout)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout: float | None = None,
    ) -> None:
        """Abort what one producer has open in one partition, past its coordinator: for hanging transactions."""
        producer = transactions.ProducerIdAndEpoch(producer_id, producer_epoch)
        await self._carry_out(transactions.AbortTransaction(producer, coordinator_epoch), [partition], timeout)

    async def end_transaction(
        self, prepared: PreparedTransaction, *, commit: bool = True, timeout: float | None = None
    ) -> None:
        """End what Producer.prepare_transaction() left open. To end it the same way again does no harm; ProducerFenced,
        InvalidTxnState or InvalidProducerIdMapping mean that it is out of these hands: somebody initialized the id
        again, or the time-out was faster."""
        if prepared.is_empty:
            return  # the coordinator knows of no transaction
        of_kind = (
            transactions.EndTransaction if prepared.transaction_version >= 2 else transactions.EndTransactionOfOldKind
        )
        await self._carry_out(of_kind(prepared, commit), [prepared.transactional_id], timeout)

    async def send_offsets_to_transaction(
        self,
        prepared: PreparedTransaction,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_id: str,
        *,
        timeout: float | None = None,
    ) -> PreparedTransaction:
        """Add positions of a group to what Producer.prepare_transaction() left open; returns it as it is then."""
        positions = {
            name: OffsetAndMetadata(offset) if isinstance(offset, int) else offset for name, offset in offsets.items()
        }
        if not positions:
            return prepared
        adding = transactions.AddOffsetsToTransaction
        if prepared.transaction_version < 2:
            # Asking for the group's coordinator makes the topic of offsets where it was never used; adding does not.
            await self._find_coordinator(group_id, timeout)
            plan = transactions.AddGroupToTransaction(prepared, group_id)
            await self._carry_out(plan, [prepared.transactional_id], timeout)
            adding = transactions.AddOffsetsToTransactionOfOldKind
        await self._carry_out(adding(prepared, positions), [group_id], timeout)
        return replace(prepared, is_empty=False)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, transactions.ProducerIdAndEpoch]:
        """Fence whoever uses these ids, and abort what they have open."""
        plan = transactions.FenceProducers(transaction_timeout_ms=int(self._timeout_ms(timeout)))
        return await self._carry_out(plan, several(transactional_ids), timeout)

    # --- small parts ---

    async def _broker_ids(self, timeout: float | None) -> list[int]:
        return [node.id for node in (await self._ask(cluster.DescribeCluster(), timeout)).nodes]

    async def _described_groups(
        self, wanted: Sequence[str], include_operations: bool, timeout: float | None
    ) -> tuple[dict[str, groups.GroupDescription], list[str]]:
        """Groups of the new protocol, and those that are not of it."""
        plan = groups.DescribeConsumerGroups(include_operations)
        try:
            return await self._carry_out(plan, wanted, timeout), []
        except PartlyFailed as error:
            others = [
                key for key, each in error.failed.items() if isinstance(each, GroupIdNotFound | UnsupportedVersion)
            ]
            if len(others) < len(error.failed):
                raise
            return error.succeeded, others
        except (GroupIdNotFound, UnsupportedVersion):
            return {}, list(wanted)
