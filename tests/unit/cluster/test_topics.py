"""CreateTopics, DeleteTopics and CreatePartitions, by Kafka's rules."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from ottla.cluster import topics
from ottla.cluster.changes import AddPartitions, AlterConfig, CreateTopic, RegisterBroker, RemoveTopic, apply_all
from ottla.cluster.config_layers import ConfigRules, ConfigSource
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, Endpoint, Partition, Topic
from ottla.cluster.partition_room import PartitionRoom
from ottla.cluster.partitions import create_partitions
from ottla.cluster.topics import NewTopic, TopicRules, create_topics, delete_topics
from ottla.errors import (
    ERRORS,
    InvalidRequest,
    PolicyViolation,
    ThrottlingQuotaExceeded,
    TopicDeletionDisabled,
)
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.settings import Settings, setting
from ottla.values import ZERO_UUID


class BrokerSettings(Settings):
    log_retention_ms = setting("log.retention.ms", int, default=None, dynamic="cluster-wide", doc="How long.")


class GroupSettings(Settings):
    pass


def rules(**changed: object) -> TopicRules:
    return TopicRules(ConfigRules(1, BrokerSettings({"log.retention.ms": "4000"}), GroupSettings), **changed)  # type: ignore[arg-type]


def brokers(*ids: int, fenced: tuple[int, ...] = ()) -> ClusterImage:
    each = [
        RegisterBroker(
            Broker(id, (Endpoint("PLAINTEXT", "h", id),), 1, directories=(bytes([id]) * 16,), fenced=id in fenced)
        )
        for id in ids
    ]
    return apply_all(ClusterImage("c"), each)


def topic(name: str, partitions: int = -1, factor: int = -1, **more: object) -> CreatableTopic:
    fields: dict[str, object] = {"assignments": [], "configs": [], **more}
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **fields)  # type: ignore[arg-type]


def assigned(name: str, *replicas: list[int]) -> CreatableTopic:
    each = [CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in enumerate(replicas)]
    return topic(name, assignments=each)


def create(image: ClusterImage, *topics: CreatableTopic, validate_only: bool = False, **changed: object):  # type: ignore[no-untyped-def]
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return create_topics(image, request, rules(**changed), Random(1))


def error_of(answer: object) -> tuple[str, str]:
    found = ERRORS[answer.error_code]  # type: ignore[attr-defined]
    return ("NONE" if found is None else found.name), answer.error_message or ""  # type: ignore[attr-defined]


def test_a_topic_is_made_with_defaults_and_tells_what_it_has() -> None:
    plan = create(brokers(1), topic("orders"), default_partitions=3)
    (change,) = plan.changes
    assert isinstance(change, CreateTopic)
    assert change.topic.partitions == (Partition((1,), (1,), 1, directories=(b"\1" * 16,)),) * 3
    (answer,) = plan.answers
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 1)
    assert answer.topic_id == change.topic.id != ZERO_UUID
    told = {each.name: (each.value, each.config_source) for each in answer.configs}
    assert told["retention.ms"] == ("4000", ConfigSource.STATIC_BROKER)
    assert told["cleanup.policy"] == ("delete", ConfigSource.DEFAULT)


def test_settings_of_a_new_topic_are_kept_and_told() -> None:
    configs = [CreatableTopicConfig(name="retention.ms", value="5")]
    plan = create(brokers(1), topic("orders", configs=configs))
    assert [type(each) for each in plan.changes] == [CreateTopic, AlterConfig]
    image = apply_all(brokers(1), plan.changes)
    assert image.topic_config("orders") == {"retention.ms": "5"}
    assert ("retention.ms", "5", ConfigSource.TOPIC) in [
        (each.name, each.value, each.config_source) for each in plan.answers[0].configs
    ]


def test_topics_that_set_the_same_are_worked_out_once_and_others_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[object] = []
    monkeypatch.setattr(
        topics, "_described_configs", lambda image, settings, configs, rules: described.append(configs) or [configs]
    )
    short, wrong = ([CreatableTopicConfig(name="retention.ms", value=value)] for value in ("5", "soon"))
    wanted = [topic("a"), topic("b", configs=short), topic("c"), topic("d", configs=wrong), topic("e", configs=short)]
    answers = {answer.name: answer for answer in create(brokers(1), *wanted).answers}
    assert described == [{}, {"retention.ms": "5"}]
    assert answers["a"].configs == answers["c"].configs == [{}]
    assert answers["b"].configs == answers["e"].configs == [{"retention.ms": "5"}]
    assert error_of(answers["d"])[0] == "INVALID_CONFIG"


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (topic(""), "INVALID_TOPIC_EXCEPTION", "empty"),
        (topic("."), "INVALID_TOPIC_EXCEPTION", "'.'"),
        (topic(".."), "INVALID_TOPIC_EXCEPTION", "'..'"),
        (topic("a" * 250), "INVALID_TOPIC_EXCEPTION", "250 characters"),
        (topic("a b"), "INVALID_TOPIC_EXCEPTION", "ASCII alphanumerics"),
        (topic("ä"), "INVALID_TOPIC_EXCEPTION", "ASCII alphanumerics"),
        (topic("a\n"), "INVALID_TOPIC_EXCEPTION", "ASCII alphanumerics"),
        (topic("here_already"), "TOPIC_ALREADY_EXISTS", "'here_already'"),
        (topic("here.already"), "INVALID_TOPIC_EXCEPTION", "collides with existing topic: here_already"),
        (topic("__cluster_metadata"), "INVALID_REQUEST", "prohibited"),
        (topic("a", 0), "INVALID_PARTITIONS", "larger than 0"),
        (topic("a", -2), "INVALID_PARTITIONS", "larger than 0"),
        (topic("a", 1, 0), "INVALID_REPLICATION_FACTOR", "larger than 0"),
        (topic("a", 1, -2), "INVALID_REPLICATION_FACTOR", "larger than 0"),
        (topic("a", 1, 4), "INVALID_REPLICATION_FACTOR", "only 3 are registered and 2 of them alive"),
        (assigned("a", [1, 1]), "INVALID_REPLICA_ASSIGNMENT", "more than once"),
        (assigned("a", [9]), "INVALID_REPLICA_ASSIGNMENT", "no such broker"),
        (assigned("a", []), "INVALID_REPLICA_ASSIGNMENT", "empty"),
        (assigned("a", [1], [1, 2]), "INVALID_REPLICA_ASSIGNMENT", "2 replica(s)"),
        (assigned("a", [3]), "INVALID_REPLICA_ASSIGNMENT", "fenced"),
        (
            topic("a", assignments=[CreatableReplicaAssignment(partition_index=1, broker_ids=[1])]),
            "INVALID_REPLICA_ASSIGNMENT",
            "consecutive",
        ),
        (
            topic("a", assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])] * 2),
            "INVALID_REPLICA_ASSIGNMENT",
            "more than one assignment",
        ),
        (
            topic("a", 1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]),
            "INVALID_REQUEST",
            "number of partitions was not set to -1",
        ),
        (
            topic("a", -1, 1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]),
            "INVALID_REQUEST",
            "replication factor was not set to -1",
        ),
        (topic("a", configs=[CreatableTopicConfig(name="retention.ms", value="x")]), "INVALID_CONFIG", "retention.ms"),
        (topic("a", configs=[CreatableTopicConfig(name="retention.sm", value="1")]), "INVALID_CONFIG", "retention.ms"),
        (topic("a", configs=[CreatableTopicConfig(name="retention.ms", value=None)]), "INVALID_CONFIG", "null"),
    ],
)
def test_what_cannot_be_made_is_refused_and_the_rest_is_made(wanted: CreatableTopic, code: str, words: str) -> None:
    image = apply_all(
        brokers(1, 2, 3, fenced=(3,)), [CreateTopic(Topic("here_already", b"\1" * 16, (Partition((1,), (1,), 1),)))]
    )
    plan = create(image, wanted, topic("fine"))
    refused, made = plan.answers
    assert error_of(refused)[0] == code
    assert words in error_of(refused)[1]
    assert made.error_code == 0
    assert [each.topic.name for each in plan.changes if isinstance(each, CreateTopic)] == ["fine"]


def test_an_assignment_is_followed() -> None:
    plan = create(brokers(1, 2, fenced=(1,)), assigned("a", [1, 2], [2, 1]))
    assert [(each.replicas, each.isr, each.leader) for each in plan.changes[0].topic.partitions] == [
        ((1, 2), (2,), 2),
        ((2, 1), (2,), 2),
    ]


def test_a_topic_named_twice_is_made_not_even_once() -> None:
    plan = create(brokers(1), topic("a"), topic("b"), topic("a"))
    assert [each.topic.name for each in plan.changes] == ["b"]
    assert [(each.name, error_of(each)[0]) for each in plan.answers] == [("b", "NONE"), ("a", "INVALID_REQUEST")]


def test_only_checking_changes_nothing() -> None:
    plan = create(brokers(1), topic("a"), topic(""), validate_only=True)
    assert plan.changes == ()
    assert [error_of(each)[0] for each in plan.answers] == ["NONE", "INVALID_TOPIC_EXCEPTION"]


def test_a_policy_sees_the_topic_and_can_refuse_it() -> None:
    seen = []

    def policy(new: NewTopic) -> None:
        seen.append(new)
        if new.partitions and new.partitions > 2:
            raise PolicyViolation("too many")

    plan = create(brokers(1), topic("a", 2), topic("b", 3), assigned("c", [1]), policy=policy)
    assert seen == [
        NewTopic("a", 2, 1, None, {}),
        NewTopic("b", 3, 1, None, {}),
        NewTopic("c", None, None, {0: (1,)}, {}),
    ]
    assert [error_of(each)[0] for each in plan.answers] == ["NONE", "POLICY_VIOLATION", "NONE"]


def taking(limit: int) -> Callable[[int], None]:
    left = [limit]

    def take(partitions: int) -> None:
        if partitions > left[0]:
            raise ThrottlingQuotaExceeded
        left[0] -= partitions

    return take


def test_who_makes_too_many_partitions_is_throttled() -> None:
    plan = create(brokers(1), topic("a", 3), topic("b", 3), topic("c", 1), use_quota=taking(4))
    assert [error_of(each)[0] for each in plan.answers] == ["NONE", "THROTTLING_QUOTA_EXCEEDED", "NONE"]


def test_an_absurd_number_of_partitions_is_refused_as_a_whole() -> None:
    with pytest.raises(PolicyViolation, match="limit is 10000"):
        create(brokers(1), topic("a", 6000), topic("b", 4001))


# --- deleting ---

A, B = b"\1" * 16, b"\2" * 16


def two_topics() -> ClusterImage:
    each = [CreateTopic(Topic(name, id, (Partition((1,), (1,), 1),) * 2)) for name, id in (("a", A), ("b", B))]
    return apply_all(brokers(1), each)


def test_topics_are_deleted_by_name_in_old_versions() -> None:
    request = DeleteTopicsRequest(topic_names=["a", "x"], timeout_ms=1)
    plan = delete_topics(two_topics(), request, rules(), version=5)
    assert plan.changes == (RemoveTopic(A),)
    assert [(each.name, error_of(each)[0]) for each in plan.answers] == [
        ("a", "NONE"),
        ("x", "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def by(name: str | None = None, id: bytes = ZERO_UUID) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=id)


@pytest.mark.parametrize(
    ("named", "deleted", "codes"),
    [
        ([by(id=A)], [A], ["NONE"]),
        ([by("a"), by(id=B)], [A, B], ["NONE", "NONE"]),
        ([by(id=b"\7" * 16)], [], ["UNKNOWN_TOPIC_ID"]),
        ([by()], [], ["INVALID_REQUEST"]),
        ([by("a", A)], [], ["INVALID_REQUEST"]),
        ([by("a"), by("a"), by("b")], [B], ["INVALID_REQUEST", "NONE"]),
        ([by(id=A), by(id=A)], [], ["INVALID_REQUEST"]),
        ([by(id=A), by("a")], [A], ["NONE", "INVALID_REQUEST"]),
    ],
)
def test_topics_are_deleted_by_name_or_id(
    named: list[DeleteTopicState], deleted: list[bytes], codes: list[str]
) -> None:
    plan = delete_topics(two_topics(), DeleteTopicsRequest(topics=named, timeout_ms=1), rules(), version=6)
    assert [each.topic_id for each in plan.changes if isinstance(each, RemoveTopic)] == deleted
    assert [error_of(each)[0] for each in plan.answers] == codes


def test_deletion_can_be_off() -> None:
    request = DeleteTopicsRequest(topic_names=["a"], timeout_ms=1)
    with pytest.raises(TopicDeletionDisabled):
        delete_topics(two_topics(), request, rules(deletion_enabled=False), version=3)
    with pytest.raises(InvalidRequest):
        delete_topics(two_topics(), request, rules(deletion_enabled=False), version=2)


# --- more partitions ---


def grow(image: ClusterImage, *wanted: CreatePartitionsTopic, validate_only: bool = False, **changed: object):  # type: ignore[no-untyped-def]
    request = CreatePartitionsRequest(topics=list(wanted), timeout_ms=1, validate_only=validate_only)
    return create_partitions(image, request, rules(**changed), Random(1))


def to(name: str, count: int, *replicas: list[int]) -> CreatePartitionsTopic:
    each = [CreatePartitionsAssignment(broker_ids=ids) for ids in replicas] or None
    return CreatePartitionsTopic(name=name, count=count, assignments=each)


def test_a_topic_gets_more_partitions() -> None:
    plan = grow(two_topics(), to("a", 5))
    assert isinstance(plan.changes[0], AddPartitions)
    assert apply_all(two_topics(), plan.changes).partition_count("a") == 5


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (to("x", 5), "UNKNOWN_TOPIC_OR_PARTITION"),
        (to("a", 2), "INVALID_PARTITIONS"),
        (to("a", 1), "INVALID_PARTITIONS"),
        (to("a", -5), "INVALID_PARTITIONS"),
        (to("a", 20_000), "INVALID_PARTITIONS"),
        (to("a", 4, [1]), "INVALID_REPLICA_ASSIGNMENT"),
        (to("a", 3, [1, 2]), "INVALID_REPLICA_ASSIGNMENT"),
        (to("a", 3, [7]), "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_what_is_no_growth_is_refused(wanted: CreatePartitionsTopic, code: str) -> None:
    plan = grow(two_topics(), wanted, to("b", 3, [1]))
    assert [error_of(each)[0] for each in plan.answers] == [code, "NONE"]
    assert len(plan.changes) == 1


def test_growth_named_twice_or_only_checked_or_too_fast_does_nothing() -> None:
    assert grow(two_topics(), to("a", 3), to("a", 4)).changes == ()
    assert grow(two_topics(), to("a", 3), validate_only=True).changes == ()
    plan = grow(two_topics(), to("a", 9), use_quota=taking(3))
    assert error_of(plan.answers[0])[0] == "THROTTLING_QUOTA_EXCEEDED"


def test_growth_without_a_living_broker_is_refused() -> None:
    image = apply_all(two_topics(), [RegisterBroker(Broker(1, (), fenced=True))])
    assert error_of(grow(image, to("a", 3)).answers[0])[0] == "INVALID_REPLICATION_FACTOR"


# --- room ------------------------------------------------------------------------------------------------------------


def with_room(image: ClusterImage, limit: int) -> TopicRules:
    return rules(room=PartitionRoom(1, image, limit, "the process may have 64 files open"))


def test_topics_that_a_broker_cannot_have_open_are_refused_with_the_limit_and_the_others_are_made() -> None:
    image = brokers(1)
    request = CreateTopicsRequest(topics=[topic("a", 3, 1), topic("b", 3, 1), topic("c", 2, 1)])
    plan = create_topics(image, request, with_room(image, 5), Random(1))
    assert [each.error_code for each in plan.answers] == [0, PolicyViolation.code, 0]
    refused = plan.answers[1].error_message
    assert refused is not None
    assert "3 more partitions are too many for broker 1, which has 3 and can have 5" in refused
    assert "the process may have 64 files open" in refused


def test_partitions_on_other_brokers_take_no_room_here() -> None:
    image = brokers(1, 2)
    request = CreateTopicsRequest(topics=[assigned("a", [2], [2], [1])])
    plan = create_topics(image, request, with_room(image, 1), Random(1))
    assert [each.error_code for each in plan.answers] == [0]


def test_a_topic_does_not_grow_beyond_the_room_of_its_broker() -> None:
    image = brokers(1)
    made = create_topics(image, CreateTopicsRequest(topics=[topic("a", 3, 1)]), rules(), Random(1))
    image = apply_all(image, made.changes)
    for count, code in ((6, PolicyViolation.code), (5, 0)):
        wanted = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="a", count=count, assignments=None)], timeout_ms=0, validate_only=False
        )
        plan = create_partitions(image, wanted, with_room(image, 5), Random(1))
        assert [each.error_code for each in plan.answers] == [code]
