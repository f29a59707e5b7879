"""Topics: make, delete, list, describe, grow, and cut off their old records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.plans import Plan, Question, Route, by_topic, error_of
from ottla.errors import OttlaError, TopicAlreadyExists, UnknownTopicId, UnknownTopicOrPartition
from ottla.light_dataclasses import dataclass, field
from ottla.protocol.messages import metadata as wire
from ottla.protocol.schema import Message
from ottla.values import ZERO_UUID, TopicPartition

if TYPE_CHECKING:  # commands that only list topics do not load them
    from ottla.protocol.messages import create_partitions, create_topics, delete_records

PAGE_PARTITIONS = 2000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made. Without partitions or replication factor the cluster's defaults count."""

    name: str
    num_partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    """Brokers for each partition, the preferred leader first; instead of the two numbers."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What was made; numbers and settings are None on brokers that do not tell."""

    name: str
    topic_id: bytes | None
    num_partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str | None] | None


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in a list."""

    name: str
    topic_id: bytes | None
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition: who leads it and who has copies."""

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()
    eligible_leaders: tuple[int, ...] | None = None
    last_known_eligible_leaders: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions in order."""

    name: str
    topic_id: bytes | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


# --- make and delete -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CreateTopics(Plan[str, CreatedTopic]):
    route = Route.CONTROLLER

    presumed_done_after = (TopicAlreadyExists,)

    topics: Mapping[str, NewTopic]
    validate_only: bool = False
    presumed_names: dict[str, OttlaError] = field(default_factory=dict)
    """Topics that are there after a lost answer: ours, if they are what was asked for."""

    def target(self, key: str) -> None:
        return None

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        from ottla.protocol.messages import create_topics

        return create_topics.CreateTopicsRequest(
            topics=[_creatable(self.topics[name]) for name in keys],
            timeout_ms=timeout_ms,
            validate_only=self.validate_only,
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, CreatedTopic | OttlaError]]:
        for each in response.topics:
            yield each.name, error_of(each) or _created(each)

    def presumed(self, key: str, error: OttlaError) -> CreatedTopic:
        self.presumed_names[key] = error
        return CreatedTopic(key, None, None, None, None)


def _creatable(topic: NewTopic) -> create_topics.CreatableTopic:
    from ottla.protocol.messages import create_topics

    assignments = [
        create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
        for index, brokers in (topic.replica_assignments or {}).items()
    ]
    return create_topics.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.num_partitions is None else topic.num_partitions,
        replication_factor=-1 if topic.replication_factor is None else topic.replication_factor,
        assignments=assignments,
        configs=[
            create_topics.CreatableTopicConfig(name=key, value=str(value)) for key, value in topic.configs.items()
        ],
    )


def _created(each: Any) -> CreatedTopic:
    configs = None if each.configs is None else {config.name: config.value for config in each.configs}
    return CreatedTopic(
        name=each.name,
        topic_id=_id_or_none(each.topic_id),
        num_partitions=None if each.num_partitions < 0 else each.num_partitions,
        replication_factor=None if each.replication_factor < 0 else each.replication_factor,
        configs=configs,
    )


def difference(wanted: NewTopic, there: TopicDescription, configs: Mapping[str, str | None]) -> str | None:
    """What a topic that is there has otherwise than one that was asked for; None when it is what was asked for."""
    brokers = {each.partition: list(each.replicas) for each in there.partitions}
    assigned = {index: list(each) for index, each in (wanted.replica_assignments or {}).items()}
    if assigned and assigned != brokers:
        return f"its replicas are {brokers}"
    if wanted.num_partitions not in (None, -1, len(brokers)):
        return f"its number of partitions is {len(brokers)}"
    if wanted.replication_factor not in (None, -1, *map(len, brokers.values())):
        return f"its replication factor is {len(brokers[0])}"
    for name, value in wanted.configs.items():
        if configs.get(name) != str(value):
            return f"its {name} is {configs.get(name)}"
    return None


@dataclass(frozen=True)
class DeleteTopics(Plan[str, None]):
    route = Route.CONTROLLER
    presumed_done_after = (UnknownTopicOrPartition,)

    def presumed(self, key: str, error: OttlaError) -> None:
        """It is gone, as was asked."""

    def target(self, key: str) -> None:
        return None

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        from ottla.protocol.messages import delete_topics

        states = [delete_topics.DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in keys]
        return delete_topics.DeleteTopicsRequest(topics=states, topic_names=list(keys), timeout_ms=timeout_ms)

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, OttlaError | None]]:
        for each in response.responses:
            yield each.name or "", error_of(each)


@dataclass(frozen=True)
class DeleteTopicsById(Plan[bytes, None]):
    route = Route.CONTROLLER
    presumed_done_after = (UnknownTopicId,)

    def presumed(self, key: bytes, error: OttlaError) -> None:
        """It is gone, as was asked."""

    def request(self, keys: Sequence[bytes], timeout_ms: int) -> Message:
        from ottla.protocol.messages import delete_topics

        states = [delete_topics.DeleteTopicState(name=None, topic_id=topic_id) for topic_id in keys]
        return delete_topics.DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

    def results(self, keys: Sequence[bytes], response: Any) -> Iterator[tuple[bytes, OttlaError | None]]:
        for each in response.responses:
            yield each.topic_id, error_of(each)


@dataclass(frozen=True)
class CreatePartitions(Plan[str, None]):
    route = Route.CONTROLLER

    counts: Mapping[str, int]
    assignments: Mapping[str, Sequence[Sequence[int]]]
    validate_only: bool = False

    def target(self, key: str) -> None:
        return None

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        from ottla.protocol.messages import create_partitions

        topics = [
            create_partitions.CreatePartitionsTopic(
                name=name, count=self.counts[name], assignments=self._assignments(name)
            )
            for name in keys
        ]
        return create_partitions.CreatePartitionsRequest(
            topics=topics, timeout_ms=timeout_ms, validate_only=self.validate_only
        )

    def _assignments(self, name: str) -> list[create_partitions.CreatePartitionsAssignment] | None:
        from ottla.protocol.messages import create_partitions

        if name not in self.assignments:
            return None
        return [create_partitions.CreatePartitionsAssignment(broker_ids=list(ids)) for ids in self.assignments[name]]

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, OttlaError | None]]:
        for each in response.results:
            yield each.name, error_of(each)


# --- list and describe -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListTopics(Question[dict[str, TopicListing]]):
    include_internal: bool = False

    def ask(self, timeout_ms: int) -> Message:
        return wire.MetadataRequest(topics=None, allow_auto_topic_creation=False)

    def answer(self, response: Any) -> dict[str, TopicListing]:
        listings = (TopicListing(each.name, _id_or_none(each.topic_id), each.is_internal) for each in response.topics)
        return {each.name: each for each in listings if self.include_internal or not each.is_internal}


@dataclass(frozen=True)
class DescribeTopics(Plan[str, TopicDescription]):
    """By Metadata, which every broker has."""

    include_authorized_operations: bool = False

    def target(self, key: str) -> None:
        return None

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return wire.MetadataRequest(
            topics=[wire.MetadataRequestTopic(name=name) for name in keys],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=self.include_authorized_operations,
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, TopicDescription | OttlaError]]:
        for each in response.topics:
            yield each.name, error_of(each) or described(each, each.partitions)


@dataclass(frozen=True)
class DescribeTopicsById(Plan[bytes, TopicDescription]):
    include_authorized_operations: bool = False

    def request(self, keys: Sequence[bytes], timeout_ms: int) -> Message:
        return wire.MetadataRequest(
            topics=[wire.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in keys],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=self.include_authorized_operations,
        )

    def results(self, keys: Sequence[bytes], response: Any) -> Iterator[tuple[bytes, TopicDescription | OttlaError]]:
        for each in response.topics:
            yield each.topic_id, error_of(each) or described(each, each.partitions)


@dataclass(frozen=True)
class TopicPage(Question["tuple[list[tuple[str, TopicDescription | OttlaError]], Any]"]):
    """One page of DescribeTopicPartitions, which also knows the eligible leaders; returns the cursor of the next."""

    names: Sequence[str]
    cursor: Any = None
    limit: int = PAGE_PARTITIONS

    def ask(self, timeout_ms: int) -> Message:
        from ottla.protocol.messages import describe_topic_partitions as paged

        topics = [paged.TopicRequest(name=name) for name in sorted(self.names)]
        return paged.DescribeTopicPartitionsRequest(
            topics=topics, response_partition_limit=self.limit, cursor=self.cursor
        )

    def answer(self, response: Any) -> tuple[list[tuple[str, TopicDescription | OttlaError]], Any]:
        found = [(each.name, error_of(each) or described(each, each.partitions)) for each in response.topics]
        return found, response.next_cursor


def joined(first: TopicDescription, more: TopicDescription) -> TopicDescription:
    """A topic whose partitions came on two pages."""
    known = {each.partition: each for each in (*first.partitions, *more.partitions)}
    partitions = tuple(known[index] for index in sorted(known))
    return TopicDescription(first.name, first.topic_id, first.is_internal, partitions, first.authorized_operations)


def described(topic: Any, partitions: Sequence[Any]) -> TopicDescription:
    """A topic of Metadata or DescribeTopicPartitions as a value."""
    return TopicDescription(
        name=topic.name,
        topic_id=_id_or_none(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=tuple(_partition(each) for each in sorted(partitions, key=lambda each: each.partition_index)),
        authorized_operations=operations_of(topic.topic_authorized_operations),
    )


def _partition(each: Any) -> PartitionDescription:
    eligible = getattr(each, "eligible_leader_replicas", None)
    last_known = getattr(each, "last_known_elr", None)
    return PartitionDescription(
        partition=each.partition_index,
        leader=None if each.leader_id < 0 else each.leader_id,
        leader_epoch=None if each.leader_epoch < 0 else each.leader_epoch,
        replicas=tuple(each.replica_nodes),
        in_sync=tuple(each.isr_nodes),
        offline=tuple(each.offline_replicas),
        eligible_leaders=None if eligible is None else tuple(eligible),
        last_known_eligible_leaders=None if last_known is None else tuple(last_known),
    )


def _id_or_none(topic_id: bytes) -> bytes | None:
    return None if topic_id == ZERO_UUID else topic_id


# --- cut off ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeleteRecords(Plan[TopicPartition, int]):
    """Everything before an offset goes; -1 is the end. Returns where the partition begins now."""

    route = Route.LEADER
    final = ()  # a leader that was just elected may not know its partition yet

    before_offsets: Mapping[TopicPartition, int]

    def request(self, keys: Sequence[TopicPartition], timeout_ms: int) -> Message:
        from ottla.protocol.messages import delete_records

        topics = [
            delete_records.DeleteRecordsTopic(name=topic, partitions=[self._partition(topic, each) for each in indexes])
            for topic, indexes in by_topic(keys).items()
        ]
        return delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)

    def _partition(self, topic: str, index: int) -> delete_records.DeleteRecordsPartition:
        from ottla.protocol.messages import delete_records

        offset = self.before_offsets[TopicPartition(topic, index)]
        return delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)

    def results(
        self, keys: Sequence[TopicPartition], response: Any
    ) -> Iterator[tuple[TopicPartition, int | OttlaError]]:
        for topic in response.topics:
            for each in topic.partitions:
                yield TopicPartition(topic.name, each.partition_index), error_of(each) or each.low_watermark
