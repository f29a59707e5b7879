"""Finalized features: what all brokers of the cluster have agreed to do.

1. A new cluster begins with the levels that a new Apache Kafka 4.3 cluster has, of the features that are served here.
   Only transaction.version changes what clients do; the others are read by tools and by the broker itself.
2. UpdateFeatures changes all features it names or none. A level must be understood by every broker; it is lowered only
   when the request says that this is meant.
3. metadata.version goes up and down only where no stored form changed, as in Kafka.
4. kraft.version is the level of a quorum of controllers, which Raft writes and no record of the image says. Whether it
   can be raised its leader knows, who hears it of the voters (raft/voter_changes.py); it is never lowered. A broker of
   its own keeps what it was formatted with, and a cluster on ZooKeeper has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final

from ottla.cluster.changes import Change, SetFeature
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import METADATA_VERSION, Broker, ControllerNode, FeatureRange, level_range
from ottla.cluster.plan import FINE, Plan, repeated
from ottla.errors import BrokerError, InvalidRequest, InvalidUpdateVersion
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
)

KRAFT_VERSION: Final = "kraft.version"
KRAFT_RANGE: Final = FeatureRange(KRAFT_VERSION, 0, 1)
ELR_VERSION: Final = "eligible.leader.replicas.version"

SUPPORTED: Final = (
    FeatureRange(ELR_VERSION, 0, 1),
    FeatureRange("group.version", 0, 1),
    FeatureRange(METADATA_VERSION, 7, 30),
    FeatureRange("share.version", 0, 1),
    FeatureRange("streams.version", 0, 1),
    FeatureRange("transaction.version", 0, 2),
)
"""What a broker of this version understands, with Kafka 4.3's numbers."""

FEATURES: Final = tuple(sorted((*SUPPORTED, KRAFT_RANGE)))
"""The same where there is a quorum of controllers."""

_CHANGES_STORED_FORM: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""Levels of metadata.version from which on more is stored than before; going back below one would lose it."""

_NEEDS_METADATA_VERSION: Final = {(ELR_VERSION, 1): 23}


class UpgradeType(IntEnum):
    """What an update may do."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def first_features(supported: Sequence[FeatureRange] = SUPPORTED) -> list[Change]:
    """The features a new cluster begins with: the highest levels."""
    return [SetFeature(each.name, each.max_level) for each in supported if each.max_level]


def finalized_features(image: ClusterImage) -> Mapping[str, int]:
    """Levels by name; their epoch is the image's change number. What a store kept of others is not listed."""
    known = {each.name for each in SUPPORTED}
    levels = {name: level for name, level in image.features.items() if name in known}
    return {**levels, KRAFT_VERSION: image.kraft_version} if image.kraft_version else levels


def supported_features(image: ClusterImage) -> tuple[FeatureRange, ...]:
    """What a broker of this version understands, in a cluster like that."""
    return FEATURES if image.kraft_version or image.controllers else SUPPORTED


def raised_kraft_version(changes: Iterable[Change]) -> int | None:
    """The level that a plan wants of the quorum, if it wants another one: who decides makes it true by Raft."""
    return next(
        (change.level for change in changes if isinstance(change, SetFeature) and change.name == KRAFT_VERSION), None
    )


def update_features(
    image: ClusterImage,
    request: UpdateFeaturesRequest,
    *,
    version: int,
    check_quorum: Callable[[int], None] | None = None,
) -> Plan[UpdatableFeatureResult]:
    """Raise or lower levels; a problem of one feature is raised, because it refuses the whole request. `check_quorum`
    raises what keeps the voters from another kraft.version; without it there is no quorum that could have one.

    The answers are for versions 0 and 1; from version 2 on there is only one result for all.
    """
    updates = request.feature_updates
    if twice := repeated(update.feature for update in updates):
        raise InvalidRequest(f"the features {', '.join(sorted(twice))} are named more than once")
    proposed = {**finalized_features(image), **{update.feature: update.max_version_level for update in updates}}
    for update in updates:
        _check_update(image, update, _upgrade_type(update, version), proposed)
        if update.feature == KRAFT_VERSION and update.max_version_level != image.kraft_version:
            if check_quorum is None:
                raise _invalid(update, f"this broker was formatted with {image.kraft_version}, and keeps it")
            check_quorum(update.max_version_level)
    changes = tuple(
        SetFeature(update.feature, update.max_version_level)
        for update in updates
        if update.feature != KRAFT_VERSION or update.max_version_level != image.kraft_version
    )
    answers = [UpdatableFeatureResult(feature=update.feature, **FINE) for update in updates]
    plan: Plan[UpdatableFeatureResult] = Plan(changes, answers)
    return plan.only_checked() if request.validate_only else plan


def _upgrade_type(update: FeatureUpdateKey, version: int) -> int:
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return update.upgrade_type


def _check_update(
    image: ClusterImage, update: FeatureUpdateKey, upgrade_type: int, proposed: Mapping[str, int]
) -> None:
    level, present = update.max_version_level, finalized_features(image).get(update.feature, 0)
    if upgrade_type not in tuple(UpgradeType):
        raise _invalid(update, "the controller does not support the given upgrade type")
    if level < 0:
        raise _invalid(update, "a feature version cannot be less than 0")
    if update.feature == KRAFT_VERSION and supported_features(image) != FEATURES:
        raise _invalid(update, "this cluster has no controller quorum whose version it could be; leave it out")
    _check_supported(image, update)
    if level < present and upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(update, "it can only be lowered with the upgrade type safe or unsafe downgrade")
    if level > present and upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, "cannot downgrade to a newer version")
    if update.feature == METADATA_VERSION and any(level < each <= present for each in _CHANGES_STORED_FORM):
        raise InvalidUpdateVersion(
            f"unsupported {METADATA_VERSION} downgrade from {present} to {level}: it might delete metadata information"
        )
    needed = _NEEDS_METADATA_VERSION.get((update.feature, level), 0)
    if proposed.get(METADATA_VERSION, 0) < needed:
        raise _invalid(update, f"it needs {METADATA_VERSION} {needed}")


def _check_supported(image: ClusterImage, update: FeatureUpdateKey) -> None:
    nodes: list[tuple[str, Broker | ControllerNode]] = [
        *((f"broker {broker.id}", broker) for broker in image.brokers.values()),
        *((f"controller {controller.id}", controller) for controller in image.controllers.values()),
    ]
    for name, node in nodes:
        known = level_range(node.features, update.feature)
        if not known.max_level:
            raise _invalid(update, f"{name} does not support this feature")
        if not (known.min_level <= update.max_version_level <= known.max_level):
            raise _invalid(update, f"{name} only supports versions {known.min_level}-{known.max_level}")


def _invalid(update: FeatureUpdateKey, why: str) -> BrokerError:
    return InvalidUpdateVersion(
        f"invalid update version {update.max_version_level} for feature {update.feature}: {why}"
    )
