"""Plans for client quotas: AlterClientQuotas and DescribeClientQuotas. What they do is in broker/quotas/.

1. A quota belongs to a user, a client id, both together, or an address; None as a name is the default of that type.
2. An entity is changed as a whole or not at all. The same entity twice in one request is changed once, and the second
   is refused, as in Kafka.
3. A filter matches types exactly, by default or by presence; a strict one matches no entity with further types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.cluster.changes import Change, SetQuota
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import QuotaEntity
from ottla.cluster.plan import FINE, ErrorFields, Plan, refusal, repeated
from ottla.errors import BrokerError, InvalidRequest, UnsupportedVersion
from ottla.protocol.messages import alter_client_quotas, describe_client_quotas

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

EXACT, DEFAULT, SPECIFIED = 0, 1, 2

_LONGEST: Final = 2**63 - 1
_CLIENT_KEYS: Final[Mapping[str, int | None]] = {
    "producer_byte_rate": _LONGEST,
    "consumer_byte_rate": _LONGEST,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_IP_KEYS: Final[Mapping[str, int | None]] = {"connection_creation_rate": 2**31 - 1}
"""Quotas and the largest whole number they may be; None where any number will do."""

Resolves = Callable[[str], bool]


# --- altering --------------------------------------------------------------------------------------------------------


def alter_client_quotas_plan(
    image: ClusterImage, request: alter_client_quotas.AlterClientQuotasRequest, *, is_address: Resolves
) -> Plan[alter_client_quotas.ResponseEntryData]:
    """Set and remove quotas. `is_address` says whether a text is an address or a host name that resolves."""
    changes: list[Change] = []
    answers: list[alter_client_quotas.ResponseEntryData] = []
    seen: set[QuotaEntity] = set()
    for entry in request.entries:
        outcome: ErrorFields = FINE
        try:
            changes += _altered(image, entry, seen, is_address)
        except BrokerError as error:
            outcome = refusal(error)
        answers.append(alter_client_quotas.ResponseEntryData(**outcome, entity=list(entry.entity)))
    plan = Plan(tuple(changes), answers)
    return plan.only_checked() if request.validate_only else plan


def _altered(
    image: ClusterImage, entry: alter_client_quotas.EntryData, seen: set[QuotaEntity], is_address: Resolves
) -> list[Change]:
    entity = _checked_entity(entry, is_address)
    if twice := repeated(op.key for op in entry.ops):
        raise InvalidRequest(f"duplicate quota keys: {', '.join(sorted(twice))}")
    if entity in seen:
        raise InvalidRequest("the entity is named more than once in the request")
    seen.add(entity)
    present: Mapping[str, float] = image.quotas.get(entity, {})
    wanted = {op.key: None if op.remove else _checked_value(entity, op) for op in entry.ops}
    return [SetQuota(entity, key, value) for key, value in wanted.items() if present.get(key) != value]


def _checked_entity(entry: alter_client_quotas.EntryData, is_address: Resolves) -> QuotaEntity:
    if not entry.entity:
        raise InvalidRequest("invalid empty client quota entity")
    if twice := repeated(part.entity_type for part in entry.entity):
        raise InvalidRequest(f"invalid client quota entity, duplicate entity entry {', '.join(sorted(twice))}")
    for part in entry.entity:
        if part.entity_type not in TYPES:
            raise InvalidRequest(f"unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            raise InvalidRequest(f"empty {part.entity_type} not supported")
    entity = tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))
    names = dict(entity)
    if IP in names and len(names) > 1:
        raise InvalidRequest("an ip entity cannot be combined with user or client-id")
    address = names.get(IP)
    if address is not None and not is_address(address):
        raise InvalidRequest(f"{address} is not a valid IP or resolvable host")
    return entity


def _checked_value(entity: QuotaEntity, op: alter_client_quotas.OpData) -> float:
    keys = _IP_KEYS if entity[0][0] == IP else _CLIENT_KEYS
    if op.key not in keys:
        raise InvalidRequest(f"invalid configuration key {op.key}; choose one of {', '.join(keys)}")
    if not op.value > 0:  # also says no to a value that is not a number
        raise InvalidRequest(f"quota {op.key} must be greater than 0")
    largest = keys[op.key]
    if op.value == float("inf") or (largest is not None and op.value > largest):
        raise InvalidRequest(f"proposed value for {op.key} is too large")
    if largest is not None and op.value % 1 > 1e-6:
        raise InvalidRequest(f"{op.key} cannot be a fractional value")
    return op.value


# --- describing ------------------------------------------------------------------------------------------------------


def describe_client_quotas_plan(
    image: ClusterImage, request: describe_client_quotas.DescribeClientQuotasRequest
) -> list[describe_client_quotas.EntryData]:
    """The quotas that match; a filter that makes no sense is raised."""
    exact, present = _checked_filter(request)
    return [
        _described(entity, quotas)
        for entity, quotas in image.quotas.items()
        if _matches(dict(entity), exact, present, strict=request.strict)
    ]


def _checked_filter(
    request: describe_client_quotas.DescribeClientQuotasRequest,
) -> tuple[dict[str, str | None], set[str]]:
    exact: dict[str, str | None] = {}
    present: set[str] = set()
    for each in request.components:
        _check_component(each)
        if each.entity_type in exact or each.entity_type in present:
            raise InvalidRequest(f"entity type {each.entity_type} cannot appear more than once in the filter")
        if each.match_type == SPECIFIED:
            present.add(each.entity_type)
        else:
            exact[each.entity_type] = each.match
    named = present | exact.keys()
    if IP in named and len(named) > 1:
        raise InvalidRequest("an ip filter cannot be combined with user or client-id")
    return exact, present


def _check_component(component: describe_client_quotas.ComponentData) -> None:
    if not component.entity_type:
        raise InvalidRequest("invalid empty entity type")
    if component.entity_type not in TYPES:
        raise UnsupportedVersion(f"unsupported entity type {component.entity_type}")
    if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
        raise InvalidRequest(f"unknown match type {component.match_type}")
    if (component.match is not None) != (component.match_type == EXACT):
        raise InvalidRequest("a match string belongs to an exact match, and to no other")


def _matches(
    entity: Mapping[str, str | None], exact: dict[str, str | None], present: set[str], *, strict: bool
) -> bool:
    if strict and len(entity) != len(exact) + len(present):
        return False
    return present <= entity.keys() and all(kind in entity and entity[kind] == name for kind, name in exact.items())


def _described(entity: QuotaEntity, quotas: Mapping[str, float]) -> describe_client_quotas.EntryData:
    return describe_client_quotas.EntryData(
        entity=[describe_client_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[describe_client_quotas.ValueData(key=key, value=value) for key, value in quotas.items()],
    )
