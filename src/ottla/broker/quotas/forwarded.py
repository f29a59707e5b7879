"""Whose request a broker passes on to the controller: the client id under which it does so says it.

    forwarding_client_id(1)                               "ottla-forwarder-1"
    forwarding_client_id(1, Client("alice", "a shop"))    "ottla-forwarder-1 alice a%20shop"
    forwarded_client(client_id)                           Client("alice", "a shop"); None where none is named

1. Changes of topics count against the quota of whoever asked for them, in one place for the whole cluster: at the
   controller, as in Kafka. Kafka wraps a request into an envelope with its sender; a controller of Kafka 3.9 among our
   brokers would not read one, but every controller reads client ids.
2. What a client id says is believed only of brokers (needs.was_checked); anybody else who writes such a client id has
   the quota of that client id.
3. A name that is too long for a header is left out; then only the broker that passes the request on counts it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from ottla.light_tuples import NamedTuple

FORWARDER: Final = "ottla-forwarder-"
"""How the client ids of brokers begin that pass on what clients asked them."""
NAMED_LIMIT: Final = 16_000
"""Characters; a header has room for twice as many."""


class Client(NamedTuple):
    """Who asks, as far as quotas are concerned."""

    user: str
    client_id: str


def client_of(principal: str, client_id: str) -> Client:
    return Client(principal.partition(":")[2], client_id)


def forwarding_client_id(broker_id: int, client: Client | None = None) -> str:
    made = f"{FORWARDER}{broker_id}"
    if client is None:
        return made
    named = " ".join((made, *(quote(name, safe="") for name in client)))
    return named if len(named) <= NAMED_LIMIT else made


def forwarded_client(client_id: str) -> Client | None:
    parts = client_id.split(" ")
    if len(parts) != 3 or not client_id.startswith(FORWARDER):
        return None
    return Client(unquote(parts[1]), unquote(parts[2]))
