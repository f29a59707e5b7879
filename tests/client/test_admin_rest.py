"""Admin calls that are seldom made, against a real broker: what it can do is done, what it cannot is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Producer
from tests.patience import FAR_MS, HANG_S, bounded

from ottla.client.admin.access import AclFilter
from ottla.client.admin.admin import Admin
from ottla.client.admin.cluster import Replica, ReplicaLogDirs
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.client.admin.credentials import Principal
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.plans import PartlyFailed
from ottla.client.admin.topics import NewTopic
from ottla.errors import (
    BrokerError,
    GroupIdNotFound,
    InvalidReplicationFactor,
    LogDirNotFound,
    SecurityDisabled,
    UnknownTopicOrPartition,
)
from ottla.testing.broker import KafkaBroker
from ottla.values import TopicPartition

T = TypeVar("T")


@pytest.fixture
def admin(kafka_broker: KafkaBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin, unique_topic: str) -> str:
    admin.create_topics([NewTopic(unique_topic, num_partitions=2)])
    return unique_topic


def eventually(look: Callable[[], T], is_so: Callable[[T], bool]) -> T:
    deadline = time.monotonic() + HANG_S
    while not is_so(found := look()):
        assert time.monotonic() < deadline, f"it stays {found!r}"
    return found


def test_a_transaction_that_hangs_is_aborted_past_its_coordinator(
    admin: Admin, topic: str, kafka_broker: KafkaBroker, unique_group: str
) -> None:
    bootstrap: Mapping[str, str | int | float | bool] = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    producer = Producer({**bootstrap, "transactional.id": unique_group})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(HANG_S) == 0
    first = TopicPartition(topic, 0)
    (state,) = admin.describe_producers([first])[first]
    assert state.transaction_start_offset == 0
    admin.abort_transaction(
        first,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        coordinator_epoch=max(0, state.coordinator_epoch or 0),
    )
    stable = {first: OffsetSpec.LATEST}
    eventually(
        lambda: admin.list_offsets(stable, isolation_level="read_committed")[first].offset, lambda offset: offset == 2
    )
    (state,) = admin.describe_producers([first])[first]
    assert state.transaction_start_offset is None


def test_where_a_copy_is(admin: Admin, topic: str) -> None:
    copy = Replica(topic, 0, 0)
    found = admin.describe_replica_log_dirs([copy])[copy]
    assert found.current is not None
    assert (found.current_lag, found.future) == (0, None)
    missing = Replica("nothing", 0, 0)
    assert admin.describe_replica_log_dirs([missing]) == {missing: ReplicaLogDirs()}


def test_a_copy_cannot_move_into_a_directory_that_is_not_there(admin: Admin, topic: str) -> None:
    with pytest.raises(LogDirNotFound):
        admin.alter_replica_log_dirs({Replica(topic, 0, 0): str(Path("nowhere").absolute())}, timeout=HANG_S)


def test_subscriptions_to_client_metrics_are_listed(admin: Admin, unique_group: str) -> None:
    resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, unique_group)
    admin.incremental_alter_configs({resource: [AlterConfig("interval.ms", "5000")]})
    assert unique_group in admin.list_client_metrics_resources()


def test_tokens_need_a_broker_that_gives_them(admin: Admin) -> None:
    for call in (
        lambda: admin.create_delegation_token(renewers=[Principal("User", "alice")]),
        lambda: admin.renew_delegation_token(b"x"),
        lambda: admin.expire_delegation_token(b"x"),
        admin.describe_delegation_tokens,
    ):
        with pytest.raises(BrokerError, match=r"[Tt]oken"):
            call()


def test_rules_need_a_broker_that_has_them(admin: Admin) -> None:
    with pytest.raises(SecurityDisabled):
        admin.delete_acls([AclFilter()], timeout=HANG_S)


def test_groups_that_are_not_there_are_told_whatever_their_kind(admin: Admin) -> None:
    for call in (
        admin.describe_classic_groups,
        admin.describe_share_groups,
        admin.describe_streams_groups,
        admin.delete_share_groups,
        admin.delete_streams_groups,
    ):
        with pytest.raises(GroupIdNotFound):
            call(["nobody"], timeout=HANG_S)


def test_several_failures_are_told_one_by_one(admin: Admin, topic: str) -> None:
    with pytest.raises(PartlyFailed) as partly:
        admin.create_partitions({topic: 3, "nothing": 3})
    assert set(partly.value.succeeded) == {topic}
    assert isinstance(partly.value.failed["nothing"], UnknownTopicOrPartition)


def test_more_copies_than_brokers_is_explained(admin: Admin, unique_topic: str) -> None:
    with pytest.raises(InvalidReplicationFactor) as refused:
        admin.create_topics([NewTopic(unique_topic, replication_factor=3)])
    assert "3" in str(refused.value)


@pytest.mark.parametrize("missing", ["topic", "partition"])
def test_what_is_not_there_is_told_soon_and_not_made_by_asking(admin: Admin, topic: str, missing: str) -> None:
    partition = TopicPartition(topic, 99) if missing == "partition" else TopicPartition(f"{topic}-other", 0)
    with bounded(), pytest.raises(UnknownTopicOrPartition):
        admin.list_offsets({partition: OffsetSpec.LATEST}, timeout=FAR_MS / 1000)
    assert f"{topic}-other" not in admin.list_topics()
