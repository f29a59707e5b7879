"""AIOKafkaAdminClient over our asyncio admin client.

aiokafka gives the raw responses of brokers; here they are Response objects with the fields that aiokafka's documents
and examples read (topic_errors, topic_error_codes, resources, groups).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Literal, Self

from ottla.client.admin import configs as our_configs
from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.plans import PartlyFailed
from ottla.client.admin.topics import TopicDescription
from ottla.client.connections import COORDINATOR_IDS
from ottla.compat.aiokafka import settings
from ottla.compat.aiokafka.admin.config_resource import ConfigResource
from ottla.compat.aiokafka.admin.new_partitions import NewPartitions
from ottla.compat.aiokafka.admin.new_topic import NewTopic
from ottla.compat.aiokafka.admin.records_to_delete import RecordsToDelete
from ottla.compat.aiokafka.bootstrap import wait_for_cluster
from ottla.compat.aiokafka.consumer import VERSION
from ottla.compat.aiokafka.errors import IllegalOperation, theirs, translates
from ottla.compat.aiokafka.structs import OffsetAndMetadata
from ottla.errors import OttlaError
from ottla.values import TopicPartition


class Response(SimpleNamespace):
    """The answer of a broker, with the fields that matter."""


@translates
class AIOKafkaAdminClient:
    """See the module."""

    def __init__(
        self,
        *,
        loop: Any = None,
        bootstrap_servers: str | list[str] = "localhost",
        client_id: str = f"aiokafka-{VERSION}",
        request_timeout_ms: int = 40_000,
        connections_max_idle_ms: int = 540_000,
        retry_backoff_ms: int = 100,
        metadata_max_age_ms: int = 300_000,
        security_protocol: str = "PLAINTEXT",
        ssl_context: Any = None,
        api_version: Any = None,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: Any = None,
    ) -> None:
        self._settings = settings.common(dict(locals()))
        self._servers = bootstrap_servers
        self._ours: AsyncAdmin | None = None

    async def start(self) -> None:
        """Reach the cluster."""
        if self._ours is None:
            self._ours = AsyncAdmin(**self._settings)
            try:
                limit_ms = self._settings["request_timeout_ms"]
                await wait_for_cluster(self._ours._network, self._servers, limit_ms)
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        if self._ours is not None:
            await self._ours.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _started(self) -> AsyncAdmin:
        if self._ours is None:
            raise IllegalOperation("start() was not called")
        return self._ours

    # --- topics ---

    async def create_topics(
        self, new_topics: list[NewTopic], timeout_ms: int | None = None, validate_only: bool = False
    ) -> Response:
        failed = await _failures(
            self._started.create_topics(
                [each.ours for each in new_topics], validate_only=validate_only, timeout=_seconds(timeout_ms)
            ),
            [each.name for each in new_topics],
        )
        return Response(topic_errors=[(each.name, *_code(failed.get(each.name))) for each in new_topics])

    async def delete_topics(self, topics: list[str], timeout_ms: int | None = None) -> Response:
        failed = await _failures(self._started.delete_topics(topics, timeout=_seconds(timeout_ms)), topics)
        return Response(topic_error_codes=[(name, _code(failed.get(name))[0]) for name in topics])

    async def list_topics(self) -> list[str]:
        return list(await self._started.list_topics(include_internal=True))

    async def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]:
        wanted = await self.list_topics() if topics is None else list(topics)
        found: dict[str, TopicDescription] = {}
        failed: dict[Any, BaseException] = {}
        try:
            found = await self._started.describe_topics(wanted) if wanted else {}
        except PartlyFailed as error:
            found, failed = error.succeeded, dict(error.failed)
        except OttlaError as error:
            failed = dict.fromkeys(wanted, error)
        return [_topic(name, found.get(name), failed.get(name)) for name in wanted]

    async def create_partitions(
        self,
        topic_partitions: dict[str, NewPartitions],
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> Response:
        counts = {name: each.total_count for name, each in topic_partitions.items()}
        chosen = {name: each.new_assignments for name, each in topic_partitions.items() if each.new_assignments}
        await self._started.create_partitions(
            counts, assignments=chosen, validate_only=validate_only, timeout=_seconds(timeout_ms)
        )
        return Response(topic_errors=[(name, 0, None) for name in counts])

    async def delete_records(
        self, records_to_delete: dict[TopicPartition, RecordsToDelete], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        wanted = {each: it.before_offset for each, it in records_to_delete.items()}
        return await self._started.delete_records(wanted, timeout=_seconds(timeout_ms))

    # --- settings ---

    async def describe_configs(
        self, config_resources: list[ConfigResource], include_synonyms: bool = False
    ) -> list[Response]:
        wanted = [each.ours for each in config_resources]
        found = await self._started.describe_configs(wanted, include_synonyms=include_synonyms)
        rows = []
        for each in config_resources:
            names = set(each.configs) if each.configs else None
            entries = [_entry(it) for name, it in found[each.ours].items() if names is None or name in names]
            rows.append((0, None, int(each.resource_type), each.name, entries))
        return [Response(resources=rows)]

    async def alter_configs(self, config_resources: list[ConfigResource]) -> list[Response]:
        """All settings of a resource are replaced, as aiokafka's request does."""
        changes = {
            each.ours: {name: str(value) for name, value in (each.configs or {}).items()} for each in config_resources
        }
        failed = await _failures(self._started.alter_configs(changes), list(changes))
        rows = [(*_code(failed.get(each.ours)), int(each.resource_type), each.name) for each in config_resources]
        return [Response(resources=rows)]

    # --- the cluster and its groups ---

    async def describe_cluster(self) -> dict[str, Any]:
        found = await self._started.describe_cluster()
        return {
            "cluster_id": found.cluster_id,
            "controller_id": -1 if found.controller is None else found.controller,
            "brokers": [
                {"node_id": each.id, "host": each.host, "port": each.port, "rack": each.rack} for each in found.nodes
            ],
        }

    async def describe_consumer_groups(
        self,
        group_ids: list[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[Response]:
        found = await self._started.describe_consumer_groups(group_ids)
        groups = [
            (
                0,
                each.group_id,
                each.state,
                each.protocol_type,
                each.assignor,
                [(it.member_id, it.client_id, it.host, b"", b"") for it in each.members],
            )
            for each in found.values()
        ]
        return [Response(groups=groups)]

    async def list_consumer_groups(self, broker_ids: list[int] | None = None) -> list[tuple[Any, ...]]:
        found = await self._started.list_groups()
        if broker_ids is not None and found:
            described = await self._started.describe_consumer_groups([each.group_id for each in found])
            found = [each for each in found if described[each.group_id].coordinator in broker_ids]
        return [(each.group_id, each.protocol_type) for each in found]

    async def find_coordinator(self, group_id: str, coordinator_type: int = 0) -> int:
        ours = self._started
        kind: Literal["group", "transaction"] = "transaction" if coordinator_type else "group"
        limit_ms = self._settings["request_timeout_ms"]
        found = await ours._network.coordinator(kind, group_id, timeout_ms=limit_ms)
        return COORDINATOR_IDS - found.id if found.id > COORDINATOR_IDS // 2 else found.id

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: list[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        wanted = None if partitions is None else [TopicPartition(*each) for each in partitions]
        found = await self._started.list_consumer_group_offsets(group_id, wanted)
        return {
            each: OffsetAndMetadata(-1, "") if it is None else OffsetAndMetadata(it.offset, it.metadata)
            for each, it in found.items()
        }


async def _failures(call: Any, keys: Iterable[Any]) -> Mapping[Any, BaseException]:
    try:
        await call
    except PartlyFailed as error:
        return error.failed
    except OttlaError as error:
        return dict.fromkeys(keys, error)
    return {}


def _code(error: BaseException | None) -> tuple[int, str | None]:
    if error is None:
        return 0, None
    found = theirs(error)
    code = getattr(found, "errno", None)
    if code is None:
        raise found
    return code, str(error)


def _seconds(timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000


def _entry(entry: our_configs.ConfigEntry) -> tuple[Any, ...]:
    synonyms = [(each.name, each.value, int(each.source)) for each in entry.synonyms]
    return entry.name, entry.value, entry.is_read_only, int(entry.source), entry.is_sensitive, synonyms


def _topic(name: str, found: TopicDescription | None, error: BaseException | None) -> dict[str, Any]:
    if found is None:
        return {"error_code": _code(error)[0], "topic": name, "is_internal": False, "partitions": []}
    return {
        "error_code": 0,
        "topic": found.name,
        "is_internal": found.is_internal,
        "partitions": [
            {
                "error_code": 0,
                "partition": each.partition,
                "leader": -1 if each.leader is None else each.leader,
                "replicas": list(each.replicas),
                "isr": list(each.in_sync),
                "offline_replicas": list(each.offline),
            }
            for each in found.partitions
        ],
    }
