"""Which quota holds for a client: the most specific one that matches, in Kafka's order of precedence.

    users/U/clients/C, users/U/clients/<default>, users/U,
    users/<default>/clients/C, users/<default>/clients/<default>, users/<default>,
    clients/C, clients/<default>

1. Whoever matches the same quota under the same name shares it: `Owner` is who that is. A quota of a user is shared by
   his client ids, one of a client id by its users; one of users and client ids together belongs to the pair. A default
   is for each of those it stands for, not for all of them together.
2. A client without a client id has no quota of client ids, not even the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from ottla.cluster.model import QuotaEntity
from ottla.cluster.quotas import CLIENT_ID, IP, USER
from ottla.light_tuples import NamedTuple

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION_RATE: Final = "connection_creation_rate"

_DEFAULT: Final = ""
"""The name of the default entity, as no entity has an empty name."""
_Pair: TypeAlias = tuple[str | None, str | None]
"""User and client id; None where the quota is for any."""


class Owner(NamedTuple):
    """Who shares one quota; an empty name is any."""

    user: str
    client_id: str


class ClientLimits:
    """The limits of one kind of quota."""

    def __init__(self, limits: Mapping[_Pair, float]) -> None:
        self._limits = limits

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, user: str, client_id: str) -> tuple[Owner, float] | None:
        """Who shares the quota that holds for this client, and its limit; None when none does."""
        for pair, owner in _precedence(user, client_id):
            limit = self._limits.get(pair)
            if limit is not None:
                return owner, limit
        return None

    def of(self, owner: Owner) -> float | None:
        """The limit of those who share a quota; None when they have none any more."""
        users = [owner.user, _DEFAULT] if owner.user else [None]
        clients = [owner.client_id, _DEFAULT] if owner.client_id else [None]
        limits = (self._limits.get((user, client_id)) for user in users for client_id in clients)
        return next((limit for limit in limits if limit is not None), None)


def _precedence(user: str, client_id: str) -> Iterable[tuple[_Pair, Owner]]:
    for name in (user, _DEFAULT):
        if client_id:
            yield (name, client_id), Owner(user, client_id)
            yield (name, _DEFAULT), Owner(user, client_id)
        yield (name, None), Owner(user, "")
    if client_id:
        yield (None, client_id), Owner("", client_id)
        yield (None, _DEFAULT), Owner("", client_id)


def limits_of(quotas: Iterable[tuple[QuotaEntity, Mapping[str, float]]], key: str) -> ClientLimits:
    """The limits of one kind out of everything that the image has."""
    found: dict[_Pair, float] = {}
    for entity, values in quotas:
        names = {kind: _DEFAULT if name is None else name for kind, name in entity}
        if key in values and IP not in names:
            found[names.get(USER), names.get(CLIENT_ID)] = values[key]
    return ClientLimits(found)


def address_limits_of(quotas: Iterable[tuple[QuotaEntity, Mapping[str, float]]]) -> dict[str | None, float]:
    """How many connections a second may come from an address; None is any other address."""
    return {
        dict(entity)[IP]: values[CONNECTION_RATE]
        for entity, values in quotas
        if CONNECTION_RATE in values and IP in dict(entity)
    }
