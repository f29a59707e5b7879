"""A tiny runtime for one GroupShard, with a log in memory and a clock that moves when told.

It carries out effects as the real one does: append and replay at once, answer when committed (at once, or when the
test says so). It also checks what every test wants: a token is answered once, an answer can be written at the version
that asked, and a value read back from its bytes is the value that was replayed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from tests.unit.broker.coordinators.groups.both_ways import go_both_ways

from ottla.broker.coordinators.effects import CancelTimer, Effect, Reply, SetTimer, StoredRecord, Write
from ottla.broker.coordinators.groups.classic_group import ClassicGroup
from ottla.broker.coordinators.groups.coordinator import KINDS
from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.errors import BrokerError, NotCoordinator
from ottla.protocol import compiled
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.stored import decode_key, decode_value, encode_key, encode_value


@pytest.fixture(autouse=True)
def idle_heartbeats(monkeypatch):
    """How many heartbeats went the short way; each was answered as the general way answers it."""
    return go_both_ways(monkeypatch)


class Cluster:
    """Topics by name: id and number of partitions."""

    def __init__(self, **partitions: int) -> None:
        self.known = {name: (bytes([index + 1]) * 16, count) for index, (name, count) in enumerate(partitions.items())}

    def topic_id(self, name: str) -> bytes | None:
        return self.known[name][0] if name in self.known else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (known_id, _) in self.known.items() if known_id == topic_id), None)

    def partition_count(self, name: str) -> int | None:
        return self.known[name][1] if name in self.known else None

    def topics(self) -> Iterable[str]:
        return self.known


class Stored(NamedTuple):
    """An entry of the log: a record, or with `committed` a marker."""

    key: bytes
    value: bytes | None
    producer_id: int = -1
    committed: bool | None = None


class World:
    def __init__(self, cluster: Cluster | None = None, **settings: Any) -> None:
        self.cluster = cluster or Cluster(t=4, u=4, other=2)
        self.settings = GroupSettings(**settings)
        self.now_ms = 1_000_000
        self.log: list[Stored] = []
        self.timers: dict[Any, int] = {}
        self.answers: dict[int, Any] = {}
        self.versions: dict[int, int] = {}
        self.uncommitted: list[Write] = []
        self.commits_at_once = True
        self.append_error: BrokerError | None = None
        self._uuids = 0
        self._next_token = 0
        self.leader_epoch = 0
        """Of the partition with the log; who changes it means the broker that takes over with `restart`."""
        self.shard = self._new_shard()
        self.carry_out([each for piece in self.shard.loaded(self.now_ms) for each in piece])

    def _new_shard(self) -> GroupShard:
        return GroupShard(self.settings, self.cluster, self._new_uuid, leader_epoch=self.leader_epoch)

    def _new_uuid(self) -> str:
        self._uuids += 1
        return f"{self._uuids}"

    # -- the runtime -------------------------------------------------------------------------------------------------

    def call(self, name: str, request: Any, version: int, client_id: str = "c") -> int:
        self._next_token += 1
        token = self._next_token
        self.versions[token] = version
        request = compiled.decode(type(request), version, b"".join(compiled.encode(request, version)))
        context = RequestContext(api_version=version, client_id=client_id, client_host="/127.0.0.1")
        self.carry_out(getattr(self.shard, name)(token, request, context, self.now_ms))
        return token

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                self._reply(effect)
            elif isinstance(effect, Write):
                self._write(effect)
            elif isinstance(effect, SetTimer):
                self.timers[effect.key] = effect.at_ms
            else:
                assert isinstance(effect, CancelTimer)
                self.timers.pop(effect.key, None)

    def _reply(self, reply: Reply) -> None:
        assert reply.token not in self.answers, "answered twice"
        version = self.versions[reply.token]
        compiled.encode(reply.response, version)
        self.answers[reply.token] = reply.response

    def _write(self, write: Write) -> None:
        if write.records and self.append_error is not None:
            for reply in write.failure(self.append_error):
                self._reply(reply)
            return
        for record in write.records:
            value = None if record.value is None else encode_value(record.value, record.value_version)
            stored = Stored(encode_key(record.key), value, write.producer_id)
            assert read(stored) == (record.key, record.value)
            self.log.append(stored)
            self.shard.replay(
                record, offset=len(self.log) - 1, producer_id=write.producer_id, producer_epoch=write.producer_epoch
            )
        self.uncommitted.append(write)
        if self.commits_at_once:
            self.commit_log()

    def commit_log(self) -> None:
        writes, self.uncommitted = self.uncommitted, []
        for write in writes:
            for reply in write.replies:
                self._reply(reply)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.log.append(Stored(b"", None, producer_id, committed))
        self.shard.replay_end_of_transaction(producer_id=producer_id, producer_epoch=0, committed=committed)

    def advance(self, ms: int) -> None:
        """Let the time pass, timer by timer."""
        end_ms = self.now_ms + ms
        while due := sorted((at_ms, str(key), key) for key, at_ms in self.timers.items() if at_ms <= end_ms):
            at_ms, _, key = due[0]
            del self.timers[key]
            self.now_ms = max(self.now_ms, at_ms)
            self.carry_out(self.shard.timer_fired(key, self.now_ms))
        self.now_ms = end_ms

    def restart(self) -> None:
        """The broker goes down cleanly and another one takes over with what is in the log."""
        for write in self.uncommitted:
            waiting = {reply.token for reply in write.replies}
            for reply in write.failure(NotCoordinator()) if waiting else ():
                if reply.token in waiting:  # others wait with a member, and hear of it from unload
                    self._reply(reply)
        self.uncommitted.clear()
        self.carry_out(self.shard.unload())
        self.timers.clear()
        self.shard = self.replayed()
        self.carry_out([each for piece in self.shard.loaded(self.now_ms) for each in piece])

    def replayed(self) -> GroupShard:
        shard = self._new_shard()
        for offset, stored in enumerate(self.log):
            if stored.committed is not None:
                shard.replay_end_of_transaction(
                    producer_id=stored.producer_id, producer_epoch=0, committed=stored.committed
                )
            else:
                key, value = read(stored)
                shard.replay(StoredRecord(key, value), offset=offset, producer_id=stored.producer_id)
        return shard

    def check_replay(self) -> None:
        """What the log gives is what the shard has."""
        assert durable(self.replayed()) == durable(self.shard)

    # -- asking ------------------------------------------------------------------------------------------------------

    def answer(self, token: int) -> Any:
        return self.answers[token]

    def is_waiting(self, token: int) -> bool:
        return token not in self.answers

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        version: int = 9,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client_id: str = "c",
    ) -> int:
        offered = [
            JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in ({"range": b"r"} if protocols is None else protocols).items()
        ]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=offered,
        )
        return self.call("join_group", request, version, client_id)

    def new_id(self, **how: Any) -> str:
        """Ask for a member id as clients do since version 4."""
        answer = self.answer(self.join(**how))
        assert answer.error_code == 79
        return answer.member_id

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        version: int = 5,
    ) -> int:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=what) for to, what in (assignments or {}).items()
            ],
        )
        return self.call("sync_group", request, version)

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.answer(self.call("heartbeat", request, 4)).error_code

    def leave(self, *members: str | tuple[str, str], group: str = "g", version: int = 5) -> Any:
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=str(members[0]))
        else:
            who = [(each, None) if isinstance(each, str) else each for each in members]
            request = LeaveGroupRequest(
                group_id=group, members=[MemberIdentity(member_id=a, group_instance_id=b) for a, b in who]
            )
        return self.answer(self.call("leave_group", request, version))

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        epoch: int = -1,
        retention_ms: int = -1,
        version: int = 9,
    ) -> int:
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata=metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=name, topic_id=self.cluster.topic_id(name) or bytes([99]) * 16, partitions=partitions
                )
                for name, partitions in by_topic.items()
            ],
        )
        return self.call("commit_offsets", request, version)

    def commit_codes(self, offsets: dict[tuple[str, int], int], **how: Any) -> list[int]:
        return codes(self.answer(self.commit(offsets, **how)))

    def txn_commit(
        self,
        producer_id: int,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = None,
        version: int = 5,
    ) -> list[int]:
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()],
        )
        return codes(self.answer(self.call("commit_offsets_in_transaction", request, version)))

    def fetch_token(
        self,
        topics: dict[str, list[int]] | None = None,
        *,
        group: str = "g",
        stable: bool = False,
        version: int = 9,
    ) -> int:
        if version < 8:
            asked = None
            if topics is not None:
                asked = [OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, parts in topics.items()]
            request = OffsetFetchRequest(group_id=group, topics=asked, require_stable=stable)
        else:
            wanted = None
            if topics is not None:
                wanted = [
                    OffsetFetchRequestTopics(
                        name=name, topic_id=self.cluster.topic_id(name) or bytes([99]) * 16, partition_indexes=parts
                    )
                    for name, parts in topics.items()
                ]
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)], require_stable=stable
            )
        return self.call("fetch_offsets", request, version)

    def fetch(self, topics: dict[str, list[int]] | None = None, **how: Any) -> dict[tuple[Any, int], tuple[int, int]]:
        """Partition to (offset, error code); by topic id at version 10."""
        version = how.get("version", 9)
        answer = self.answer(self.fetch_token(topics, **how))
        found = answer.topics if version < 8 else answer.groups[0].topics
        return {
            (topic.topic_id if version >= 10 else topic.name, each.partition_index): (
                each.committed_offset,
                each.error_code,
            )
            for topic in found
            for each in topic.partitions
        }

    def delete_offsets(self, partitions: Iterable[tuple[str, int]], *, group: str = "g") -> Any:
        by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[OffsetDeleteRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()],
        )
        return self.answer(self.call("delete_offsets", request, 0))

    def delete_groups(self, *groups: str) -> dict[str, int]:
        answer = self.answer(self.call("delete_groups", DeleteGroupsRequest(groups_names=list(groups)), 2))
        return {each.group_id: each.error_code for each in answer.results}

    def describe(self, group: str = "g", version: int = 6) -> Any:
        request = DescribeGroupsRequest(groups=[group])
        return self.answer(self.call("describe_groups", request, version)).groups[0]

    def listed(self, states: list[str] | None = None, types: list[str] | None = None) -> list[Any]:
        request = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
        return self.answer(self.call("list_groups", request, 5)).groups

    # -- whole walks -------------------------------------------------------------------------------------------------

    def make_topic(self, name: str, partitions: int) -> None:
        self.cluster.known[name] = (bytes([100 + len(self.cluster.known)]) * 16, partitions)
        self.shard.topics_changed([name], self.now_ms)

    def delete_topic(self, name: str) -> None:
        del self.cluster.known[name]
        self.shard.topics_changed([name], self.now_ms)

    def settle_beating(self, *clients: Any, beats: int = 12) -> None:
        """Members of the newer protocols: everybody beats until nothing changes any more."""
        for _ in range(beats):
            self.now_ms += 1
            for client in clients:
                client.beat()

    def group(self, name: str = "g") -> ClassicGroup:
        group = self.shard.groups[name]
        assert isinstance(group, ClassicGroup)
        return group

    def until(self, *tokens: int) -> list[Any]:
        """Let the time pass until these are answered."""
        for _ in range(1_000):
            if not any(self.is_waiting(token) for token in tokens):
                return [self.answer(token) for token in tokens]
            self.advance(500)
        raise AssertionError("no answer comes")

    def settle(self, *members: str, group: str = "g", **how: Any) -> int:
        """Let these members (ids or new ones) come together until the group is stable; gives the generation."""
        tokens = {member: self.join(member, group=group, **how) for member in members}
        self.until(*tokens.values())
        generation = self.answer(next(iter(tokens.values()))).generation_id
        leader = self.answer(next(iter(tokens.values()))).leader
        assignments = {member: member.encode() for member in members}
        protocol = self.group(group).protocol_name
        for member in sorted(members, key=lambda each: each == leader):
            self.sync(member, generation, assignments, group=group, protocol=protocol)
        return generation


def codes(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def read(stored: Stored) -> tuple[Any, Any]:
    key = decode_key(KINDS, stored.key)
    assert key is not None
    return key, None if stored.value is None else decode_value(KINDS[type(key)], stored.value)


def durable(shard: GroupShard) -> Any:
    """All that must survive: every group's last record, every offset, every pending offset."""
    groups = {name: group.stored for name, group in shard.groups.items() if isinstance(group, ClassicGroup)}
    return groups, shard.offsets._committed, shard.offsets._pending, shard.offsets._open


def subscription(*topics: str) -> bytes:
    """What a consumer tells in JoinGroup: version 0, topics, no user data."""
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


@pytest.fixture
def make_world() -> Callable[..., World]:
    return World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def subscribed() -> Callable[..., bytes]:
    return subscription
