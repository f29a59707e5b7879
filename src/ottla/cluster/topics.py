"""Plans for CreateTopics and DeleteTopics.

1. Every topic stands for itself: a bad one is answered with its error and the others are made. Only a request for
   more than PARTITIONS_LIMIT partitions is refused as a whole, before anything large is built.
2. The order of checks is Kafka's, because clients see which error comes first: names, collisions, existence,
   settings, counts, assignments, policy, quota.
3. A topic named twice in one request is made not even once, because nobody can know which of the two is meant.
4. Topics of one request that set the same have the same settings, so these are checked and described once: it was most
   of the work of a request for a thousand topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Final

from ottla.cluster.changes import AlterConfig, Change, CreateTopic, RemoveTopic
from ottla.cluster.config_layers import ConfigRules, ConfigSource, levels_of_topic_setting, topic_defaults
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ConfigResource, Partition, ResourceType, Topic
from ottla.cluster.partition_room import PartitionRoom
from ottla.cluster.placement import check_assignment, new_partition, place
from ottla.cluster.plan import FINE, Plan, refusal, repeated
from ottla.cluster.topic_names import CLUSTER_METADATA, check_name, collision_key
from ottla.errors import (
    BrokerError,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    PolicyViolation,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest
from ottla.storage.settings import TopicSettings
from ottla.values import ZERO_UUID, random_uuid

PARTITIONS_LIMIT: Final = 10_000
DEFAULT: Final = -1


class NewTopic(NamedTuple):
    """What a policy sees: counts, or the assignment of the request."""

    name: str
    partitions: int | None
    replication_factor: int | None
    assignment: Mapping[int, tuple[int, ...]] | None
    configs: Mapping[str, str]


@dataclass(frozen=True)
class TopicRules:
    """What plans about topics must know of this broker.

    `policy` raises PolicyViolation for a topic that shall not be. `use_quota` is asked for every number of partitions
    that comes or goes and raises ThrottlingQuotaExceeded when somebody makes too many. `room` is of one request.
    """

    configs: ConfigRules
    default_partitions: int = 1
    default_replication_factor: int = 1
    deletion_enabled: bool = True
    policy: Callable[[NewTopic], None] | None = None
    use_quota: Callable[[int], None] | None = None
    room: PartitionRoom | None = None

    def check_room(self, partitions: Sequence[Partition]) -> None:
        if self.room is not None:
            self.room.take(partitions)

    def check_quota(self, partitions: int) -> None:
        if self.use_quota is not None:
            self.use_quota(partitions)


# --- creating --------------------------------------------------------------------------------------------------------


def create_topics(
    image: ClusterImage,
    request: CreateTopicsRequest,
    rules: TopicRules,
    random: Random,
) -> Plan[CreatableTopicResult]:
    """Make topics."""
    _check_total(request, rules)
    twice = repeated(topic.name for topic in request.topics)
    settings = _SettingsOfNew(image, rules.configs)
    changes: list[Change] = []
    answers: list[CreatableTopicResult] = []
    for topic in request.topics:
        if topic.name not in twice:
            made, answer = _create(image, topic, rules, random, settings)
            changes += made
            answers.append(answer)
    error = InvalidRequest("the topic is named more than once in the request")
    answers += [_refused(name, error) for name in sorted(twice)]
    plan = Plan(tuple(changes), answers)
    return plan.only_checked() if request.validate_only else plan


def _check_total(request: CreateTopicsRequest, rules: TopicRules) -> None:
    total = sum(_count(topic, rules) for topic in request.topics)
    if total > PARTITIONS_LIMIT:
        raise PolicyViolation(f"{total} partitions in one request are too many; the limit is {PARTITIONS_LIMIT}")


def _count(topic: CreatableTopic, rules: TopicRules) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return rules.default_partitions if topic.num_partitions == DEFAULT else max(0, topic.num_partitions)


def _create(
    image: ClusterImage, requested: CreatableTopic, rules: TopicRules, random: Random, settings: _SettingsOfNew
) -> tuple[list[Change], CreatableTopicResult]:
    try:
        _check_new_name(image, requested.name)
        configs = _checked_configs(requested, rules, settings)
        partitions = _partitions(image, requested, configs, rules, random)
        rules.check_quota(len(partitions))
        rules.check_room(partitions)
    except BrokerError as error:
        return [], _refused(requested.name, error)
    topic = Topic(requested.name, random_uuid(random.randbytes), tuple(partitions))
    changes: list[Change] = [CreateTopic(topic)]
    if configs:
        changes.append(AlterConfig(ConfigResource(ResourceType.TOPIC, topic.name), tuple(configs.items())))
    return changes, _made(topic, settings.described(configs))


def _refused(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, **refusal(error))


def _check_new_name(image: ClusterImage, name: str) -> None:
    if name == CLUSTER_METADATA:
        raise InvalidRequest(f"creation of internal topic {name} is prohibited")
    check_name(name)
    if image.topic(name) is not None:
        raise TopicAlreadyExists(f"topic '{name}' already exists")
    key = collision_key(name)
    colliding: Sequence[str] = () if key is None else image.colliding_names.get(key, ())
    if colliding:
        raise InvalidTopicException(f"topic '{name}' collides with existing topic: {colliding[0]}")


def _checked_configs(requested: CreatableTopic, rules: TopicRules, settings: _SettingsOfNew) -> dict[str, str]:
    if nulls := [config.name for config in requested.configs if config.value is None]:
        raise InvalidConfig(f"null value not supported for topic configs: {', '.join(nulls)}")
    configs = {config.name: config.value for config in requested.configs if config.value is not None}
    settings.of(configs)
    if configs and rules.configs.policy is not None:
        rules.configs.policy(ConfigResource(ResourceType.TOPIC, requested.name), configs)
    return configs


def _partitions(
    image: ClusterImage, requested: CreatableTopic, configs: dict[str, str], rules: TopicRules, random: Random
) -> list[Partition]:
    if requested.assignments:
        assignment = _checked_assignment(image, requested)
        _ask_policy(rules, NewTopic(requested.name, None, None, assignment, configs))
        return [_assigned(image, index, assignment[index]) for index in range(len(assignment))]
    count, factor = _checked_counts(requested, rules)
    placed = [_placed(image, replicas) for replicas in place(image, count, factor, random)]
    _ask_policy(rules, NewTopic(requested.name, count, factor, None, configs))
    return placed


def _checked_counts(requested: CreatableTopic, rules: TopicRules) -> tuple[int, int]:
    if requested.replication_factor < DEFAULT or requested.replication_factor == 0:
        raise InvalidReplicationFactor("the replication factor must be larger than 0, or -1 to use the default value")
    if requested.num_partitions < DEFAULT or requested.num_partitions == 0:
        raise InvalidPartitions("the number of partitions must be larger than 0, or -1 to use the default value")
    factor = requested.replication_factor
    return _count(requested, rules), rules.default_replication_factor if factor == DEFAULT else factor


def _checked_assignment(image: ClusterImage, requested: CreatableTopic) -> dict[int, tuple[int, ...]]:
    if requested.replication_factor != DEFAULT:
        raise InvalidRequest("an assignment was given, but the replication factor was not set to -1")
    if requested.num_partitions != DEFAULT:
        raise InvalidRequest("an assignment was given, but the number of partitions was not set to -1")
    assignment: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for each in requested.assignments:
        if each.partition_index in assignment:
            raise InvalidReplicaAssignment(f"partition {each.partition_index} has more than one assignment")
        check_assignment(image, each.broker_ids, factor)
        factor = len(each.broker_ids)
        assignment[each.partition_index] = tuple(each.broker_ids)
    if sorted(assignment) != list(range(len(assignment))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    for index, replicas in assignment.items():
        _assigned(image, index, replicas)
    return assignment


def _assigned(image: ClusterImage, index: int, replicas: Sequence[int]) -> Partition:
    partition = new_partition(image, replicas)
    if partition is None:
        raise InvalidReplicaAssignment(f"all brokers of partition {index} are fenced or in controlled shutdown")
    return partition


def _placed(image: ClusterImage, replicas: Sequence[int]) -> Partition:
    partition = new_partition(image, replicas)
    if partition is None:
        raise InvalidReplicationFactor("all brokers are currently fenced or in controlled shutdown")
    return partition


def _ask_policy(rules: TopicRules, topic: NewTopic) -> None:
    if rules.policy is not None:
        rules.policy(topic)


def _made(topic: Topic, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        **FINE,
        num_partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        configs=configs,
    )


class _SettingsOfNew:
    """What the topics of one request have by what they set, worked out once for those that set the same."""

    def __init__(self, image: ClusterImage, rules: ConfigRules) -> None:
        self._image = image
        self._rules = rules
        self._defaults: TopicSettings | None = None
        self._found: dict[tuple[tuple[str, str], ...], TopicSettings] = {}
        self._described: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def of(self, configs: Mapping[str, str]) -> TopicSettings:
        """InvalidConfig when a topic cannot have these values."""
        found = self._found.get(key := tuple(configs.items()))
        if found is None:
            self._defaults = self._defaults or topic_defaults(self._image, self._rules)
            found = self._found[key] = self._defaults.for_topic(configs)
        return found

    def described(self, configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """As the answer has them. Those who set the same share the list; nobody changes it."""
        found = self._described.get(key := tuple(configs.items()))
        if found is None:
            found = self._described[key] = _described_configs(self._image, self.of(configs), configs, self._rules)
        return found


def _described_configs(
    image: ClusterImage, settings: TopicSettings, configs: Mapping[str, str], rules: ConfigRules
) -> list[CreatableTopicConfigs]:
    described, values = [], settings.as_dict()
    for each in sorted(settings.declared(), key=lambda each: each.name):
        value = values[each.name]
        levels = levels_of_topic_setting(image, each, configs, rules)
        if each.name.startswith("internal.") and each.name not in configs:
            continue
        described.append(
            CreatableTopicConfigs(
                name=each.name,
                value=None if each.sensitive or value is None else each.text(value),
                read_only=False,
                config_source=levels[0].source if levels else ConfigSource.DEFAULT,
                is_sensitive=each.sensitive,
            )
        )
    return described


# --- deleting --------------------------------------------------------------------------------------------------------


class _Named(NamedTuple):
    """How a topic was named: by its name, or by its id."""

    name: str | None
    id: bytes


def delete_topics(
    image: ClusterImage, request: DeleteTopicsRequest, rules: TopicRules, *, version: int
) -> Plan[DeletableTopicResult]:
    """Remove topics by name or id. When deletion is off, the whole request is."""
    if not rules.deletion_enabled:
        raise TopicDeletionDisabled if version >= 3 else InvalidRequest("this version does not support topic deletion")
    named = [_Named(name, ZERO_UUID) for name in request.topic_names]
    named += [_Named(topic.name, topic.topic_id) for topic in request.topics]
    twice = repeated(named)
    seen: set[bytes] = set()
    changes: list[Change] = []
    answers: list[DeletableTopicResult] = []
    for each in dict.fromkeys(named):
        try:
            topic = _deleted(image, each, twice, seen)
            rules.check_quota(len(topic.partitions))
            changes.append(RemoveTopic(topic.id))
            answers.append(DeletableTopicResult(name=topic.name, topic_id=topic.id, **FINE))
        except BrokerError as error:
            answers.append(DeletableTopicResult(name=each.name, topic_id=each.id, **refusal(error)))
    return Plan(tuple(changes), answers)


def _deleted(image: ClusterImage, named: _Named, twice: Collection[_Named], seen: set[bytes]) -> Topic:
    if named.name is None and named.id == ZERO_UUID:
        raise InvalidRequest("neither topic name nor id were specified")
    if named.name is not None and named.id != ZERO_UUID:
        raise InvalidRequest("you may not specify both topic name and topic id")
    if named in twice:
        raise InvalidRequest(f"duplicate topic {'id' if named.name is None else 'name'}")
    topic = image.topic_by_id(named.id) if named.name is None else image.topic(named.name)
    if topic is None:
        raise UnknownTopicId if named.name is None else UnknownTopicOrPartition
    if topic.id in seen:
        raise InvalidRequest("the provided topic name maps to an ID that was already supplied")
    seen.add(topic.id)
    return topic
