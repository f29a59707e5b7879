"""UpdateFeatures."""

from __future__ import annotations

import pytest

from ottla.cluster.changes import Change, RegisterBroker, RegisterController, SetFeature, apply_all
from ottla.cluster.features import (
    FEATURES,
    SUPPORTED,
    finalized_features,
    first_features,
    raised_kraft_version,
    update_features,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, ControllerNode
from ottla.errors import InvalidRequest, InvalidUpdateVersion
from ottla.light_dataclasses import replace
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture
def image() -> ClusterImage:
    return apply_all(ClusterImage("c"), [*first_features(), RegisterBroker(Broker(1, (), features=SUPPORTED))])


def update(name: str, level: int, kind: int = UPGRADE) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)


def request(*updates: FeatureUpdateKey, validate_only: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)


def test_a_new_cluster_has_the_features_of_kafka_4_3_that_are_served(image: ClusterImage) -> None:
    assert finalized_features(image) == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 30,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }


def test_a_feature_that_is_not_served_is_not_told_even_when_it_is_stored(image: ClusterImage) -> None:
    assert "kraft.version" not in finalized_features(apply_all(image, [SetFeature("kraft.version", 1)]))


def test_a_feature_goes_down_and_up_again(image: ClusterImage) -> None:
    plan = update_features(image, request(update("transaction.version", 1, SAFE)), version=2)
    assert plan.changes == (SetFeature("transaction.version", 1),)
    assert [(each.feature, each.error_code) for each in plan.answers] == [("transaction.version", 0)]
    lower = apply_all(image, plan.changes)
    assert update_features(lower, request(update("transaction.version", 2)), version=2).changes
    assert (
        update_features(lower, request(update("transaction.version", 2), validate_only=True), version=2).changes == ()
    )


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (update("transaction.version", 1), "safe or unsafe downgrade"),
        (update("transaction.version", 3), "only supports versions 0-2"),
        (update("transaction.version", -1), "less than 0"),
        (update("transaction.version", 1, 9), "upgrade type"),
        (update("kraft.version", 1), "no controller quorum"),
        (update("colour.version", 1), "does not support this feature"),
        (update("colour.version", 0), "does not support this feature"),
        (update("metadata.version", 29, SAFE), "might delete metadata"),
        (update("metadata.version", 29, UNSAFE), "might delete metadata"),
        (update("metadata.version", 31), "only supports versions 7-30"),
    ],
)
def test_a_level_that_cannot_be_is_refused(image: ClusterImage, wanted: FeatureUpdateKey, words: str) -> None:
    with pytest.raises(InvalidUpdateVersion, match=words):
        update_features(image, request(wanted), version=2)


def test_a_downgrade_must_really_be_one(image: ClusterImage) -> None:
    lower = apply_all(image, [SetFeature("group.version", 0)])
    with pytest.raises(InvalidUpdateVersion, match="newer version"):
        update_features(lower, request(update("group.version", 1, SAFE)), version=2)


def test_a_feature_waits_for_the_metadata_version_it_needs(image: ClusterImage) -> None:
    old = apply_all(image, [SetFeature("metadata.version", 20), SetFeature("eligible.leader.replicas.version", 0)])
    wanted = update("eligible.leader.replicas.version", 1)
    with pytest.raises(InvalidUpdateVersion, match=r"needs metadata\.version 23"):
        update_features(old, request(wanted), version=2)
    assert len(update_features(old, request(update("metadata.version", 30), wanted), version=2).changes) == 2


def test_a_feature_named_twice_refuses_all(image: ClusterImage) -> None:
    with pytest.raises(InvalidRequest, match=r"group\.version"):
        update_features(image, request(update("group.version", 1), update("group.version", 1)), version=2)


def test_version_0_says_downgrade_in_its_own_way(image: ClusterImage) -> None:
    wanted = FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)
    assert update_features(image, request(wanted), version=0).changes == (SetFeature("group.version", 0),)
    assert apply_all(image, [SetFeature("group.version", 0)]).feature("group.version") == 0


# --- the quorum of controllers ---------------------------------------------------------------------------------------


@pytest.fixture
def under_controllers(image: ClusterImage) -> ClusterImage:
    """A quorum whose voters are named by settings."""
    broker, controller = Broker(1, (), features=FEATURES), ControllerNode(2, b"", (), FEATURES)
    return apply_all(image, [RegisterBroker(broker), RegisterController(controller)])


def test_the_level_of_the_quorum_is_for_who_leads_it(under_controllers: ClusterImage) -> None:
    asked: list[int] = []
    wanted = request(update("kraft.version", 1), update("group.version", 0, SAFE))
    plan = update_features(under_controllers, wanted, version=2, check_quorum=asked.append)
    assert (asked, raised_kraft_version(plan.changes)) == ([1], 1)
    with pytest.raises(InvalidUpdateVersion, match="formatted with 0, and keeps it"):
        update_features(under_controllers, wanted, version=2)


def test_a_level_that_the_quorum_has_is_confirmed(under_controllers: ClusterImage) -> None:
    at_1 = replace(under_controllers, kraft_version=1)
    assert update_features(at_1, request(update("kraft.version", 1)), version=2).changes == ()


def test_who_only_wants_to_know_hears_of_voters_that_do_not_know_the_level(under_controllers: ClusterImage) -> None:
    def refuse(level: int) -> None:
        raise InvalidUpdateVersion(f"voter 3 does not know {level}")

    wanted = request(update("kraft.version", 1), validate_only=True)
    with pytest.raises(InvalidUpdateVersion, match="voter 3"):
        update_features(under_controllers, wanted, version=2, check_quorum=refuse)
    assert update_features(under_controllers, wanted, version=2, check_quorum=lambda level: None).changes == ()


@pytest.mark.parametrize("node", [RegisterBroker(Broker(1, ())), RegisterController(ControllerNode(1, b"", ()))])
def test_every_registered_node_must_know_the_level(under_controllers: ClusterImage, node: Change) -> None:
    image = apply_all(under_controllers, [node])
    with pytest.raises(InvalidUpdateVersion, match="1 does not support this feature"):
        update_features(image, request(update("kraft.version", 1)), version=2, check_quorum=lambda level: None)


def test_the_level_of_the_quorum_is_no_record_of_the_image(under_controllers: ClusterImage) -> None:
    assert finalized_features(replace(under_controllers, kraft_version=1))["kraft.version"] == 1
