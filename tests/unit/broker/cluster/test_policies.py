"""Policies given in code: they refuse with their own words, and a policy that fails lets nothing through."""

from __future__ import annotations

import pytest

import ottla
from ottla.broker.cluster.policies import Policies
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.cluster.topics import NewTopic
from ottla.errors import OttlaError, PolicyViolation, UnknownServerError
from ottla.testing.broker import KafkaBroker


def small_topics(topic: NewTopic) -> None:
    if topic.name == "bug":
        raise ZeroDivisionError
    if (topic.partitions or 0) > 3:
        raise PolicyViolation(f"{topic.name} has more than 3 partitions")


def no_short_retention(resource, changes) -> None:
    if int(changes.get("retention.ms") or 10**9) < 1_000:
        raise PolicyViolation(f"{resource.name} would forget too soon")


@pytest.fixture(scope="module")
def admin():
    policies = Policies(create_topic=small_topics, alter_config=no_short_retention)
    with (
        KafkaBroker(policies=policies) as broker,
        ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as connected,
    ):
        yield connected


def test_a_topic_that_the_policy_refuses_is_not_made(admin: ottla.Admin) -> None:
    with pytest.raises(PolicyViolation, match="more than 3 partitions"):
        admin.create_topics([ottla.NewTopic("large", 4, 1)])
    admin.create_topics([ottla.NewTopic("small", 3, 1)])
    assert set(admin.list_topics()) == {"small"}


def test_a_policy_that_fails_refuses(admin: ottla.Admin) -> None:
    with pytest.raises(UnknownServerError):
        admin.create_topics([ottla.NewTopic("bug", 1, 1)])


def test_settings_that_the_policy_refuses_stay_as_they_are(admin: ottla.Admin) -> None:
    admin.create_topics([ottla.NewTopic("kept", 1, 1)])
    resource = ConfigResource(ConfigResourceType.TOPIC, "kept")
    with pytest.raises(OttlaError, match="forget too soon"):
        admin.incremental_alter_configs({resource: [AlterConfig("retention.ms", "10")]})
    admin.incremental_alter_configs({resource: [AlterConfig("retention.ms", "5000")]})
    assert admin.describe_configs([resource])[resource]["retention.ms"].value == "5000"
