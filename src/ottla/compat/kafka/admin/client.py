"""KafkaAdminClient over ours: kafka-python's arguments, plain dictionaries back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from time import monotonic, sleep
from typing import Any, ClassVar, Final, Self

from ottla.client.admin import topics
from ottla.client.admin.admin import Admin
from ottla.client.admin.plans import PartlyFailed
from ottla.compat.kafka import settings
from ottla.compat.kafka.acls import (
    ACLOperation,
)
from ottla.compat.kafka.admin.access import AccessCalls
from ottla.compat.kafka.admin.cluster import ClusterCalls, seconds
from ottla.compat.kafka.admin.configs import ConfigCalls
from ottla.compat.kafka.admin.groups import GroupCalls, failures
from ottla.compat.kafka.admin.values import (
    NewPartitions,
    new_topics,
)
from ottla.compat.kafka.bootstrap import wait_for_cluster
from ottla.compat.kafka.errors import KafkaConfigurationError, KafkaTimeoutError, for_code, theirs, translates
from ottla.errors import OttlaError
from ottla.values import TopicPartition

POLL_S: Final = 0.1


class KafkaAdminClient(GroupCalls, ConfigCalls, ClusterCalls, AccessCalls):
    """See the module."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = settings.ADMIN

    def __init__(self, **configs: Any) -> None:
        if unknown := set(configs) - set(self.DEFAULT_CONFIG):
            raise KafkaConfigurationError(f"Unrecognized configs: {unknown}")
        self.config = {**self.DEFAULT_CONFIG, **configs}
        self._ours = Admin(**settings.ours(configs, self.DEFAULT_CONFIG))
        try:
            wait_for_cluster(self._ours._loop, self._ours._async._network, self.config)
        except BaseException:
            self.close()
            raise

    # --- topics ---

    def create_topics(
        self,
        new_topics: Any,
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> dict[str, Any]:
        """A list of names or of NewTopic, or {name: {num_partitions, replication_factor, assignments, configs}}."""
        if validate_only and wait_for_metadata:
            raise ValueError("validate_only and wait_for_metadata are mutually exclusive")
        wanted = _topics_of(new_topics)
        made, failed = self._made(wanted, validate_only, seconds(timeout_ms))
        if failed and raise_errors:
            raise theirs(next(iter(failed.values())))
        if wait_for_metadata:
            self.wait_for_topics(list(made))
        return {"topics": [_created(each.name, made.get(each.name), failed.get(each.name)) for each in wanted]}

    def _made(
        self, wanted: list[topics.NewTopic], validate_only: bool, limit: float | None
    ) -> tuple[dict[str, topics.CreatedTopic], dict[str, BaseException]]:
        try:
            return self._ours.create_topics(wanted, validate_only=validate_only, timeout=limit), {}
        except PartlyFailed as error:
            return error.succeeded, dict(error.failed)
        except OttlaError as error:
            if len(wanted) != 1:
                raise
            return {}, {wanted[0].name: error}

    def delete_topics(
        self, topics: Iterable[str | uuid.UUID], timeout_ms: float | None = None, raise_errors: bool = True
    ) -> dict[str, Any]:
        wanted = list(topics)
        names = [each for each in wanted if isinstance(each, str)]
        ids = [each.bytes for each in wanted if isinstance(each, uuid.UUID)]
        limit = seconds(timeout_ms)
        failed: dict[Any, BaseException] = {}
        if names:
            failed |= failures(lambda: self._ours.delete_topics(names, timeout=limit), names, lambda each: each)
        if ids:
            failed |= failures(lambda: self._ours.delete_topics_by_id(ids, timeout=limit), ids, lambda each: each)
        if failed and raise_errors:
            raise theirs(next(iter(failed.values())))
        return {"topics": [{"name": each, **_code(failed.get(each))} for each in [*names, *ids]]}

    def wait_for_topics(self, topic_names: Iterable[str], timeout_ms: float = 10_000) -> None:
        """Until every partition of the topics has a leader."""
        wanted = list(topic_names)
        deadline = monotonic() + timeout_ms / 1000
        while pending := [name for name in wanted if not self._is_ready(name)]:
            if monotonic() >= deadline:
                raise KafkaTimeoutError(f"Topics not ready after {timeout_ms}ms: {pending}")
            sleep(POLL_S)

    def _is_ready(self, name: str) -> bool:
        try:
            found = self._ours.describe_topics([name])[name]
        except OttlaError:
            return False
        return bool(found.partitions) and all(each.leader is not None for each in found.partitions)

    def list_topics(self) -> list[str]:
        return sorted(self._ours.list_topics(include_internal=True))

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Topics with their partitions; one that is not there has its error_code."""
        wanted = self.list_topics() if topics is None else list(topics)
        found: dict[str, Any] = {}
        failed: dict[Any, BaseException] = {}
        try:
            found = self._ours.describe_topics(wanted, include_authorized_operations=True) if wanted else {}
        except PartlyFailed as error:
            found, failed = error.succeeded, dict(error.failed)
        except OttlaError as error:
            if len(wanted) != 1:
                raise
            failed = {wanted[0]: error}
        return [_topic(found[name]) if name in found else _missing(name, failed[name]) for name in wanted]

    def describe_topic_partitions(
        self, topics: Iterable[str], response_partition_limit: int = 2000, cursor: Any = None
    ) -> dict[str, Any]:
        """All partitions in one answer: there is never a next cursor."""
        found = self.describe_topics(topics)
        if cursor is not None:
            found = [each for each in found if each["name"] >= cursor["topic_name"]]
        return {"topics": found, "next_cursor": None}

    def create_partitions(
        self,
        topic_partitions: Mapping[str, Any],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> dict[str, Any]:
        """{topic: count}, {topic: {count, assignments}} or {topic: NewPartitions}."""
        counts, chosen = _counts(topic_partitions)
        failed = failures(
            lambda: self._ours.create_partitions(
                counts, assignments=chosen, validate_only=validate_only, timeout=seconds(timeout_ms)
            ),
            counts,
            lambda each: each,
        )
        if failed and raise_errors:
            raise theirs(next(iter(failed.values())))
        return {"results": [{"name": name, **_code(failed.get(name))} for name in counts]}

    def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
        partition_leader_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, int]]:
        found = self._ours.delete_records(records_to_delete, timeout=seconds(timeout_ms))
        return {
            each: {"partition_index": each.partition, "low_watermark": low, "error_code": 0}
            for each, low in found.items()
        }

    def close(self) -> None:
        self._ours.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


for _part in (GroupCalls, ConfigCalls, ClusterCalls, AccessCalls, KafkaAdminClient):
    translates(_part)
_topics_of = new_topics


def _code(error: BaseException | None) -> dict[str, Any]:
    if error is None:
        return {"error_code": 0, "error_message": None}
    return {"error_code": getattr(theirs(error), "errno", None) or -1, "error_message": str(error)}


def _created(name: str, made: topics.CreatedTopic | None, error: BaseException | None) -> dict[str, Any]:
    shown = {"name": name, **_code(error)}
    if made is None:
        return shown
    return shown | {
        "topic_id": None if made.topic_id is None else uuid.UUID(bytes=made.topic_id),
        "num_partitions": -1 if made.num_partitions is None else made.num_partitions,
        "replication_factor": -1 if made.replication_factor is None else made.replication_factor,
        "configs": {key: {"value": value} for key, value in (made.configs or {}).items()},
    }


def _counts(wanted: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    counts, chosen = {}, {}
    for name, each in wanted.items():
        if isinstance(each, NewPartitions):
            counts[name], assigned = each.total_count, each.new_assignments
        elif isinstance(each, Mapping):
            counts[name], assigned = each["count"], each.get("assignments")
        else:
            counts[name], assigned = each, None
        if assigned:
            chosen[name] = assigned
    return counts, chosen


def _missing(name: str, error: BaseException) -> dict[str, Any]:
    code = getattr(theirs(error), "errno", None) or -1
    return {"error_code": code, "name": name, "topic_id": None, "is_internal": False, "partitions": []}


def _topic(each: topics.TopicDescription) -> dict[str, Any]:
    allowed = each.authorized_operations
    return {
        "error_code": 0,
        "name": each.name,
        "topic_id": None if each.topic_id is None else uuid.UUID(bytes=each.topic_id),
        "is_internal": each.is_internal,
        "partitions": [
            {
                "error_code": 0 if part.leader is not None else for_code(5).errno,
                "partition_index": part.partition,
                "leader_id": -1 if part.leader is None else part.leader,
                "leader_epoch": -1 if part.leader_epoch is None else part.leader_epoch,
                "replica_nodes": list(part.replicas),
                "isr_nodes": list(part.in_sync),
                "offline_replicas": list(part.offline),
            }
            for part in each.partitions
        ],
        "topic_authorized_operations": None if allowed is None else {ACLOperation(int(it)) for it in allowed},
    }
