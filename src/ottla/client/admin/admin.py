"""The admin client for programs without asyncio: the calls of AsyncAdmin, each of which waits.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topics([NewTopic("clicks", num_partitions=6)])
        print(admin.describe_topics(["clicks"]))

The calls are those of AsyncAdmin, listed here once more by name only: arguments, results and texts are theirs.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.loop import BackgroundLoop
from ottla.metrics import MetricKey

P = ParamSpec("P")
T = TypeVar("T")


def _waits(method: Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Admin, P], T]:
    """The same call, carried out on the background loop while the caller waits."""

    @functools.wraps(method)
    def call(self: Admin, /, *args: P.args, **named: P.kwargs) -> T:
        return self._loop.run(method(self._async, *args, **named))

    return call


class Admin:
    """Questions and orders to a cluster."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        self._async = AsyncAdmin(config, **settings)  # type: ignore[arg-type]  # settings are checked by name
        self._loop = BackgroundLoop("ottla admin", asyncio.new_event_loop)  # fast enough, nothing to load
        self._loop.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, timeout: float = 30.0) -> None:
        """End the connections and the background loop; calling it twice does no harm."""
        if not self._loop.is_closed:
            try:
                self._loop.run(self._async.close(timeout), timeout)
            finally:
                self._loop.close(timeout)

    def metrics(self) -> dict[MetricKey, float]:
        """Numbers of the connections, under Java's names."""
        return self._async.metrics()

    create_topics = _waits(AsyncAdmin.create_topics)
    delete_topics = _waits(AsyncAdmin.delete_topics)
    delete_topics_by_id = _waits(AsyncAdmin.delete_topics_by_id)
    list_topics = _waits(AsyncAdmin.list_topics)
    describe_topics = _waits(AsyncAdmin.describe_topics)
    describe_topics_by_id = _waits(AsyncAdmin.describe_topics_by_id)
    create_partitions = _waits(AsyncAdmin.create_partitions)
    delete_records = _waits(AsyncAdmin.delete_records)
    list_offsets = _waits(AsyncAdmin.list_offsets)
    describe_configs = _waits(AsyncAdmin.describe_configs)
    incremental_alter_configs = _waits(AsyncAdmin.incremental_alter_configs)
    alter_configs = _waits(AsyncAdmin.alter_configs)
    list_config_resources = _waits(AsyncAdmin.list_config_resources)
    list_client_metrics_resources = _waits(AsyncAdmin.list_client_metrics_resources)
    describe_cluster = _waits(AsyncAdmin.describe_cluster)
    describe_features = _waits(AsyncAdmin.describe_features)
    update_features = _waits(AsyncAdmin.update_features)
    describe_log_dirs = _waits(AsyncAdmin.describe_log_dirs)
    describe_replica_log_dirs = _waits(AsyncAdmin.describe_replica_log_dirs)
    alter_replica_log_dirs = _waits(AsyncAdmin.alter_replica_log_dirs)
    describe_metadata_quorum = _waits(AsyncAdmin.describe_metadata_quorum)
    elect_leaders = _waits(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = _waits(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = _waits(AsyncAdmin.list_partition_reassignments)
    list_groups = _waits(AsyncAdmin.list_groups)
    list_consumer_groups = _waits(AsyncAdmin.list_consumer_groups)
    describe_consumer_groups = _waits(AsyncAdmin.describe_consumer_groups)
    delete_consumer_groups = _waits(AsyncAdmin.delete_consumer_groups)
    remove_members_from_consumer_group = _waits(AsyncAdmin.remove_members_from_consumer_group)
    list_consumer_group_offsets = _waits(AsyncAdmin.list_consumer_group_offsets)
    alter_consumer_group_offsets = _waits(AsyncAdmin.alter_consumer_group_offsets)
    delete_consumer_group_offsets = _waits(AsyncAdmin.delete_consumer_group_offsets)
    describe_classic_groups = _waits(AsyncAdmin.describe_classic_groups)
    describe_share_groups = _waits(AsyncAdmin.describe_share_groups)
    list_share_group_offsets = _waits(AsyncAdmin.list_share_group_offsets)
    alter_share_group_offsets = _waits(AsyncAdmin.alter_share_group_offsets)
    delete_share_group_offsets = _waits(AsyncAdmin.delete_share_group_offsets)
    delete_share_groups = _waits(AsyncAdmin.delete_share_groups)
    describe_streams_groups = _waits(AsyncAdmin.describe_streams_groups)
    delete_streams_groups = _waits(AsyncAdmin.delete_streams_groups)
    list_transactions = _waits(AsyncAdmin.list_transactions)
    describe_transactions = _waits(AsyncAdmin.describe_transactions)
    describe_producers = _waits(AsyncAdmin.describe_producers)
    abort_transaction = _waits(AsyncAdmin.abort_transaction)
    fence_producers = _waits(AsyncAdmin.fence_producers)
    end_transaction = _waits(AsyncAdmin.end_transaction)
    send_offsets_to_transaction = _waits(AsyncAdmin.send_offsets_to_transaction)
    describe_acls = _waits(AsyncAdmin.describe_acls)
    create_acls = _waits(AsyncAdmin.create_acls)
    delete_acls = _waits(AsyncAdmin.delete_acls)
    describe_client_quotas = _waits(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = _waits(AsyncAdmin.alter_client_quotas)
    describe_user_scram_credentials = _waits(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = _waits(AsyncAdmin.alter_user_scram_credentials)
    create_delegation_token = _waits(AsyncAdmin.create_delegation_token)
    renew_delegation_token = _waits(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = _waits(AsyncAdmin.expire_delegation_token)
    describe_delegation_tokens = _waits(AsyncAdmin.describe_delegation_tokens)
