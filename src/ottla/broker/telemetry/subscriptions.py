"""Which metrics are asked of a client: the `client-metrics` resources that match it, put together.

1. A resource matches a client when every pattern of its `match` matches the whole of that property; one without
   patterns matches every client. Patterns are matched in time that grows with the text (patterns).
2. What matching resources ask for is joined; `*` swallows the rest. The shortest interval counts, and none is longer
   than five minutes.
3. The id of a subscription changes when its metrics or its interval do, and is another one for every client.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.budget import BudgetExceeded
from ottla.cluster.client_metrics import ClientMetricsSettings, match_of
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ResourceType
from ottla.errors import InvalidRegularExpression
from ottla.light_tuples import NamedTuple
from ottla.patterns.patterns import Automaton, compile_pattern
from ottla.records.checksum import crc32c

log = logging.getLogger(__name__)

INTERVAL_MS: Final = 300_000
EVERYTHING: Final = "*"


class ClientFacts(NamedTuple):
    """What a client is known by; the names are those of `match`."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Subscription(NamedTuple):
    """One `client-metrics` resource."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Automaton]

    def is_for(self, facts: ClientFacts) -> bool:
        try:
            return all(pattern.matches(getattr(facts, name)) for name, pattern in self.match.items())
        except BudgetExceeded:
            return False  # what a client calls itself can be long and the pattern clever


class Wanted(NamedTuple):
    """What one client is asked for; no metrics mean that it only asks again after the interval."""

    metrics: tuple[str, ...]
    interval_ms: int
    id: int


def subscriptions_of(image: ClusterImage) -> list[Subscription]:
    """All that the cluster has, by name."""
    found = []
    for resource, values in image.configs.items():
        if resource.type != ResourceType.CLIENT_METRICS or not values:
            continue
        settings = ClientMetricsSettings(values)
        try:
            match = {name: compile_pattern(pattern) for name, pattern in match_of(settings.match).items()}
        except InvalidRegularExpression as problem:
            # Checked when it was set; another broker of the cluster (Kafka's, on ZooKeeper) may know other patterns.
            log.warning("the client-metrics resource %s matches no client here: %s", resource.name, problem)
            continue
        found.append(Subscription(settings.metrics, settings.interval_ms, match))
    return found


def wanted_of(facts: ClientFacts, subscriptions: Iterable[Subscription]) -> Wanted:
    matching = [each for each in subscriptions if each.is_for(facts)]
    names = {name for each in matching for name in each.metrics}
    metrics = (EVERYTHING,) if EVERYTHING in names else tuple(sorted(names))
    interval_ms = min([INTERVAL_MS, *(each.interval_ms for each in matching)])
    return Wanted(metrics, interval_ms, _id_of(metrics, interval_ms, facts.client_instance_id))


def _id_of(metrics: tuple[str, ...], interval_ms: int, instance_id: str) -> int:
    asked = crc32c(",".join((*metrics, str(interval_ms))).encode()) ^ crc32c(instance_id.encode())
    return asked - 2**32 if asked >= 2**31 else asked
