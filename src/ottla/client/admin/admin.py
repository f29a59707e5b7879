"""The admin client for programs without asyncio: the calls of AsyncAdmin, each of which waits.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topics([NewTopic("clicks", num_partitions=6)])
        print(admin.describe_topics(["clicks"]))

The calls are those of AsyncAdmin, listed here once more by name only: arguments, results and texts are theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from ottla.client.admin.calls import AdminCalls

if TYPE_CHECKING:
    from ottla.metrics import MetricKey

P = ParamSpec("P")
T = TypeVar("T")


def _waits(method: Callable[Concatenate[AdminCalls, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Admin, P], T]:
    """The same call, carried out on the background loop while the caller waits."""

    @functools.wraps(method)
    def call(self: Admin, /, *args: P.args, **named: P.kwargs) -> T:
        return self._run(method(self._calls(), *args, **named))

    return call


class Admin:
    """Questions and orders to a cluster."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        import asyncio

        from ottla.client.admin.async_admin import AsyncAdmin
        from ottla.client.loop import BackgroundLoop

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

    def _calls(self) -> AdminCalls:
        return self._async

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(call)

    create_topics = _waits(AdminCalls.create_topics)
    delete_topics = _waits(AdminCalls.delete_topics)
    delete_topics_by_id = _waits(AdminCalls.delete_topics_by_id)
    list_topics = _waits(AdminCalls.list_topics)
    describe_topics = _waits(AdminCalls.describe_topics)
    describe_topics_by_id = _waits(AdminCalls.describe_topics_by_id)
    create_partitions = _waits(AdminCalls.create_partitions)
    delete_records = _waits(AdminCalls.delete_records)
    list_offsets = _waits(AdminCalls.list_offsets)
    describe_configs = _waits(AdminCalls.describe_configs)
    incremental_alter_configs = _waits(AdminCalls.incremental_alter_configs)
    alter_configs = _waits(AdminCalls.alter_configs)
    list_config_resources = _waits(AdminCalls.list_config_resources)
    list_client_metrics_resources = _waits(AdminCalls.list_client_metrics_resources)
    describe_cluster = _waits(AdminCalls.describe_cluster)
    describe_features = _waits(AdminCalls.describe_features)
    update_features = _waits(AdminCalls.update_features)
    describe_log_dirs = _waits(AdminCalls.describe_log_dirs)
    describe_replica_log_dirs = _waits(AdminCalls.describe_replica_log_dirs)
    alter_replica_log_dirs = _waits(AdminCalls.alter_replica_log_dirs)
    describe_api_versions = _waits(AdminCalls.describe_api_versions)
    read_copies = _waits(AdminCalls.read_copies)
    unregister_broker = _waits(AdminCalls.unregister_broker)
    add_raft_voter = _waits(AdminCalls.add_raft_voter)
    remove_raft_voter = _waits(AdminCalls.remove_raft_voter)
    describe_metadata_quorum = _waits(AdminCalls.describe_metadata_quorum)
    elect_leaders = _waits(AdminCalls.elect_leaders)
    alter_partition_reassignments = _waits(AdminCalls.alter_partition_reassignments)
    list_partition_reassignments = _waits(AdminCalls.list_partition_reassignments)
    list_groups = _waits(AdminCalls.list_groups)
    list_consumer_groups = _waits(AdminCalls.list_consumer_groups)
    describe_consumer_groups = _waits(AdminCalls.describe_consumer_groups)
    delete_consumer_groups = _waits(AdminCalls.delete_consumer_groups)
    remove_members_from_consumer_group = _waits(AdminCalls.remove_members_from_consumer_group)
    list_consumer_group_offsets = _waits(AdminCalls.list_consumer_group_offsets)
    alter_consumer_group_offsets = _waits(AdminCalls.alter_consumer_group_offsets)
    delete_consumer_group_offsets = _waits(AdminCalls.delete_consumer_group_offsets)
    describe_classic_groups = _waits(AdminCalls.describe_classic_groups)
    describe_share_groups = _waits(AdminCalls.describe_share_groups)
    list_share_group_offsets = _waits(AdminCalls.list_share_group_offsets)
    alter_share_group_offsets = _waits(AdminCalls.alter_share_group_offsets)
    delete_share_group_offsets = _waits(AdminCalls.delete_share_group_offsets)
    delete_share_groups = _waits(AdminCalls.delete_share_groups)
    describe_streams_groups = _waits(AdminCalls.describe_streams_groups)
    delete_streams_groups = _waits(AdminCalls.delete_streams_groups)
    list_transactions = _waits(AdminCalls.list_transactions)
    describe_transactions = _waits(AdminCalls.describe_transactions)
    describe_producers = _waits(AdminCalls.describe_producers)
    abort_transaction = _waits(AdminCalls.abort_transaction)
    fence_producers = _waits(AdminCalls.fence_producers)
    end_transaction = _waits(AdminCalls.end_transaction)
    send_offsets_to_transaction = _waits(AdminCalls.send_offsets_to_transaction)
    describe_acls = _waits(AdminCalls.describe_acls)
    create_acls = _waits(AdminCalls.create_acls)
    delete_acls = _waits(AdminCalls.delete_acls)
    describe_client_quotas = _waits(AdminCalls.describe_client_quotas)
    alter_client_quotas = _waits(AdminCalls.alter_client_quotas)
    describe_user_scram_credentials = _waits(AdminCalls.describe_user_scram_credentials)
    alter_user_scram_credentials = _waits(AdminCalls.alter_user_scram_credentials)
    create_delegation_token = _waits(AdminCalls.create_delegation_token)
    renew_delegation_token = _waits(AdminCalls.renew_delegation_token)
    expire_delegation_token = _waits(AdminCalls.expire_delegation_token)
    describe_delegation_tokens = _waits(AdminCalls.describe_delegation_tokens)
