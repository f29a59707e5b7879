"""Which node is asked when any will do, and what is said when none could be."""

from types import SimpleNamespace

import pytest

from ottla.client.node_choice import NAMED_LIMIT, least_loaded, why_nobody
from ottla.errors import AuthenticationFailed, NotConnected
from ottla.net.peer import State
from ottla.values import Node

NODES = [Node(number, "host", 9092) for number in range(1, 6)]


class Connections(dict):
    """Connections by the id of their node."""

    def explained(self, connection, error):
        return error


def connection(state=State.READY, load=0, *, failure=None):
    peer = SimpleNamespace(state=state, load=load, failure=failure)
    return SimpleNamespace(peer=peer, is_backing_off=state is State.BACKING_OFF)


class Chance:
    def random(self):
        return 0.5


def chosen(connections, tried=()):
    found = least_loaded(NODES, Connections(connections), tried, Chance())
    return None if found is None else found.id


@pytest.mark.parametrize(
    ("connections", "expected"),
    [
        ({2: connection(load=9), 3: connection(State.CONNECTING)}, 2),
        ({3: connection(State.NEGOTIATING, 4), 4: connection(State.DISCONNECTED)}, 3),
        ({1: connection(load=2), 2: connection(load=1), 3: connection(load=3)}, 2),
        ({1: connection(State.BACKING_OFF)}, 2),
        ({}, 1),
    ],
    ids=["ready first", "then connecting", "then the fewest requests", "none that backs off", "any without one"],
)
def test_the_node_with_the_least_to_do_is_asked(connections, expected):
    assert chosen(connections) == expected


def test_nobody_is_asked_twice():
    assert chosen({1: connection()}, tried={1}) == 2
    assert chosen({}, tried={node.id for node in NODES}) is None


def test_when_nobody_can_be_asked_the_first_reasons_are_said():
    tried = {node.id: NotConnected(f"reason {node.id}") for node in NODES[:4]}
    backing_off = {5: connection(State.BACKING_OFF, failure=NotConnected("reason 5"))}
    said = str(why_nobody(NODES, Connections(backing_off), tried))
    assert all(f"reason {number}" in said for number in range(1, NAMED_LIMIT + 1))
    assert "(and 2 more)" in said
    assert "no broker is known" in str(why_nobody([], Connections(), {}))


def test_what_only_the_user_can_mend_comes_first():
    refused = AuthenticationFailed("wrong password")
    tried = {1: NotConnected("away")}
    found = why_nobody(NODES, Connections({2: connection(State.BACKING_OFF, failure=refused)}), tried)
    assert isinstance(found, AuthenticationFailed)
    assert "wrong password" in str(found)
