"""Client quotas."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cluster.changes import SetQuota, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.quotas import DEFAULT, EXACT, SPECIFIED, alter_client_quotas_plan, describe_client_quotas_plan
from ottla.errors import ERRORS, BrokerError, InvalidRequest, UnsupportedVersion
from ottla.protocol.messages import alter_client_quotas as altering
from ottla.protocol.messages import describe_client_quotas as describing

ALICE = (("user", "alice"),)
ANYBODY = (("user", None),)
PAIR = (("client-id", "app"), ("user", "alice"))
HOST = (("ip", "10.0.0.1"),)


def entry(entity: Any, **quotas: float | None) -> altering.EntryData:
    return altering.EntryData(
        entity=[altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[altering.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alter(image: ClusterImage, *entries: altering.EntryData, validate_only: bool = False) -> tuple[Any, list[str]]:
    request = altering.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    plan = alter_client_quotas_plan(image, request, is_address=lambda text: text[0].isdigit())
    found = [ERRORS[each.error_code] for each in plan.answers]
    return plan, ["NONE" if each is None else each.name for each in found]


def test_quotas_are_set_changed_and_removed() -> None:
    plan, codes = alter(ClusterImage("c"), entry(PAIR[::-1], producer_byte_rate=5.0, request_percentage=0.5))
    assert codes == ["NONE"]
    assert plan.changes == (SetQuota(PAIR, "producer_byte_rate", 5.0), SetQuota(PAIR, "request_percentage", 0.5))
    image = apply_all(ClusterImage("c"), plan.changes)
    assert alter(image, entry(PAIR, producer_byte_rate=5.0))[0].changes == ()
    plan, _ = alter(image, entry(PAIR, producer_byte_rate=None, request_percentage=None, consumer_byte_rate=None))
    assert len(apply_all(image, plan.changes).quotas) == 0
    assert len(plan.changes) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        entry((), producer_byte_rate=1.0),
        entry((("colour", "red"),), producer_byte_rate=1.0),
        entry((("user", ""),), producer_byte_rate=1.0),
        entry((("user", "a"), ("user", "b")), producer_byte_rate=1.0),
        entry((("user", "a"), ("ip", "1")), producer_byte_rate=1.0),
        entry((("ip", "nowhere"),), connection_creation_rate=1.0),
        entry((("ip", "1"),), producer_byte_rate=1.0),
        entry((("ip", "1"),), connection_creation_rate=2.0**31),
        entry((("ip", "1"),), connection_creation_rate=1.5),
        entry(ALICE, connection_creation_rate=1.0),
        entry(ALICE, producer_byte_rate=-1.0),
        entry(ALICE, producer_byte_rate=1.5),
        entry(ALICE, producer_byte_rate=float("inf")),
        entry(ALICE, request_percentage=float("nan")),
        entry(ALICE, colour=1.0),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused_and_the_others_are_set(wrong: altering.EntryData) -> None:
    plan, codes = alter(ClusterImage("c"), wrong, entry(HOST, connection_creation_rate=3.0))
    assert codes == ["INVALID_REQUEST", "NONE"]
    assert plan.changes == (SetQuota(HOST, "connection_creation_rate", 3.0),)


def test_an_entity_named_twice_is_set_once() -> None:
    plan, codes = alter(ClusterImage("c"), entry(ALICE, producer_byte_rate=1.0), entry(ALICE, producer_byte_rate=2.0))
    assert codes == ["NONE", "INVALID_REQUEST"]
    assert plan.changes == (SetQuota(ALICE, "producer_byte_rate", 1.0),)


def test_only_checking_sets_nothing() -> None:
    assert alter(ClusterImage("c"), entry(ALICE, producer_byte_rate=1.0), validate_only=True)[0].changes == ()


@pytest.fixture
def image() -> ClusterImage:
    return apply_all(ClusterImage("c"), [SetQuota(each, "producer_byte_rate", 1.0) for each in (ALICE, ANYBODY, PAIR)])


def told(image: ClusterImage, *components: tuple[str, int, str | None], strict: bool = False) -> list[Any]:
    request = describing.DescribeClientQuotasRequest(
        components=[describing.ComponentData(entity_type=k, match_type=m, match=t) for k, m, t in components],
        strict=strict,
    )
    found = describe_client_quotas_plan(image, request)
    return [tuple((part.entity_type, part.entity_name) for part in each.entity) for each in found]


def test_filters_match_exactly_by_default_or_by_presence(image: ClusterImage) -> None:
    assert told(image) == [PAIR, ANYBODY, ALICE]
    assert told(image, ("user", EXACT, "alice")) == [PAIR, ALICE]
    assert told(image, ("user", EXACT, "alice"), strict=True) == [ALICE]
    assert told(image, ("user", DEFAULT, None)) == [ANYBODY]
    assert told(image, ("user", SPECIFIED, None)) == [PAIR, ANYBODY, ALICE]
    assert told(image, ("user", SPECIFIED, None), ("client-id", SPECIFIED, None), strict=True) == [PAIR]
    assert told(image, ("client-id", DEFAULT, None)) == []
    assert told(image, strict=True) == []


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "a")], InvalidRequest),
        ([("colour", EXACT, "a")], UnsupportedVersion),
        ([("user", EXACT, None)], InvalidRequest),
        ([("user", DEFAULT, "a")], InvalidRequest),
        ([("user", SPECIFIED, "a")], InvalidRequest),
        ([("user", 3, None)], InvalidRequest),
        ([("user", EXACT, "a"), ("user", SPECIFIED, None)], InvalidRequest),
        ([("user", EXACT, "a"), ("ip", SPECIFIED, None)], InvalidRequest),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    image: ClusterImage, components: list[tuple[str, int, str | None]], error: type[BrokerError]
) -> None:
    with pytest.raises(error):
        told(image, *components)
