"""An image as changes: `changes_for` returns those that make it out of an empty one.

A snapshot is nothing but that list, so there is only one form to read, and a snapshot cannot hold what a change cannot
make.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster.changes import (
    AllocateProducerIds,
    AlterConfig,
    Change,
    CreateAcl,
    CreateTopic,
    RegisterBroker,
    RegisterController,
    SetController,
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
)
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import METADATA_VERSION


def changes_for(image: ClusterImage) -> Iterator[Change]:
    """Changes that make the image out of an empty one of that cluster, but for its change number. They come in the
    order of Kafka's snapshots: what is written down how is said first, and nothing before what it is about."""
    features = sorted(image.features.items(), key=lambda feature: feature[0] != METADATA_VERSION)
    yield from (SetFeature(name, level) for name, level in features)
    yield from (RegisterBroker(broker) for broker in image.brokers.values())
    yield from (RegisterController(controller) for controller in image.controllers.values())
    if (image.controller_id, image.controller_epoch) != (NO_CONTROLLER, 0):
        yield SetController(image.controller_id, image.controller_epoch)
    yield from (CreateTopic(topic) for topic in image.topics_by_name.values())
    yield from (AlterConfig(resource, tuple(values.items())) for resource, values in image.configs.items())
    for entity, quotas in image.quotas.items():
        yield from (SetQuota(entity, key, value) for key, value in quotas.items())
    if image.next_producer_id:
        yield AllocateProducerIds(-1, -1, image.next_producer_id)
    yield from (CreateAcl(binding, image.acl_ids.get(binding)) for binding in image.acl_bindings())
    yield from (SetScramCredential(key, kept) for key, kept in image.scram_credentials.items())
    yield from (SetStoredValue(key, text) for key, text in image.stored_values.items())
