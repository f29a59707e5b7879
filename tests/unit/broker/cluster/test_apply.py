"""What a new image means for the parts of a broker: settings, coordinators, and who waits."""

from __future__ import annotations

import pytest

from ottla.broker.observe.topic_metrics import ALL_TOPICS
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER = 4
SET, DELETE = 0, 1


def alter(broker, name, key, value, operation=SET):
    change = AlterableConfig(name=key, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    assert broker.ask(request).responses[0].error_code == 0


@pytest.mark.parametrize("name", ["", "1"], ids=["all brokers", "this broker"])
def test_a_setting_of_a_broker_that_changes_holds_at_once_and_until_it_is_deleted(broker, name):
    before = broker.broker.settings.max_connections
    alter(broker, name, "max.connections", "77")
    assert broker.broker.settings.max_connections == 77
    alter(broker, name, "max.connections", None, DELETE)
    assert broker.broker.settings.max_connections == before


@pytest.mark.parametrize(("kind", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state")])
def test_a_coordinator_is_unloaded_when_its_partitions_leave(broker, kind, topic):
    broker.ask(FindCoordinatorRequest(coordinator_keys=["a name"], key_type=kind))
    runtime = broker.broker.coordinators.of_topic(topic).runtime
    assert len(list(runtime.shards())) == 3
    assert broker.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000), 5).responses[0].error_code == 0
    assert list(runtime.shards()) == []


def test_a_topic_that_is_deleted_takes_its_metrics_with_it(broker, batch):
    for number in range(3):
        broker.create_topic(f"gone-{number}")
        assert broker.produce(f"gone-{number}", batch("one")).error_code == 0
        request = DeleteTopicsRequest(topic_names=[f"gone-{number}"], timeout_ms=1000)
        assert broker.ask(request, 5).responses[0].error_code == 0
    metrics = broker.broker.topic_metrics
    assert metrics._topics == {}
    left = {labels for family in metrics._families.values() for labels, _ in family.series()}
    assert left == {(ALL_TOPICS,)}, "what all topics had together stays"
