"""What is served has a handler, and what has a handler is served."""

import inspect
import re
from pathlib import Path

import pytest

from ottla.broker import handlers
from ottla.broker.requests.served import (
    BROKER_APIS,
    CLUSTER_APIS,
    CONTROLLER_APIS,
    SERVED_APIS,
    handler_of,
    served,
    served_at,
)
from ottla.protocol.api import APIS, APIS_BY_NAME, ListenerType

ROOMS = Path(handlers.__file__).parent
CONTROLLERS = sorted(path.stem for path in (ROOMS / "controllers").glob("[a-z]*.py"))
MODULES = sorted(path.stem for path in ROOMS.rglob("[a-z]*.py") if path.parent.name != "controllers")


@pytest.mark.parametrize("key", sorted(CLUSTER_APIS))
def test_a_handler_declares_its_own_api_and_handles_it(key):
    api = APIS[key]
    assert served(api).request is api.request
    assert list(inspect.signature(handler_of(api).handle).parameters) == ["broker", "request", "context"]


def test_every_handler_is_served():
    assert sorted(APIS[key].module for key in CLUSTER_APIS) == MODULES


def test_the_handlers_say_what_they_promise():
    assert all(handler_of(APIS[key]).__doc__ for key in CLUSTER_APIS)
    assert all(handler_of(APIS[key], is_controller=True).__doc__ for key in CONTROLLER_APIS)


@pytest.mark.parametrize("key", sorted(CONTROLLER_APIS))
def test_what_controllers_answer_has_a_handler_that_declares_it(key):
    api = APIS[key]
    assert api.listeners & ListenerType.CONTROLLER
    assert served(api, is_controller=True).request is api.request
    assert list(inspect.signature(handler_of(api, is_controller=True).handle).parameters) == [
        "broker",
        "request",
        "context",
    ]


def test_controllers_answer_all_that_they_do_in_kafka():
    assert {each.name for each in APIS.values() if each.listeners & ListenerType.CONTROLLER} == {
        APIS[key].name for key in CONTROLLER_APIS
    }
    assert set(CONTROLLERS) <= {APIS[key].module for key in CONTROLLER_APIS}


def test_what_is_between_brokers_has_its_handlers_in_a_room_of_their_own():
    in_room = {path.stem for path in (ROOMS / "between_brokers").glob("[a-z]*.py")}
    assert {APIS[key].module for key in BROKER_APIS} == in_room


def test_a_broker_on_its_own_takes_no_orders():
    assert not SERVED_APIS & BROKER_APIS
    assert {APIS[key].name for key in BROKER_APIS} >= {"LeaderAndIsr", "StopReplica", "UpdateMetadata"}


def test_no_kind_of_listener_serves_what_has_no_handler():
    every_kind = served_at(ListenerType.BROKER | ListenerType.ZK_BROKER | ListenerType.CONTROLLER)
    assert every_kind == CLUSTER_APIS
    assert APIS_BY_NAME["Vote"].key not in every_kind, "brokers have no vote"


@pytest.mark.parametrize("path", sorted(ROOMS.rglob("[a-z]*.py")), ids=lambda path: path.stem)
def test_handlers_ask_what_somebody_may_through_their_needs(path):
    """What is asked past them would be missing in docs/access-rules.md."""
    asked = re.findall(r"\baccess\.(\w+)", path.read_text())
    assert set(asked) <= {"is_on", "operations"}
