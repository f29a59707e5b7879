"""What clients push of themselves (broker/telemetry): who they are, how they behave, and their numbers.

CLIENTS_LIMIT clients are shown, those that were heard last, and SERIES_LIMIT of their numbers; how many were left out
here or when they came is shown, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.observe.state.readings import Readings

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.telemetry.instances import ClientInstance

CLIENTS_LIMIT: Final = 1_000
SERIES_LIMIT: Final = 5_000
_KAFKA: Final = "kafka_server_client_metrics_"
_OF_CLIENTS: Final = (f"{_KAFKA}throttle_count", f"{_KAFKA}plugin_export_count", f"{_KAFKA}plugin_error_count")
_INFO: Final = "ottla_client_info"
_METRIC: Final = "ottla_client_metric"


def read_clients(broker: Broker, out: Readings) -> None:
    out.none(*_OF_CLIENTS, _INFO, _METRIC)
    telemetry = broker.__dict__.get("telemetry")  # asking for it would make it
    clients = [] if telemetry is None else list(telemetry.clients())
    out.put(f"{_KAFKA}instance_count", len(clients))
    out.put(f"{_KAFKA}unknown_subscription_request_count", telemetry.unknown_subscription_count if telemetry else 0)
    out.put("ottla_client_metrics_left_out_total", telemetry.left_out_count if telemetry else 0)
    room = SERIES_LIMIT
    for client in reversed(clients[-CLIENTS_LIMIT:]):
        room = _read_client(client, out, room)


def _read_client(client: ClientInstance, out: Readings, room: int) -> int:
    facts = client.facts
    counts = client.throttled_count, client.pushed_count, client.failed_count
    for name, count in zip(_OF_CLIENTS, counts, strict=True):
        out.put(name, count, facts.client_instance_id)
    out.put(
        _INFO,
        1,
        facts.client_instance_id,
        facts.client_id,
        facts.client_software_name,
        facts.client_software_version,
        facts.client_source_address,
        client.principal,
    )
    for metric, attributes, value in client.received.series():
        if room <= 0:
            break
        about = ",".join(f"{name}={text}" for name, text in attributes)
        out.put(_METRIC, value, facts.client_instance_id, facts.client_id, metric, about)
        room -= 1
    return room
