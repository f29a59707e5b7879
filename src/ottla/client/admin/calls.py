"""The calls of the admin clients: one method per question or order, named as in Java's Admin.

1. Every call takes `timeout` in seconds (default.api.timeout.ms unless given), and ends by then.
2. What goes in and comes out are the values of this room; nothing of the wire shows.
3. A call makes plans and has them carried out; how that is done, and on which loop if any, is up to the class that
   inherits them (async_admin.py, direct_admin.py). Nothing here loads asyncio.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.admin.arguments import by_name, config_resources, new_topics, raise_failed, several
from ottla.client.admin.group_kinds import GroupKinds
from ottla.client.admin.later import loaded_when_used
from ottla.client.admin.plans import PartlyFailed, Question
from ottla.client.admin.settings import AdminSettings
from ottla.client.arguments import by_partition, offset_of, partitions_of, whole_number
from ottla.errors import GroupIdNotFound, OttlaError, TopicAlreadyExists, UnsupportedVersion, Unwritable
from ottla.light_dataclasses import replace
from ottla.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import (
        access,
        cluster,
        configs,
        copies,
        credentials,
        groups,
        offsets,
        quotas,
        replicas,
        topics,
        transactions,
    )
    from ottla.client.producer.transactions.prepared import PreparedTransaction
else:
    # Each call needs one or two of these, and a command line that lists topics should not pay for all of them.
    access, cluster, configs, copies, credentials, groups, offsets, quotas, replicas, topics, transactions = map(
        loaded_when_used,
        (
            "access",
            "cluster",
            "configs",
            "copies",
            "credentials",
            "groups",
            "offsets",
            "quotas",
            "replicas",
            "topics",
            "transactions",
        ),
    )

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class AdminCalls(GroupKinds):
    """Questions and orders to a cluster; whoever inherits them carries out plans."""

    _settings: AdminSettings
    _random_bytes: Callable[[int], bytes]

    # --- topics ---

    async def create_topics(
        self,
        topics_to_create: Iterable[topics.NewTopic | str],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, topics.CreatedTopic]:
        """Make topics; a plain name gets the cluster's defaults. With validate_only it is only tried out."""
        named = new_topics(topics_to_create)
        plan = topics.CreateTopics(named, validate_only)
        failed: dict[str, OttlaError] = {}
        try:
            made = await self._carry_out(plan, named, timeout)
        except PartlyFailed as error:
            made, failed = error.succeeded, error.failed
        for name, cause in plan.presumed_names.items():
            try:
                made[name] = await self._made_by_us(named[name], cause, timeout)
            except OttlaError as error:
                del made[name]
                failed[name] = error
        raise_failed({name: failed.get(name) for name in named}, made)
        return made

    async def delete_topics(self, names: Iterable[str], *, timeout: float | None = None) -> None:
        """Delete topics by name."""
        await self._carry_out(topics.DeleteTopics(), several(names), timeout)

    async def delete_topics_by_id(self, topic_ids: Iterable[bytes], *, timeout: float | None = None) -> None:
        """Delete topics by id, so that one made again under the same name is not hit."""
        await self._carry_out(topics.DeleteTopicsById(), several(topic_ids), timeout)

    async def list_topics(
        self, *, include_internal: bool = False, timeout: float | None = None
    ) -> dict[str, topics.TopicListing]:
        """All topics by name."""
        return await self._ask(topics.ListTopics(include_internal), timeout)

    async def describe_topics(
        self,
        names: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        partitions_per_page: int | None = None,
        timeout: float | None = None,
    ) -> dict[str, topics.TopicDescription]:
        """Topics with their partitions, leaders and replicas; many partitions come in several answers."""
        wanted = several(names)
        if include_authorized_operations:
            return await self._carry_out(topics.DescribeTopics(True), wanted, timeout)
        try:
            return await self._describe_in_pages(wanted, timeout, partitions_per_page or topics.PAGE_PARTITIONS)
        except UnsupportedVersion:
            return await self._carry_out(topics.DescribeTopics(), wanted, timeout)

    async def describe_topics_by_id(
        self, topic_ids: Iterable[bytes], *, include_authorized_operations: bool = False, timeout: float | None = None
    ) -> dict[bytes, topics.TopicDescription]:
        """The same by topic id."""
        return await self._carry_out(
            topics.DescribeTopicsById(include_authorized_operations), several(topic_ids), timeout
        )

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Grow topics to so many partitions in all; `assignments` names the brokers of the new ones."""
        for name, count in by_name(counts, "counts of partitions by topic").items():
            whole_number(count, f"the number of partitions of {name}")
        plan = topics.CreatePartitions(counts, assignments or {}, validate_only)
        await self._carry_out(plan, counts, timeout)

    async def delete_records(
        self, before_offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete everything before an offset (-1: everything); returns the offsets the partitions begin with now."""
        borders = by_partition(before_offsets, lambda offset: whole_number(offset, "an offset"))
        return await self._carry_out(topics.DeleteRecords(borders), borders, timeout)

    async def list_offsets(
        self,
        places: Mapping[TopicPartition, offsets.Place],
        *,
        isolation_level: offsets.IsolationLevel = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets of named places or of times (milliseconds); -1 where no record is that late."""
        wanted = by_partition(places, offsets.place_of)
        return await self._carry_out(offsets.ListOffsets(wanted, isolation_level), wanted, timeout)

    # --- settings ---

    async def describe_configs(
        self,
        resources: Iterable[configs.ConfigResource],
        *,
        names: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[configs.ConfigResource, dict[str, configs.ConfigEntry]]:
        """Settings in effect, with where they come from."""
        plan = configs.DescribeConfigs(names, include_synonyms, include_documentation)
        return await self._carry_out(plan, config_resources(resources), timeout)

    async def incremental_alter_configs(
        self,
        changes: Mapping[configs.ConfigResource, Sequence[configs.AlterConfig]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change the settings that are named and no others."""
        config_resources(by_name(changes, "changes by ConfigResource"))
        await self._carry_out(configs.IncrementalAlterConfigs(changes, validate_only), changes, timeout)

    async def alter_configs(
        self,
        settings: Mapping[configs.ConfigResource, Mapping[str, str]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Replace all settings of a resource; what is not named goes back to its default. Kept for old brokers."""
        config_resources(by_name(settings, "settings by ConfigResource"))
        await self._carry_out(configs.AlterConfigs(settings, validate_only), settings, timeout)

    async def list_config_resources(
        self, types: Sequence[configs.ConfigResourceType] = (), *, timeout: float | None = None
    ) -> list[configs.ConfigResource]:
        """Which resources of these types have settings of their own."""
        return await self._ask(configs.ListConfigResources(types), timeout)

    async def list_client_metrics_resources(self, *, timeout: float | None = None) -> list[str]:
        """The names of client metrics subscriptions."""
        found = await self.list_config_resources([configs.ConfigResourceType.CLIENT_METRICS], timeout=timeout)
        return [each.name for each in found]

    # --- the cluster ---

    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> cluster.ClusterDescription:
        """The brokers, the controller and the cluster's id."""
        plan = cluster.DescribeCluster(include_authorized_operations, include_fenced_brokers)
        return await self._ask(plan, timeout)

    async def describe_features(
        self, *, broker: int | None = None, timeout: float | None = None
    ) -> cluster.FeatureMetadata:
        """What the cluster has decided on, and what any broker, or this one, could do."""
        if broker is None:
            return await self._ask(cluster.DescribeFeatures(), timeout)
        return (await self._carry_out(cluster.DescribeFeaturesOf(), [broker], timeout))[broker]

    async def update_features(
        self,
        updates: Mapping[str, cluster.FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Decide on levels of features."""
        await self._carry_out(cluster.UpdateFeatures(updates, validate_only), updates, timeout)

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Sequence[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> dict[int, dict[str, cluster.LogDirDescription]]:
        """The log directories of brokers (all, unless named) and what is in them."""
        wanted = await self._broker_ids(timeout) if brokers is None else brokers
        return await self._carry_out(cluster.DescribeLogDirs(partitions), wanted, timeout)

    async def describe_replica_log_dirs(
        self, replicas_wanted: Iterable[cluster.Replica], *, timeout: float | None = None
    ) -> dict[cluster.Replica, cluster.ReplicaLogDirs]:
        """In which directories copies of partitions are, and to which they are moving."""
        wanted = several(replicas_wanted)
        found = await self.describe_log_dirs({each.broker for each in wanted}, timeout=timeout)
        return {each: cluster.directories_of(each, found[each.broker]) for each in wanted}

    async def alter_replica_log_dirs(
        self, directories: Mapping[cluster.Replica, str], *, timeout: float | None = None
    ) -> None:
        """Move copies of partitions into other directories of their brokers."""
        await self._carry_out(cluster.AlterReplicaLogDirs(directories), directories, timeout)

    async def describe_api_versions(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, list[copies.ApiRange]]:
        """Which versions of which APIs brokers (all, unless named) speak."""
        wanted = await self._broker_ids(timeout) if brokers is None else brokers
        return await self._carry_out(copies.DescribeApiVersions(), wanted, timeout)

    async def read_copies(
        self,
        offsets: Mapping[copies.Copy, int],
        topic_ids: Mapping[str, bytes],
        *,
        max_bytes: int = 1 << 20,
        timeout: float | None = None,
    ) -> dict[copies.Copy, copies.CopyPart]:
        """Record batches from these offsets on, each from the replica that is named."""
        return await self._carry_out(copies.ReadCopies(offsets, topic_ids, max_bytes), offsets, timeout)

    async def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        """Forget a broker that will not come back; only KRaft clusters remember them."""
        await self._ask(cluster.UnregisterBroker(broker), timeout)

    async def describe_metadata_quorum(self, *, timeout: float | None = None) -> cluster.QuorumInfo:
        """Who keeps the metadata of the cluster, and how far each of them is."""
        return await self._ask(cluster.DescribeQuorum(), timeout)

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: replicas.ElectionType | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OttlaError | None]:
        """Let the preferred leaders be elected, for all partitions unless some are named; what became of each."""
        wanted = None if partitions is None else list(partitions)
        kind = replicas.ElectionType.PREFERRED if election_type is None else election_type
        return await self._ask(replicas.ElectLeaders(kind, wanted), timeout)

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Give partitions to other brokers; None takes a move back that is going on."""
        plan = replicas.AlterReassignments(reassignments, allow_replication_factor_change)
        await self._carry_out(plan, reassignments, timeout)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, replicas.PartitionReassignment]:
        """Moves that are going on."""
        wanted = None if partitions is None else list(partitions)
        return await self._ask(replicas.ListReassignments(wanted), timeout)

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

    # --- access ---

    async def describe_acls(
        self, acl_filter: access.AclFilter | None = None, *, timeout: float | None = None
    ) -> list[access.AclBinding]:
        """The access rules that a filter lets through; all of them without one."""
        return await self._ask(access.DescribeAcls(acl_filter or access.AclFilter()), timeout)

    async def create_acls(self, bindings: Iterable[access.AclBinding], *, timeout: float | None = None) -> None:
        """Add access rules."""
        await self._carry_out(access.CreateAcls(), bindings, timeout)

    async def delete_acls(
        self, filters: Iterable[access.AclFilter], *, timeout: float | None = None
    ) -> dict[access.AclFilter, list[access.AclBinding]]:
        """Take access rules away; returns those that each filter hit."""
        return await self._carry_out(access.DeleteAcls(), filters, timeout)

    async def describe_client_quotas(
        self, filters: Sequence[quotas.QuotaFilter] = (), *, strict: bool = False, timeout: float | None = None
    ) -> dict[quotas.EntityKey, dict[str, float]]:
        """Quotas of the entities that the filters let through."""
        return await self._ask(quotas.DescribeQuotas(filters, strict), timeout)

    async def alter_client_quotas(
        self,
        changes: Iterable[tuple[quotas.QuotaEntity, Mapping[str, float | None]]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set quotas of entities such as {"user": "alice"}; None takes one away."""
        wanted = {quotas.key_of(entity): limits for entity, limits in changes}
        await self._carry_out(quotas.AlterQuotas(wanted, validate_only), wanted, timeout)

    async def describe_user_scram_credentials(
        self, users: Sequence[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, tuple[credentials.ScramCredentialInfo, ...]]:
        """Which users have SCRAM passwords, and of which kind; all of them unless some are named."""
        if users is None:
            return await self._ask(credentials.DescribeAllScramCredentials(), timeout)
        return await self._carry_out(credentials.DescribeScramCredentials(), several(users), timeout)

    async def alter_user_scram_credentials(
        self, changes: Iterable[credentials.ScramUpsertion | credentials.ScramDeletion], *, timeout: float | None = None
    ) -> None:
        """Give users SCRAM passwords or take them away."""
        wanted = list(changes)
        plan = credentials.AlterScramCredentials(wanted, self._random_bytes)
        await self._carry_out(plan, [each.user for each in wanted], timeout)

    async def create_delegation_token(
        self,
        *,
        renewers: Sequence[credentials.Principal] = (),
        owner: credentials.Principal | None = None,
        max_lifetime_ms: int = -1,
        timeout: float | None = None,
    ) -> credentials.DelegationToken:
        """A token that can be used instead of a password for a while."""
        return await self._ask(credentials.CreateToken(renewers, owner, max_lifetime_ms), timeout)

    async def renew_delegation_token(self, hmac: bytes, *, period_ms: int = -1, timeout: float | None = None) -> int:
        """Let a token live longer; returns its new time of expiry."""
        return await self._ask(credentials.RenewToken(hmac, period_ms), timeout)

    async def expire_delegation_token(self, hmac: bytes, *, period_ms: int = -1, timeout: float | None = None) -> int:
        """Let a token end, at once unless a period is given; returns its time of expiry."""
        return await self._ask(credentials.ExpireToken(hmac, period_ms), timeout)

    async def describe_delegation_tokens(
        self, owners: Sequence[credentials.Principal] | None = None, *, timeout: float | None = None
    ) -> list[credentials.DelegationToken]:
        """Tokens of these owners, or all that we may see."""
        return await self._ask(credentials.DescribeTokens(owners), timeout)

    # --- small parts ---

    async def _find_coordinator(self, group_id: str, timeout: float | None) -> None:
        """Have the coordinator of a group looked up, whoever it is."""
        raise NotImplementedError

    async def _ask(self, question: Question[V], timeout: float | None) -> V:
        return (await self._carry_out(question, [None], timeout))[None]

    def _timeout_ms(self, timeout: float | None) -> float:
        return float(self._settings.call_timeout_ms) if timeout is None else timeout * 1000

    async def _broker_ids(self, timeout: float | None) -> list[int]:
        return [node.id for node in (await self.describe_cluster(timeout=timeout)).nodes]

    async def _made_by_us(
        self, wanted: topics.NewTopic, error: OttlaError, timeout: float | None
    ) -> topics.CreatedTopic:
        """A topic that is there after the answer to our first request was lost: ours, if it is what we asked for."""
        there = (await self.describe_topics([wanted.name], timeout=timeout))[wanted.name]
        resource = configs.ConfigResource(configs.ConfigResourceType.TOPIC, wanted.name)
        entries = (await self.describe_configs([resource], timeout=timeout))[resource]
        settings = {name: entry.value for name, entry in entries.items()}
        other = topics.difference(wanted, there, settings)
        if other is not None:
            raise TopicAlreadyExists(f"{wanted.name}, and {other}, so it is not the one of this call") from error
        copies = len(there.partitions[0].replicas)
        return topics.CreatedTopic(wanted.name, there.topic_id, len(there.partitions), copies, settings)

    async def _describe_in_pages(
        self, names: Sequence[str], timeout: float | None, limit: int
    ) -> dict[str, topics.TopicDescription]:
        found: dict[str, topics.TopicDescription | OttlaError] = {}
        cursor: Any = None
        left: Collection[str] = names
        while left:
            page, cursor = await self._ask(topics.TopicPage(list(left), cursor, limit), timeout)
            for name, each in page:
                before = found.get(name)
                if isinstance(before, topics.TopicDescription) and isinstance(each, topics.TopicDescription):
                    each = topics.joined(before, each)
                found[name] = each
            left = [] if cursor is None else [name for name in left if name >= cursor.topic_name]
        failed = {name: each for name, each in found.items() if isinstance(each, OttlaError)}
        described = {
            name: found_one for name in names if isinstance(found_one := found.get(name), topics.TopicDescription)
        }
        if failed and len(names) == 1:
            raise next(iter(failed.values()))
        if failed:
            raise PartlyFailed(described, failed)
        return described

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
