"""kafka-python's clients reach the cluster before their constructor returns, or raise KafkaTimeoutError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.loop import BackgroundLoop
from ottla.client.network import NetworkClient
from ottla.compat.kafka.errors import KafkaTimeoutError, theirs
from ottla.errors import AuthenticationFailed, OttlaError


def wait_for_cluster(loop: BackgroundLoop, network: NetworkClient, configs: Mapping[str, Any]) -> None:
    """Until the cluster has described itself; bootstrap_timeout_ms at most."""
    limit_ms = configs["bootstrap_timeout_ms"]
    try:
        loop.run(_described(network, limit_ms))
    except AuthenticationFailed as error:
        raise theirs(error) from error
    except (OttlaError, TimeoutError) as error:
        raise KafkaTimeoutError(f"Unable to bootstrap from {configs['bootstrap_servers']}") from error


async def _described(network: NetworkClient, limit_ms: float) -> None:
    await network.start()
    await network.wait_for(
        lambda metadata: None if metadata.is_bootstrapping else True,
        timeout_ms=limit_ms,
        what="waited for a description of the cluster",
    )
