"""aiokafka's start() reaches the cluster, or raises KafkaConnectionError."""

from __future__ import annotations

from typing import Any

from ottla.client.network import NetworkClient
from ottla.compat.aiokafka.errors import KafkaConnectionError, theirs
from ottla.errors import AuthenticationFailed, OttlaError


async def wait_for_cluster(network: NetworkClient, servers: Any, limit_ms: float) -> None:
    """Until the cluster has described itself; the first failure of all addresses ends it, as there."""
    try:
        await network.start()
        await network.refresh_metadata(timeout_ms=limit_ms)
    except AuthenticationFailed as error:
        raise theirs(error) from error
    except (OttlaError, TimeoutError) as error:
        raise KafkaConnectionError(f"Unable to bootstrap from {servers}") from error
