"""Changes of topics above the quota: refused to who knows the error, slowed down for who does not."""

from __future__ import annotations

import pytest

from ottla.broker.quotas.mutations import MutationQuota, changed_partitions, mutation_quota
from ottla.cluster.model import Topic
from ottla.cluster.topics import TopicRules
from ottla.errors import ThrottlingQuotaExceeded
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

RATE = "controller_mutation_rate"
EXCEEDED = ThrottlingQuotaExceeded.code


@pytest.fixture
def limited(broker):
    """A broker where anna may change one partition a second: eleven at once."""
    broker.broker.quotas.load([((("user", "anna"),), {RATE: 1.0})])
    return broker


def ask(broker, request, version, user="anna"):
    return broker.ask(request, version, charges=broker.broker.quotas.charges_of(RATE, user, "admin"))


def create(*topics, validate_only=False):
    wanted = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        for name, count in topics
    ]
    return CreateTopicsRequest(topics=wanted, timeout_ms=1000, validate_only=validate_only)


def codes(results):
    return [each.error_code for each in results]


def test_who_has_tokens_may_make_any_number_of_partitions_and_the_next_topic_is_refused(limited):
    answer = ask(limited, create(("a", 10), ("b", 20), ("c", 1)), 7)
    assert codes(answer.topics) == [0, 0, EXCEEDED]
    assert answer.throttle_time_ms == 19_000
    assert limited.image.topic("c") is None
    limited.later(18_900)
    assert ask(limited, create(("c", 1)), 7).throttle_time_ms == 100
    limited.later(100)
    answer = ask(limited, create(("c", 1)), 7)
    assert codes(answer.topics) == [0]
    assert answer.throttle_time_ms == 0


def test_clients_that_do_not_know_the_error_are_slowed_down(limited):
    answer = ask(limited, create(("a", 10), ("b", 20)), 5)
    assert codes(answer.topics) == [0, 0]
    assert answer.throttle_time_ms == 19_000
    answer = ask(limited, create(("c", 1)), 5)
    assert codes(answer.topics) == [0]
    assert answer.throttle_time_ms == 20_000


def test_who_has_no_quota_is_not_held_up(limited):
    assert codes(ask(limited, create(("a", 100), ("b", 100)), 7, user="bert").topics) == [0, 0]


@pytest.mark.parametrize(("version", "is_strict"), [(4, False), (5, True), (6, True)])
def test_deleted_partitions_count(limited, version, is_strict):
    for name in ("a", "b"):
        limited.create_topic(name, 12)
    if version < 6:
        request = DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=1000)
    else:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=bytes(16)) for name in "ab"], timeout_ms=1000
        )
    answer = ask(limited, request, version)
    assert codes(answer.responses) == [0, EXCEEDED if is_strict else 0]
    assert answer.throttle_time_ms == (1_000 if is_strict else 13_000)


@pytest.mark.parametrize(("version", "is_strict"), [(2, False), (3, True)])
def test_added_partitions_count(limited, version, is_strict):
    for name in ("a", "b"):
        limited.create_topic(name, 5)
    wanted = [CreatePartitionsTopic(name=name, count=17, assignments=None) for name in "ab"]
    answer = ask(limited, CreatePartitionsRequest(topics=wanted, timeout_ms=1000, validate_only=False), version)
    assert codes(answer.results) == [0, EXCEEDED if is_strict else 0]
    assert answer.throttle_time_ms == (1_000 if is_strict else 13_000)


def test_what_is_refused_for_another_reason_costs_nothing(limited):
    limited.create_topic("a")
    for _ in range(20):
        assert ask(limited, create(("a", 5), ("no such name!", 5)), 7).throttle_time_ms == 0


def test_a_plan_that_is_made_again_does_not_spend_twice(limited):
    meter = limited.broker.quotas.charges_of(RATE, "anna", "admin").mutation
    quota = MutationQuota(meter, is_strict=True, monotonic_ms=limited.clock.monotonic_ms)
    plain = TopicRules(configs=limited.broker.config_rules)
    for _ in range(5):
        quota.rules(plain).check_quota(11)
    assert meter.bucket.tokens(1.0, limited.clock.monotonic_ms()) == 0
    assert not quota.is_exhausted


def test_a_request_that_was_passed_on_is_counted_by_what_came_of_it(limited):
    limited.create_topic("kept", 3)
    before = limited.image
    answer = limited.ask(create(("a", 12), ("kept", 5)), 7)
    assert codes(answer.topics) == [0, 36]
    assert changed_partitions(answer, before, limited.image) == 12
    charges = limited.broker.quotas.charges_of(RATE, "anna", "admin")
    quota = mutation_quota(charges, create(), 7, limited.clock.monotonic_ms)
    assert quota.forwarded(answer, before, limited.image).throttle_time_ms == 0
    assert quota.is_exhausted
    older = mutation_quota(charges, create(), 5, limited.clock.monotonic_ms)
    assert not older.is_exhausted
    assert older.forwarded(answer, limited.image, limited.image).throttle_time_ms == 1_000
    deleted = limited.image
    gone = limited.ask(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=deleted.topic("a").id)], timeout_ms=1), 6)
    assert changed_partitions(gone, deleted, limited.image) == 12
    assert isinstance(deleted.topic("a"), Topic)


def test_a_topic_that_is_made_because_a_client_asks_for_it_counts(limited):
    def asked(name, principal="User:anna"):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        limited.ask(request, 9, principal=principal)
        return limited.image.topic(name) is not None

    ask(limited, create(("many", 12)), 7)  # more than she has
    assert not asked("a")
    assert asked("b", "User:bert")
    limited.later(1_000)
    assert asked("a")
    assert not asked("c")
