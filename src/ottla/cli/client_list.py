"""Clients that push their metrics, read from the metrics of brokers (`ottla client list`).

Clients are in no answer of Kafka's protocol: brokers show them at their metrics addresses, as Prometheus reads them. A
client is listed once for each broker that it pushes to, which is one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ottla.light_tuples import NamedTuple

_SERIES: Final = re.compile(r"^(ottla_client_info|ottla_client_metric)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


class KnownClient(NamedTuple):
    instance_id: str
    client_id: str
    software: str
    host: str
    principal: str


class Number(NamedTuple):
    """What a client said last of one metric."""

    instance_id: str
    client_id: str
    metric: str
    attributes: str
    value: float


def clients_of(text: str) -> tuple[list[KnownClient], list[Number]]:
    """The clients and their numbers in a text of Prometheus."""
    clients, numbers = [], []
    for name, labels, value in _SERIES.findall(text):
        found = dict(_labels(labels))
        named = found.get("client_instance_id", ""), found.get("client_id", "")
        if name == "ottla_client_metric":
            numbers.append(Number(*named, found.get("metric", ""), found.get("attributes", ""), float(value)))
            continue
        software = f"{found.get('software_name', '')} {found.get('software_version', '')}".strip()
        clients.append(KnownClient(*named, software, found.get("host", ""), found.get("principal", "")))
    return clients, numbers


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _LABEL.findall(text):
        yield name, _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
