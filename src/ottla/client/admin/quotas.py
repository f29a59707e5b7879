"""Quotas of users, clients and addresses.

An entity is written as a dictionary: {"user": "alice"}, {"user": "alice", "client-id": "loader"}, {"client-id": None}
for the default of all clients.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ottla.client.admin.plans import Plan, Question, Route, error_of, raise_error_of
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import alter_client_quotas, describe_client_quotas
from ottla.protocol.schema import Message

QuotaEntity: TypeAlias = Mapping[str, str | None]
EntityKey: TypeAlias = tuple[tuple[str, str | None], ...]


def key_of(entity: QuotaEntity) -> EntityKey:
    """An entity as something a dictionary can have as key: its parts in order."""
    return tuple(sorted(entity.items()))


class MatchType(enum.IntEnum):
    """How a part of an entity is compared."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaFilter(NamedTuple):
    """Which entities are meant: a type, and a name, its default, or any."""

    entity_type: str
    match_type: MatchType = MatchType.ANY
    name: str | None = None


@dataclass(frozen=True)
class DescribeQuotas(Question[dict[EntityKey, dict[str, float]]]):
    filters: Sequence[QuotaFilter] = ()
    strict: bool = False

    def ask(self, timeout_ms: int) -> Message:
        components = [
            describe_client_quotas.ComponentData(
                entity_type=each.entity_type, match_type=int(each.match_type), match=each.name
            )
            for each in self.filters
        ]
        return describe_client_quotas.DescribeClientQuotasRequest(components=components, strict=self.strict)

    def answer(self, response: Any) -> dict[EntityKey, dict[str, float]]:
        raise_error_of(response)
        return {
            key_of({part.entity_type: part.entity_name for part in each.entity}): {
                value.key: value.value for value in each.values
            }
            for each in response.entries or ()
        }


@dataclass(frozen=True)
class AlterQuotas(Plan[EntityKey, None]):
    """A quota of None is taken away."""

    route = Route.CONTROLLER

    quotas: Mapping[EntityKey, Mapping[str, float | None]]
    validate_only: bool = False

    def request(self, keys: Sequence[EntityKey], timeout_ms: int) -> Message:
        entries = [
            alter_client_quotas.EntryData(
                entity=[alter_client_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in key],
                ops=[
                    alter_client_quotas.OpData(key=name, value=0.0 if value is None else value, remove=value is None)
                    for name, value in self.quotas[key].items()
                ],
            )
            for key in keys
        ]
        return alter_client_quotas.AlterClientQuotasRequest(entries=entries, validate_only=self.validate_only)

    def results(self, keys: Sequence[EntityKey], response: Any) -> Iterator[tuple[EntityKey, OttlaError | None]]:
        for each in response.entries:
            yield key_of({part.entity_type: part.entity_name for part in each.entity}), error_of(each)
