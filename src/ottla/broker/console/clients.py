"""Clients that push their own numbers to this broker (KIP-714), and asking them to.

1. A client pushes when a `client-metrics` resource of the cluster asks for it and its `enable.metrics.push` allows it.
   The console has a resource of its own, WATCH, which is there while somebody wants to see clients: every client that
   allows it then pushes its producer's and consumer's numbers once a second.
2. What is shown of a client are its numbers about itself; those about single topics, partitions and brokers are left
   out.
3. CLIENTS_LIMIT clients are shown, those that were heard last.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.broker.console.survey import in_slices
from ottla.broker.http.call import Call
from ottla.broker.http.parts import Json
from ottla.cluster.model import ConfigResource, ResourceType
from ottla.errors import raise_for_code
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.telemetry.instances import ClientInstance

WATCH: Final = "ottla-console"
WATCHED: Final = {"metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer.", "interval.ms": "1000"}
PREFIX: Final = "org.apache.kafka."
CLIENTS_LIMIT: Final = 100
SOFTWARE_LIMIT: Final = 50
SET: Final = 0
DELETE: Final = 1


async def client_list(broker: Broker) -> dict[str, Json]:
    """Who pushes, and with which libraries clients are connected."""
    known = list(broker.telemetry.clients())
    connections = broker.connections()
    software = Counter([each.client_software async for each in in_slices(connections, 500)])
    rows: list[Json] = [
        {"name": name, "version": version, "connections": count}
        for (name, version), count in software.most_common(SOFTWARE_LIMIT)
    ]
    return {
        "at_ms": broker.clock.now_ms(),
        "is_watching": is_watching(broker),
        "total": len(known),
        "clients": [_client(each) for each in islice(reversed(known), CLIENTS_LIMIT)],
        "connections": len(connections),
        "software": rows,
    }


def is_watching(broker: Broker) -> bool:
    return bool(broker.image.config(ConfigResource(ResourceType.CLIENT_METRICS, WATCH)))


def _client(instance: ClientInstance) -> Json:
    facts = instance.facts
    numbers: dict[str, Json] = {
        name.removeprefix(PREFIX): value for name, attributes, value in instance.received.series() if not attributes
    }
    return {
        "instance_id": facts.client_instance_id,
        "client_id": facts.client_id,
        "software": f"{facts.client_software_name} {facts.client_software_version}",
        "address": f"{facts.client_source_address}:{facts.client_source_port}",
        "principal": instance.principal,
        "pushed_count": instance.pushed_count,
        "interval_ms": instance.wanted.interval_ms,
        "numbers": numbers,
    }


async def watch_clients(call: Call, *, is_on: bool) -> None:
    """Ask all clients for their numbers, or not any more."""
    changes = [
        AlterableConfig(name=name, config_operation=SET if is_on else DELETE, value=value if is_on else None)
        for name, value in WATCHED.items()
    ]
    resource = AlterConfigsResource(resource_type=ResourceType.CLIENT_METRICS, resource_name=WATCH, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await call.ask(request, IncrementalAlterConfigsResponse)
    (found,) = answer.responses
    raise_for_code(found.error_code, found.error_message)
