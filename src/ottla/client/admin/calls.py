"""The calls of the admin clients: one method per question or order, named as in Java's Admin.

1. Every call takes `timeout` in seconds (default.api.timeout.ms unless given), and ends by then.
2. What goes in and comes out are the values of this room; nothing of the wire shows.
3. A call makes plans and has them carried out; how that is done, and on which loop if any, is up to the class that
   inherits them (async_admin.py, direct_admin.py). Nothing here loads asyncio.

Here are the calls about topics, settings and the cluster. What coordinators are asked (groups, transactions) is in
coordinator_calls.py, who may what and how much in access_calls.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.client.admin.access_calls import AccessCalls
from ottla.client.admin.arguments import by_name, config_resources, new_topics, raise_failed, several
from ottla.client.admin.coordinator_calls import CoordinatorCalls
from ottla.client.admin.later import loaded_when_used
from ottla.client.admin.plans import PartlyFailed
from ottla.client.arguments import by_partition, whole_number
from ottla.errors import OttlaError, TopicAlreadyExists, UnknownTopicOrPartition, UnsupportedVersion
from ottla.values import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import cluster, configs, copies, offsets, replicas, topics
else:
    # Each call needs one or two of these, and a command line that lists topics should not pay for all of them.
    cluster, configs, copies, offsets, replicas, topics = map(
        loaded_when_used, ("cluster", "configs", "copies", "offsets", "replicas", "topics")
    )


KNOWN_SOON_MS: Final = 50.0
"""Until it is asked again for what a broker will hear of in a moment."""


class AdminCalls(CoordinatorCalls, AccessCalls):
    """Questions and orders to a cluster; whoever inherits them carries out plans."""

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

    async def add_raft_voter(
        self,
        voter: int,
        directory_id: bytes,
        endpoints: Sequence[cluster.QuorumEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Let a controller vote that follows the metadata log, and is reached there."""
        await self._ask(cluster.AddRaftVoter(voter, directory_id, endpoints, cluster_id), timeout)

    async def remove_raft_voter(
        self, voter: int, directory_id: bytes, *, cluster_id: str | None = None, timeout: float | None = None
    ) -> None:
        """Take the vote of a controller, with the directory that it votes with."""
        await self._ask(cluster.RemoveRaftVoter(voter, directory_id, cluster_id), timeout)

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

    # --- small parts ---

    async def _made_by_us(
        self, wanted: topics.NewTopic, error: OttlaError, timeout: float | None
    ) -> topics.CreatedTopic:
        """A topic that is there after the answer to our first request was lost: ours, if it is what we asked for. The
        controller knows it; whoever is asked may hear of it a moment later."""
        left_ms = self._timeout_ms(timeout)
        while True:
            try:
                there, settings = await self._described(wanted.name, max(left_ms, KNOWN_SOON_MS) / 1_000)
                break
            except UnknownTopicOrPartition:
                if left_ms <= 0:
                    raise
                left_ms -= KNOWN_SOON_MS
                await self._pause(KNOWN_SOON_MS)
        other = topics.difference(wanted, there, settings)
        if other is not None:
            raise TopicAlreadyExists(f"{wanted.name}, and {other}, so it is not the one of this call") from error
        copies = len(there.partitions[0].replicas)
        return topics.CreatedTopic(wanted.name, there.topic_id, len(there.partitions), copies, settings)

    async def _described(
        self, name: str, timeout: float | None
    ) -> tuple[topics.TopicDescription, Mapping[str, str | None]]:
        """A topic, and its settings."""
        there = (await self.describe_topics([name], timeout=timeout))[name]
        resource = configs.ConfigResource(configs.ConfigResourceType.TOPIC, name)
        entries = (await self.describe_configs([resource], timeout=timeout))[resource]
        return there, {name: entry.value for name, entry in entries.items()}

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
