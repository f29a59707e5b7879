"""Settings of a share consumer: what it has of its own, and what it refuses."""

from __future__ import annotations

import pytest

from ottla.client.share.dead_letters import producer_settings
from ottla.client.share.settings import REFUSED, ShareConsumerSettings
from ottla.errors import InvalidGroupId, InvalidSetting, UnknownSetting

AT = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
VALUES = {
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "group.instance.id": "one",
    "group.protocol": "consumer",
    "group.remote.assignor": "uniform",
    "partition.assignment.strategy": "range",
    "exclude.internal.topics": "true",
    "interceptor.classes": [object()],
}


def test_defaults_are_javas():
    settings = ShareConsumerSettings(AT)
    assert not settings.is_explicit
    assert settings.share_acquire_mode == "batch_optimized"
    assert settings.max_poll_records == 500
    assert settings.share_dead_letter_topic is None


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_in_a_share_group_is_refused_with_what_to_do(name):
    with pytest.raises(InvalidSetting, match="share consumer"):
        ShareConsumerSettings({**AT, name: VALUES.get(name, "1000")})


def test_a_group_is_needed():
    with pytest.raises(InvalidGroupId):
        ShareConsumerSettings({"bootstrap.servers": "localhost:9092"})


def test_a_consumer_does_not_know_the_settings_of_share_groups():
    from ottla.client.consumer.settings import ConsumerSettings

    with pytest.raises(UnknownSetting):
        ConsumerSettings({**AT, "share.dead.letter.topic": "graves"})


def test_the_producer_of_dead_letters_reaches_the_brokers_as_the_consumer_does():
    secure = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    settings = ShareConsumerSettings(
        {**AT, **secure, "sasl.password": "secret", "client.id": "c", "share.dead.letter.topic": "graves"}
    )
    made = producer_settings(settings)
    assert {name: made[name] for name in secure} == secure
    assert made["client.id"] == "c-dead-letters"
    assert "group.id" not in made
    assert "share.dead.letter.topic" not in made
