"""The calls of AdminClient about groups and their offsets."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.admin.groups import GroupDescription
from ottla.client.admin.plans import PartlyFailed
from ottla.compat.confluent_kafka import admin_checks as check
from ottla.compat.confluent_kafka.cluster import BrokerMetadata
from ottla.compat.confluent_kafka.errors import exception_of
from ottla.compat.confluent_kafka.futures import Future, Futures
from ottla.compat.confluent_kafka.group_values import (
    STATE_NAMES,
    TYPE_NAMES,
    ConsumerGroupDescription,
    GroupMetadata,
    ListConsumerGroupsResult,
    coordinator_of,
    group_description,
    group_listing,
    group_metadata,
)
from ottla.compat.confluent_kafka.messages import OFFSET_INVALID, TopicPartition
from ottla.compat.confluent_kafka.model import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    Node,
)
from ottla.errors import GroupIdNotFound, OttlaError
from ottla.values import OffsetAndMetadata


class GroupCalls:
    """A part of AdminClient."""

    _ours: Admin
    _futures: Futures

    def _nodes(self, timeout: float | None) -> dict[int, Node]:
        raise NotImplementedError

    def list_consumer_groups(
        self,
        *,
        request_timeout: float | None = None,
        states: Collection[ConsumerGroupState] | None = None,
        types: Collection[ConsumerGroupType] | None = None,
    ) -> Future[ListConsumerGroupsResult]:
        wanted_states = _names(states, STATE_NAMES, "states", ConsumerGroupState)
        wanted_types = _names(types, TYPE_NAMES, "types", ConsumerGroupType)

        def call() -> ListConsumerGroupsResult:
            failed: list[Exception] = []
            try:
                found = self._ours.list_consumer_groups(
                    states=wanted_states, types=wanted_types, timeout=request_timeout
                )
            except PartlyFailed as error:
                found = [each for part in error.succeeded.values() for each in part]
                failed = [exception_of(each) for each in error.failed.values()]
            return ListConsumerGroupsResult([group_listing(each) for each in found], failed)

        return self._futures.one(call)

    def describe_consumer_groups(
        self,
        group_ids: list[str],
        *,
        include_authorized_operations: bool = False,
        request_timeout: float | None = None,
    ) -> dict[str, Future[ConsumerGroupDescription]]:
        check.names(group_ids, "group_ids")
        nodes: dict[int, Node] = {}

        def call() -> Any:
            nodes.update(self._nodes(request_timeout))
            try:
                return self._ours.describe_consumer_groups(
                    group_ids, include_authorized_operations=include_authorized_operations, timeout=request_timeout
                )
            except PartlyFailed as error:
                return self._with_dead(error.succeeded, error.failed)
            except OttlaError as error:
                return self._with_dead({}, dict.fromkeys(group_ids, error))

        return self._futures.each(group_ids, call, lambda found: group_description(found, nodes))

    def _with_dead(self, found: dict[str, GroupDescription], failed: dict[Any, Any]) -> dict[str, GroupDescription]:
        """A group that is not there is one in state DEAD, as librdkafka shows it; other failures stay failures."""
        network = self._ours._async._network
        for name in [name for name, error in failed.items() if isinstance(error, GroupIdNotFound)]:
            coordinator = self._ours._loop.run(network.coordinator("group", name))
            found[name] = GroupDescription(name, "classic", "Dead", "", (), coordinator.id, protocol_type="")
            del failed[name]
        if failed:
            raise PartlyFailed(found, failed)
        return found

    def delete_consumer_groups(
        self, group_ids: list[str], *, request_timeout: float | None = None
    ) -> dict[str, Future[None]]:
        check.names(group_ids, "group_ids")
        return self._futures.each(
            group_ids, lambda: self._ours.delete_consumer_groups(group_ids, timeout=request_timeout)
        )

    def list_consumer_group_offsets(
        self,
        list_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        require_stable: bool = False,
        request_timeout: float | None = None,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        asked = check.group_request(list_consumer_group_offsets_request, offsets=False)
        wanted = None if asked.topic_partitions is None else [each.ours for each in asked.topic_partitions]

        def call() -> Any:
            found = self._ours.list_consumer_group_offsets(
                asked.group_id, wanted, require_stable=require_stable, timeout=request_timeout
            )
            return {asked.group_id: found}

        def made(found: Any) -> ConsumerGroupTopicPartitions:
            partitions = [_committed(each, offset) for each, offset in found.items()]
            return ConsumerGroupTopicPartitions(asked.group_id, partitions)

        return self._futures.each([asked.group_id], call, made)

    def alter_consumer_group_offsets(
        self,
        alter_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        request_timeout: float | None = None,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        asked = check.group_request(alter_consumer_group_offsets_request, offsets=True)
        partitions = asked.topic_partitions or []
        wanted = {each.ours: OffsetAndMetadata(each.offset, each.metadata or "") for each in partitions}

        def call() -> None:
            self._ours.alter_consumer_group_offsets(asked.group_id, wanted, timeout=request_timeout)

        def made(_: Any) -> ConsumerGroupTopicPartitions:
            written = [TopicPartition(each.topic, each.partition, each.offset, each.metadata) for each in partitions]
            return ConsumerGroupTopicPartitions(asked.group_id, written)

        return self._futures.each([asked.group_id], call, made)

    def list_groups(self, group: str | None = None, timeout: float = -1) -> list[GroupMetadata]:
        """Groups with their members, of one name or all."""
        limit = None if timeout < 0 else timeout
        try:
            listed = [each.group_id for each in self._ours.list_groups(timeout=limit)]
            wanted = [each for each in listed if group is None or each == group]
            found = self._ours.describe_classic_groups(wanted, timeout=limit) if wanted else {}
            nodes = self._nodes(limit)
        except (OttlaError, TimeoutError) as error:
            raise exception_of(error) from None
        return [group_metadata(each, _broker(each, nodes)) for each in found.values()]


def _names(wanted: Any, known: dict[Any, str], what: str, kind: type) -> list[str]:
    if wanted is None:
        return []
    if not isinstance(wanted, set):
        raise TypeError(f"'{what}' must be a set")
    for each in wanted:
        if not isinstance(each, kind):
            raise TypeError(f"All elements of {what} must be of type {kind.__name__}")
    return [known[each] for each in sorted(wanted) if each in known]


def _committed(partition: Any, offset: OffsetAndMetadata | None) -> TopicPartition:
    if offset is None:
        return TopicPartition(partition.topic, partition.partition, OFFSET_INVALID)
    return TopicPartition(
        partition.topic, partition.partition, offset.offset, offset.metadata or None, offset.leader_epoch
    )


def _broker(found: GroupDescription, nodes: dict[int, Node]) -> BrokerMetadata | None:
    node = coordinator_of(found, nodes)
    return None if node is None else BrokerMetadata(node.id, node.host, node.port)
