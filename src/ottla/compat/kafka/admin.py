"""KafkaAdminClient over ours: the calls programs use, with kafka-python's arguments and plain dictionaries back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from ottla.client.admin import configs as our_configs
from ottla.client.admin import topics
from ottla.client.admin.admin import Admin
from ottla.client.admin.plans import PartlyFailed
from ottla.compat.kafka import acls as their_acls
from ottla.compat.kafka.acls import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from ottla.compat.kafka.errors import IllegalArgumentError, NoError
from ottla.compat.kafka.settings import ours
from ottla.compat.kafka.users import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from ottla.errors import OttlaError
from ottla.values import OffsetAndMetadata, TopicPartition, uuid_to_text

__all__ = [
    "ACL",
    "ACLFilter",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "ConfigResource",
    "ConfigResourceType",
    "KafkaAdminClient",
    "NewPartitions",
    "NewTopic",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "ScramMechanism",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]


class NewTopic:
    """A topic to be made."""

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}

    @property
    def ours(self) -> topics.NewTopic:
        chosen = dict(self.replica_assignments) or None
        count = None if chosen or self.num_partitions < 0 else self.num_partitions
        factor = None if chosen or self.replication_factor < 0 else self.replication_factor
        return topics.NewTopic(
            self.name, count, factor, {key: str(value) for key, value in self.topic_configs.items()}, chosen
        )


class NewPartitions:
    """More partitions for a topic."""

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments


ConfigResourceType = our_configs.ConfigResourceType


class ConfigResource:
    """A thing with settings."""

    def __init__(
        self, resource_type: our_configs.ConfigResourceType | str, name: str, configs: Mapping[str, str] | None = None
    ) -> None:
        self.resource_type = (
            our_configs.ConfigResourceType[resource_type.upper()] if isinstance(resource_type, str) else resource_type
        )
        self.name = name
        self.configs: dict[str, str] = dict(configs or {})

    @property
    def ours(self) -> our_configs.ConfigResource:
        return our_configs.ConfigResource(self.resource_type, self.name)


class KafkaAdminClient:
    """See the module."""

    def __init__(self, **configs: Any) -> None:
        self._ours = Admin(**ours(configs))

    def create_topics(
        self,
        new_topics: Iterable[NewTopic] | Mapping[str, Any],
        timeout_ms: float | None = None,
        validate_only: bool = False,
    ) -> dict[str, Any]:
        wanted = _new_topics(new_topics)
        made = self._ours.create_topics(wanted, validate_only=validate_only, timeout=_seconds(timeout_ms))
        return {
            "topics": [
                {"name": each.name, "num_partitions": each.num_partitions, "error_code": 0} for each in made.values()
            ]
        }

    def delete_topics(self, topics: Iterable[str], timeout_ms: float | None = None) -> dict[str, Any]:
        wanted = list(topics)
        self._ours.delete_topics(wanted, timeout=_seconds(timeout_ms))
        return {"responses": [{"name": name, "error_code": 0} for name in wanted]}

    def list_topics(self) -> list[str]:
        return sorted(self._ours.list_topics(include_internal=True))

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        wanted = self.list_topics() if topics is None else list(topics)
        return [_topic(each) for each in self._ours.describe_topics(wanted).values()]

    def create_partitions(
        self,
        topic_partitions: Mapping[str, Any],
        timeout_ms: float | None = None,
        validate_only: bool = False,
    ) -> None:
        counts = {
            name: each.total_count if isinstance(each, NewPartitions) else each
            for name, each in topic_partitions.items()
        }
        chosen = {
            name: each.new_assignments
            for name, each in topic_partitions.items()
            if isinstance(each, NewPartitions) and each.new_assignments
        }
        self._ours.create_partitions(
            counts, assignments=chosen, validate_only=validate_only, timeout=_seconds(timeout_ms)
        )

    def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
    ) -> dict[Any, dict[str, str | None]]:
        wanted = list(config_resources)
        found = self._ours.describe_configs([each.ours for each in wanted])
        return {each.name: {name: entry.value for name, entry in found[each.ours].items()} for each in wanted}

    def alter_configs(self, config_resources: Iterable[ConfigResource]) -> None:
        changes = {
            each.ours: [our_configs.AlterConfig(name, value) for name, value in each.configs.items()]
            for each in config_resources
        }
        self._ours.incremental_alter_configs(changes)

    def list_groups(self) -> list[dict[str, Any]]:
        return [
            {"group_id": each.group_id, "protocol_type": each.protocol_type, "group_state": each.state}
            for each in self._ours.list_groups()
        ]

    def list_consumer_groups(self) -> list[tuple[str, str]]:
        return [(each.group_id, each.protocol_type) for each in self._ours.list_consumer_groups()]

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, Any]:
        return dict(self._ours.describe_consumer_groups(list(group_ids)))

    describe_consumer_groups = describe_groups

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        self._ours.delete_consumer_groups(list(group_ids))

    delete_consumer_groups = delete_groups

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, Any]:
        wanted = None if partitions is None else list(partitions)
        return dict(self._ours.list_consumer_group_offsets(group_id, wanted))

    list_consumer_group_offsets = list_group_offsets

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Any]) -> None:
        self._ours.alter_consumer_group_offsets(
            group_id, {key: OffsetAndMetadata(each.offset, each.metadata) for key, each in offsets.items()}
        )

    def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, int]:
        return self._ours.delete_records(records_to_delete, timeout=_seconds(timeout_ms))

    def describe_cluster(self) -> dict[str, Any]:
        found = self._ours.describe_cluster()
        return {
            "cluster_id": found.cluster_id,
            "controller_id": found.controller,
            "brokers": [
                {"node_id": each.id, "host": each.host, "port": each.port, "rack": each.rack} for each in found.nodes
            ],
        }

    # --- access rules and users ---

    def describe_acls(self, acl_filter: ACLFilter) -> tuple[list[ACL], type[NoError]]:
        return [their_acls.theirs(each) for each in self._ours.describe_acls(acl_filter.ours)], NoError

    def create_acls(self, acls: Iterable[ACL]) -> dict[str, list[Any]]:
        wanted = list(acls)
        if not all(isinstance(each, ACL) for each in wanted):
            raise IllegalArgumentError("acls must contain ACL objects")
        failed = _failures(
            lambda: self._ours.create_acls([each.our_rule for each in wanted]), wanted, lambda each: each.our_rule
        )
        return {
            "succeeded": [each for each in wanted if each not in failed],
            "failed": [type(error) for error in failed.values()],
        }

    def delete_acls(self, acl_filters: Iterable[ACLFilter]) -> list[tuple[ACLFilter, list[ACL], type[OttlaError]]]:
        wanted = list(acl_filters)
        if not all(isinstance(each, ACLFilter) for each in wanted):
            raise IllegalArgumentError("acl_filters must contain ACLFilter type objects")
        removed: dict[Any, Any] = {}
        failed = _failures(
            lambda: removed.update(self._ours.delete_acls([each.ours for each in wanted])),
            wanted,
            lambda each: each.ours,
        )
        return [
            (each, [their_acls.theirs(rule) for rule in removed.get(each.ours, ())], type(failed.get(each, NoError())))
            for each in wanted
        ]

    def describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        wanted = None if users is None else list(users)
        try:
            found, failed = self._ours.describe_user_scram_credentials(wanted), {}
        except PartlyFailed as error:
            found, failed = error.succeeded, error.failed
        except OttlaError as error:
            if wanted is None or len(wanted) != 1:
                raise
            found, failed = {}, {wanted[0]: error}
        shown: dict[str, dict[str, Any]] = {
            user: {
                "error": None,
                "credential_infos": [{"mechanism": each.mechanism, "iterations": each.iterations} for each in infos],
            }
            for user, infos in found.items()
        }
        return shown | {user: {"error": str(error), "credential_infos": []} for user, error in failed.items()}

    def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialDeletion | UserScramCredentialUpsertion]
    ) -> dict[str, str | None]:
        wanted = list(alterations)
        users = list(dict.fromkeys(each.user for each in wanted))
        failed = _failures(
            lambda: self._ours.alter_user_scram_credentials([each.ours for each in wanted]), users, lambda user: user
        )
        return {user: str(failed[user]) if user in failed else None for user in users}

    def close(self) -> None:
        self._ours.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _failures(call: Callable[[], Any], things: Iterable[Any], key: Any) -> dict[Any, OttlaError]:
    """What went wrong with which thing; an error of the request itself is raised."""
    things = list(things)
    try:
        call()
    except PartlyFailed as error:
        return {each: error.failed[key(each)] for each in things if key(each) in error.failed}
    except OttlaError as error:
        if len(things) != 1:
            raise
        return {things[0]: error}
    return {}


def _new_topics(new: Any) -> list[topics.NewTopic]:
    if isinstance(new, Mapping):
        return [
            topics.NewTopic(name, each.get("num_partitions"), each.get("replication_factor"), each.get("configs") or {})
            for name, each in new.items()
        ]
    return [each.ours if isinstance(each, NewTopic) else topics.NewTopic(str(each)) for each in new]


def _topic(each: topics.TopicDescription) -> dict[str, Any]:
    return {
        "error_code": 0,
        "name": each.name,
        "topic": each.name,
        "topic_id": None if each.topic_id is None else uuid_to_text(each.topic_id),
        "is_internal": each.is_internal,
        "partitions": [
            {
                "partition": part.partition,
                "partition_index": part.partition,
                "leader": part.leader,
                "replicas": list(part.replicas),
                "isr": list(part.in_sync),
                "offline_replicas": list(part.offline),
            }
            for part in each.partitions
        ],
    }


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000
