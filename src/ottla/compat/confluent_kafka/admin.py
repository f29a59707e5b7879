"""confluent_kafka.admin: AdminClient whose calls give a future for each thing, and the values they take."""

from __future__ import annotations

import concurrent.futures
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from ottla.client.admin import configs, groups, topics
from ottla.client.admin.admin import Admin
from ottla.client.admin.plans import PartlyFailed
from ottla.compat.confluent_kafka import acls as their_acls
from ottla.compat.confluent_kafka import scram
from ottla.compat.confluent_kafka.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from ottla.compat.confluent_kafka.cluster import (
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
    admin_settings,
    list_topics,
)
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException, exception_of
from ottla.compat.confluent_kafka.messages import TopicPartition
from ottla.compat.confluent_kafka.scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)
from ottla.compat.confluent_kafka.settings import merged, split
from ottla.errors import OttlaError
from ottla.values import OffsetAndMetadata

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AdminClient",
    "AlterConfigOpType",
    "BrokerMetadata",
    "ClusterMetadata",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConsumerGroupListing",
    "ListConsumerGroupsResult",
    "NewPartitions",
    "NewTopic",
    "PartitionMetadata",
    "ResourcePatternType",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramMechanism",
    "TopicMetadata",
    "UserScramCredentialAlteration",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "UserScramCredentialsDescription",
]

Future = concurrent.futures.Future
A = TypeVar("A", bound=AclBinding)


class NewTopic:
    """A topic to be made."""

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: Sequence[Sequence[int]] | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.topic = topic
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignment = replica_assignment or []
        self.config = config or {}

    @property
    def ours(self) -> topics.NewTopic:
        assignments = dict(enumerate(self.replica_assignment)) or None
        wanted = None if assignments or self.num_partitions < 0 else self.num_partitions
        factor = None if assignments or self.replication_factor < 0 else self.replication_factor
        return topics.NewTopic(
            self.topic, wanted, factor, {key: str(value) for key, value in self.config.items()}, assignments
        )


class NewPartitions:
    """More partitions for a topic."""

    def __init__(
        self, topic: str, new_total_count: int, replica_assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.topic = topic
        self.new_total_count = new_total_count
        self.replica_assignment = replica_assignment or []


_OUR_TYPES: Final = {
    ResourceType.TOPIC: configs.ConfigResourceType.TOPIC,
    ResourceType.GROUP: configs.ConfigResourceType.GROUP,
    ResourceType.BROKER: configs.ConfigResourceType.BROKER,
}
ConfigSource = configs.ConfigSource


class AlterConfigOpType(enum.Enum):
    """What to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEntry:
    """One setting."""

    def __init__(
        self,
        name: str,
        value: str | None,
        source: Any = ConfigSource.UNKNOWN,
        is_read_only: bool = False,
        is_default: bool = False,
        is_sensitive: bool = False,
        is_synonym: bool = False,
        synonyms: Sequence[Any] = (),
        incremental_operation: AlterConfigOpType | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.is_read_only = is_read_only
        self.is_default = is_default
        self.is_sensitive = is_sensitive
        self.is_synonym = is_synonym
        self.synonyms = synonyms
        self.incremental_operation = incremental_operation

    def __repr__(self) -> str:
        return f"ConfigEntry({self.name}={self.value!r})"

    def __str__(self) -> str:
        return f'{self.name}="{self.value}"'


class ConfigResource:
    """A thing with settings."""

    Type = ResourceType

    def __init__(
        self,
        restype: ResourceType | str,
        name: str,
        set_config: dict[str, str] | None = None,
        incremental_configs: Sequence[ConfigEntry] | None = None,
    ) -> None:
        self.restype = ResourceType[restype.upper()] if isinstance(restype, str) else restype
        self.name = name
        self.set_config_dict = dict(set_config or {})
        self.incremental_configs = list(incremental_configs or [])

    def set_config(self, name: str, value: str, overwrite: bool = True) -> None:
        if overwrite or name not in self.set_config_dict:
            self.set_config_dict[name] = value

    def add_incremental_config(self, entry: ConfigEntry) -> None:
        self.incremental_configs.append(entry)

    @property
    def ours(self) -> configs.ConfigResource:
        return configs.ConfigResource(_OUR_TYPES[self.restype], self.name)

    def __hash__(self) -> int:
        return hash((self.restype, self.name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfigResource):
            return NotImplemented
        return (self.restype, self.name) == (other.restype, other.name)

    def __repr__(self) -> str:
        return f"ConfigResource({self.restype.name}, {self.name})"


class ConsumerGroupListing:
    """A group in a list."""

    def __init__(self, listing: groups.GroupListing) -> None:
        self.group_id = listing.group_id
        self.is_simple_consumer_group = listing.protocol_type == ""
        self.state = listing.state
        self.type = listing.type


class ListConsumerGroupsResult:
    """The groups that answered, and what went wrong with the others."""

    def __init__(self, valid: list[ConsumerGroupListing], errors: list[KafkaException]) -> None:
        self.valid = valid
        self.errors = errors


class AdminClient:
    """Each call gives a dictionary of futures, one for each thing."""

    def __init__(self, conf: dict[str, Any] | None = None, /, **keywords: Any) -> None:
        settings, _ = split(merged(conf, keywords), {})
        try:
            self._ours = Admin(admin_settings(settings))
        except OttlaError as error:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from error
        self._settings = settings
        self._pool = concurrent.futures.ThreadPoolExecutor(4, thread_name_prefix="ottla-compat-admin")

    def poll(self, timeout: float = 0) -> int:
        return 0

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        return list_topics(self._settings, topic, timeout)

    def create_topics(
        self,
        new_topics: Sequence[NewTopic],
        operation_timeout: float = 0,
        request_timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[str, Future[None]]:
        def call() -> Any:
            return self._ours.create_topics(
                [each.ours for each in new_topics], validate_only=validate_only, timeout=request_timeout
            )

        return self._futures([each.topic for each in new_topics], call, lambda _: None)

    def delete_topics(
        self, topics: Sequence[str], operation_timeout: float = 0, request_timeout: float | None = None
    ) -> dict[str, Future[None]]:
        return self._futures(topics, lambda: self._ours.delete_topics(topics, timeout=request_timeout), lambda _: None)

    def create_partitions(
        self,
        new_partitions: Sequence[NewPartitions],
        operation_timeout: float = 0,
        request_timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[str, Future[None]]:
        counts = {each.topic: each.new_total_count for each in new_partitions}
        chosen = {each.topic: each.replica_assignment for each in new_partitions if each.replica_assignment}

        def call() -> Any:
            return self._ours.create_partitions(
                counts, assignments=chosen, validate_only=validate_only, timeout=request_timeout
            )

        return self._futures(list(counts), call, lambda _: None)

    def describe_configs(
        self,
        resources: Sequence[ConfigResource],
        request_timeout: float | None = None,
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        def call() -> Any:
            found = self._ours.describe_configs([each.ours for each in resources], timeout=request_timeout)
            return {each: found[each.ours] for each in resources}

        return self._futures(resources, call, lambda found: {name: _entry(each) for name, each in found.items()})

    def alter_configs(
        self,
        resources: Sequence[ConfigResource],
        request_timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[ConfigResource, Future[None]]:
        def call() -> Any:
            return self._ours.alter_configs(
                {each.ours: each.set_config_dict for each in resources},
                validate_only=validate_only,
                timeout=request_timeout,
            )

        return self._futures(resources, call, lambda _: None)

    def incremental_alter_configs(
        self,
        resources: Sequence[ConfigResource],
        request_timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[ConfigResource, Future[None]]:
        changes = {each.ours: [_change(entry) for entry in each.incremental_configs] for each in resources}

        def call() -> Any:
            return self._ours.incremental_alter_configs(changes, validate_only=validate_only, timeout=request_timeout)

        return self._futures(resources, call, lambda _: None)

    def list_consumer_groups(self, request_timeout: float | None = None) -> Future[ListConsumerGroupsResult]:
        def call() -> ListConsumerGroupsResult:
            found = self._ours.list_consumer_groups(timeout=request_timeout)
            return ListConsumerGroupsResult([ConsumerGroupListing(each) for each in found], [])

        return self._pool.submit(_translated, call)

    def describe_consumer_groups(
        self,
        group_ids: Sequence[str],
        request_timeout: float | None = None,
    ) -> dict[str, Future[groups.GroupDescription]]:
        def call() -> Any:
            return self._ours.describe_consumer_groups(group_ids, timeout=request_timeout)

        return self._futures(group_ids, call, lambda found: found)

    def delete_consumer_groups(
        self,
        group_ids: Sequence[str],
        request_timeout: float | None = None,
    ) -> dict[str, Future[None]]:
        def call() -> Any:
            return self._ours.delete_consumer_groups(group_ids, timeout=request_timeout)

        return self._futures(group_ids, call, lambda _: None)

    def delete_records(
        self,
        topic_partition_offsets: Iterable[TopicPartition],
        request_timeout: float | None = None,
    ) -> dict[TopicPartition, Future[Any]]:
        wanted = {each: each.offset for each in topic_partition_offsets}

        def call() -> Any:
            found = self._ours.delete_records(
                {each.ours: offset for each, offset in wanted.items()}, timeout=request_timeout
            )
            return {each: found[each.ours] for each in wanted}

        return self._futures(list(wanted), call, DeletedRecords)

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Iterable[TopicPartition], request_timeout: float | None = None
    ) -> Future[None]:
        wanted = {each.ours: OffsetAndMetadata(each.offset, each.metadata or "") for each in offsets}
        return self._pool.submit(
            _translated,
            lambda: self._ours.alter_consumer_group_offsets(group_id, wanted, timeout=request_timeout),
        )

    # --- access rules and users ---

    def create_acls(
        self, acls: Sequence[AclBinding], request_timeout: float | None = None
    ) -> dict[AclBinding, Future[None]]:
        rules = _all_of(AclBinding, acls)
        return self._futures(
            acls, lambda: self._ours.create_acls([each.ours for each in rules], timeout=request_timeout), lambda _: None
        )

    def describe_acls(
        self, acl_binding_filter: AclBindingFilter, request_timeout: float | None = None
    ) -> Future[list[AclBinding]]:
        (wanted,) = _all_of(AclBindingFilter, [acl_binding_filter])

        def call() -> list[AclBinding]:
            found = self._ours.describe_acls(wanted.ours, timeout=request_timeout)
            return [their_acls.theirs(each) for each in found]

        return self._pool.submit(_translated, call)

    def delete_acls(
        self, acl_binding_filters: Sequence[AclBindingFilter], request_timeout: float | None = None
    ) -> dict[AclBindingFilter, Future[list[AclBinding]]]:
        filters = _all_of(AclBindingFilter, acl_binding_filters)

        def call() -> Any:
            return self._ours.delete_acls([each.ours for each in filters], timeout=request_timeout)

        return self._futures(filters, call, lambda found: [their_acls.theirs(each) for each in found])

    def describe_user_scram_credentials(
        self, users: Sequence[str] | None = None, request_timeout: float | None = None
    ) -> Any:
        """A future of all users when none are named, else a future for each."""

        def call() -> dict[str, UserScramCredentialsDescription]:
            try:
                return scram.descriptions(self._ours.describe_user_scram_credentials(users, timeout=request_timeout))
            except PartlyFailed as error:
                raise PartlyFailed(scram.descriptions(error.succeeded), error.failed) from None

        if users is None:
            return self._pool.submit(_translated, call)
        return self._futures(users, call, lambda found: found)

    def alter_user_scram_credentials(
        self, alterations: Sequence[UserScramCredentialAlteration], request_timeout: float | None = None
    ) -> dict[str, Future[None]]:
        changes = [each.ours for each in alterations]
        return self._futures(
            dict.fromkeys(each.user for each in alterations),
            lambda: self._ours.alter_user_scram_credentials(changes, timeout=request_timeout),
            lambda _: None,
        )

    def describe_cluster(self, request_timeout: float | None = None) -> Future[Any]:
        return self._pool.submit(_translated, lambda: self._ours.describe_cluster(timeout=request_timeout))

    def _futures(
        self, keys: Iterable[Any], call: Callable[[], Any], made: Callable[[Any], Any]
    ) -> dict[Any, Future[Any]]:
        futures: dict[Any, Future[Any]] = {key: Future() for key in keys}
        for future in futures.values():
            future.set_running_or_notify_cancel()
        self._pool.submit(_share, futures, call, made)
        return futures

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        self._ours.close()


class DeletedRecords:
    """Where a partition begins now."""

    def __init__(self, low_watermark: int) -> None:
        self.low_watermark = low_watermark


def _share(futures: dict[Any, Future[Any]], call: Callable[[], Any], made: Callable[[Any], Any]) -> None:
    """Give each future its part of what the call gave or raised."""
    failed: dict[Any, BaseException] = {}
    found: Any = None
    try:
        found = call()
    except PartlyFailed as error:
        failed, found = dict(error.failed), error.succeeded
    except Exception as error:
        failed = dict.fromkeys(map(_key, futures), error)
    for key, future in futures.items():
        if (reason := failed.get(_key(key))) is not None:
            future.set_exception(exception_of(reason))
        else:
            future.set_result(made(found.get(key, found.get(_key(key))) if isinstance(found, dict) else found))


def _key(key: Any) -> Any:
    return key.ours if isinstance(key, ConfigResource | TopicPartition | AclBinding) else key


def _all_of(kind: type[A], values: Sequence[A]) -> list[A]:
    if not isinstance(values, list | tuple) or not all(isinstance(each, kind) for each in values):
        raise ValueError(f"Expected list of {kind!r}")
    return list(values)


def _translated(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (OttlaError, TimeoutError) as error:
        raise exception_of(error) from None


def _entry(each: configs.ConfigEntry) -> ConfigEntry:
    return ConfigEntry(
        each.name,
        each.value,
        each.source,
        is_read_only=each.is_read_only,
        is_default=each.is_default,
        is_sensitive=each.is_sensitive,
        synonyms=each.synonyms,
    )


def _change(entry: ConfigEntry) -> configs.AlterConfig:
    operation = entry.incremental_operation or AlterConfigOpType.SET
    return configs.AlterConfig(entry.name, entry.value, configs.AlterOperation[operation.name])
