"""Whose request a broker passes on is told by its client id, and believed of brokers only."""

from __future__ import annotations

import pytest

from ottla.broker.quotas.forwarded import FORWARDER, Client, client_of, forwarded_client, forwarding_client_id

NAMES = ["", "alice", "a shop", "CN=anna, O=näh & co", "100%", "a/b:c\n", "ottla-forwarder-1 x y"]


@pytest.mark.parametrize("user", NAMES)
@pytest.mark.parametrize("client_id", NAMES)
def test_every_name_comes_back_as_it_was(user: str, client_id: str) -> None:
    made = forwarding_client_id(3, Client(user, client_id))
    assert made.startswith(f"{FORWARDER}3")
    assert made.isascii()
    assert forwarded_client(made) == (user, client_id)


def test_nobody_is_named_where_nothing_counts_or_the_name_is_too_long() -> None:
    assert forwarding_client_id(3) == forwarding_client_id(3, Client("u", "x" * 20_000)) == "ottla-forwarder-3"
    assert forwarded_client("ottla-forwarder-3") is None


@pytest.mark.parametrize("client_id", ["", "shop", "a b c", "ottla-forwarder-1 a", "ottla-forwarder-1 a b c"])
def test_other_client_ids_name_nobody(client_id: str) -> None:
    assert forwarded_client(client_id) is None


def test_the_name_of_a_user_may_have_colons() -> None:
    assert client_of("User:a:b", "shop") == ("a:b", "shop")
