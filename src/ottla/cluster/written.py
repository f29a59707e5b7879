"""Changes as JSON, and an image as changes.

1. Every change has a kind and a version in its JSON form. One that this version of Ottla does not know is
   UnknownChange, which says who wrote it: guessing would silently lose what somebody was told is done.
2. `changes_for` returns changes that make an image out of an empty one: a snapshot is nothing but that list, so there
   is only one form to read, and a snapshot cannot hold what a change cannot make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import ottla
from ottla.cluster.changes import (
    AddPartitions,
    AllocateProducerIds,
    AlterConfig,
    Change,
    ChangePartition,
    CreateAcl,
    CreateTopic,
    RegisterBroker,
    RegisterController,
    RemoveAcl,
    RemoveTopic,
    SetController,
    SetFeature,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
    UnregisterBroker,
    apply_all,
)
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.json_values import MalformedValue, from_json, to_json
from ottla.cluster.model import METADATA_VERSION
from ottla.errors import OttlaError
from ottla.light_dataclasses import replace


class UnknownChange(OttlaError):
    """The metadata was written by a newer version of Ottla, so this one does not touch it.
    Start the version that wrote it, or a newer one."""


VERSION: Final = 1
"""Of every kind so far. A kind whose meaning changes gets a higher one of its own."""

_KINDS: Final[Mapping[str, type]] = {
    "register-broker": RegisterBroker,
    "unregister-broker": UnregisterBroker,
    "register-controller": RegisterController,
    "set-controller": SetController,
    "create-topic": CreateTopic,
    "remove-topic": RemoveTopic,
    "add-partitions": AddPartitions,
    "change-partition": ChangePartition,
    "alter-config": AlterConfig,
    "set-feature": SetFeature,
    "set-quota": SetQuota,
    "set-scram-credential": SetScramCredential,
    "create-acl": CreateAcl,
    "remove-acl": RemoveAcl,
    "set-stored-value": SetStoredValue,
    "allocate-producer-ids": AllocateProducerIds,
}
_KIND_OF: Final = {of: kind for kind, of in _KINDS.items()}


def write_change(change: Change) -> dict[str, Any]:
    """The JSON form: its kind, its version, and its fields."""
    return {"kind": _KIND_OF[type(change)], "version": VERSION, **to_json(change)}


def read_change(data: Any, *, written_by: str) -> Change:
    """The change; `written_by` is the version of Ottla that wrote it, for the error."""
    if not isinstance(data, dict):
        raise MalformedValue(f"a change must be an object, not {type(data).__name__}")
    kind, version = data.get("kind"), data.get("version")
    of = _KINDS.get(kind) if isinstance(kind, str) else None
    if of is None or version != VERSION:
        raise UnknownChange(
            f"a change of kind {kind!r} version {version!r} was written by Ottla {written_by}; "
            f"this is Ottla {ottla.__version__}"
        )
    change: Change = from_json(of, {name: item for name, item in data.items() if name not in ("kind", "version")})
    return change


# --- an image as changes ---------------------------------------------------------------------------------------------


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


def rebuilt(
    cluster_id: str,
    changes: Sequence[Change],
    change_number: int,
    apply_all: Callable[[ClusterImage, Sequence[Change]], ClusterImage] = apply_all,
) -> ClusterImage:
    """The image that `changes_for` was made from."""
    return replace(apply_all(ClusterImage(cluster_id), changes), change_number=change_number)
