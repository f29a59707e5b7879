"""What is in the broker before it is attacked: enough of everything that a request could go through one by one.

`bob` may do everything with topics, groups, transactional ids and subjects whose names begin with `bob-`, which is what
an ordinary user has. `mallory` can log in and has no right at all. The rest belongs to others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.hostile_work.attack import Attacked, WireClient
from tests.hostile_work.records import AVRO_DECIMAL, AVRO_TREE, JSON_ANYTHING, PROTOBUF_TREE, hostile_batches
from tests.patience import HANG_S

from ottla.broker.registry.rights import ALL_SUBJECTS
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.schema import Message

COORDINATOR_COMES = (14, 15, 16)  # it loads, is not available, is not this broker
OWN = "bob-"
RECORDS = "bob-records"
TOPICS = 300
OTHER_TOPICS = 200
TRANSACTIONAL_IDS = 100
GROUPS = 100
TOKENS = 50
SUBJECTS = {
    "bob-records-value": ("AVRO", AVRO_DECIMAL),
    "bob-tree-value": ("AVRO", AVRO_TREE),
    "bob-json-value": ("JSON", JSON_ANYTHING),
    "bob-proto-value": ("PROTOBUF", PROTOBUF_TREE),
}


def fill(attacked: Attacked) -> None:
    with attacked.wire("admin") as admin:
        _grant(admin)
        _create_topics(admin)
        for number in range(TRANSACTIONAL_IDS):
            owner = OWN if number % 2 else "other-"
            _init_transactions(admin, f"{owner}{number:06d}")
        for number in range(GROUPS):
            _commit(admin, f"{OWN if number % 2 else 'other-'}{number:06d}")
    ids = _register(attacked)
    with attacked.wire("bob") as bob:
        for _ in range(TOKENS):
            answer = bob.ask(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1))
            assert answer.error_code == 0, answer
        for name, batch in hostile_batches(ids):
            data = TopicProduceData(name=RECORDS, partition_data=[PartitionProduceData(index=0, records=batch)])
            answer = bob.ask(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=[data]), 12)
            assert answer.responses[0].partition_responses[0].error_code == 0, (name, answer)
    attacked.tell("freeze")


def topic_ids(attacked: Attacked) -> list[bytes]:
    """Of all topics that bob may see."""
    with attacked.wire("bob") as bob:
        return [topic.topic_id for topic in bob.ask(MetadataRequest(topics=None)).topics]


def _init_transactions(admin: WireClient, transactional_id: str) -> None:
    _settled(
        admin,
        FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]),
        lambda answer: answer.coordinators[0].error_code,
    )
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    _settled(admin, request, lambda answer: answer.error_code)


def _settled(client: WireClient, request: Message, code_of: Callable[[Any], int], version: int | None = None) -> None:
    """Ask until the coordinator is there; it makes its topic when it is first needed."""
    limit_s = time.monotonic() + HANG_S
    while (code := code_of(client.ask(request, version))) in COORDINATOR_COMES and time.monotonic() < limit_s:
        continue
    assert code == 0, (request, code)


def _grant(admin: WireClient) -> None:
    resources = (
        (AclResource.TOPIC, OWN),
        (AclResource.TOPIC, ALL_SUBJECTS + OWN),
        (AclResource.GROUP, OWN),
        (AclResource.TRANSACTIONAL_ID, OWN),
    )
    creations = [
        AclCreation(
            resource_type=resource,
            resource_name=name,
            resource_pattern_type=PatternType.PREFIXED,
            principal="User:bob",
            host="*",
            operation=AclOperation.ALL,
            permission_type=AclPermission.ALLOW,
        )
        for resource, name in resources
    ]
    answer = admin.ask(CreateAclsRequest(creations=creations))
    assert all(result.error_code == 0 for result in answer.results), answer


def _create_topics(admin: WireClient) -> None:
    names = [f"{OWN}{number:06d}" for number in range(TOPICS)]
    names += [f"other-{number:06d}" for number in range(OTHER_TOPICS)] + [RECORDS]
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    answer = admin.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000))
    assert all(topic.error_code == 0 for topic in answer.topics), answer


def _commit(admin: WireClient, group: str) -> None:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")]
    topics = [OffsetCommitRequestTopic(name=f"{OWN}{number:06d}", partitions=partitions) for number in range(10)]
    _settled(
        admin,
        FindCoordinatorRequest(key_type=0, coordinator_keys=[group]),
        lambda answer: answer.coordinators[0].error_code,
    )
    request = OffsetCommitRequest(group_id=group, member_id="", topics=topics)
    _settled(admin, request, lambda answer: answer.topics[0].partitions[0].error_code, 8)


def _register(attacked: Attacked) -> dict[str, int]:
    """The ids of the schemas by their subjects."""
    http = attacked.http(attacked.registry, "bob")
    ids = {}
    for subject, (kind, text) in SUBJECTS.items():
        body = json.dumps({"schemaType": kind, "schema": text}).encode()
        answer = http.call("POST", f"/subjects/{subject}/versions", body)
        assert answer is not None
        assert answer.status == 200, (subject, answer)
        ids[subject] = answer.value["id"]
    return ids
